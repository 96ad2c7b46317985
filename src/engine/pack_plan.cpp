#include "engine/pack_plan.h"

#include <algorithm>

namespace smelt {
namespace {

// The widest vector, so that no load of a kernel crosses more lines than it must.
constexpr int64_t kAlign = 64;

int64_t padded(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

}  // namespace

PackPlan PackPlan::make(const GgufFile& file, const WantedLayouts& layouts) {
  PackPlan plan;
  for (const GgufFile::Shard& shard : file.shards())
    if (shard.is_mapped) plan.mappings.push_back(shard.bytes);
  for (const auto& [name, layout] : layouts) {
    const GgufTensor* tensor = file.find(name);
    plan.tensors.push_back({tensor, layout, 0, file.shards()[tensor->shard].is_mapped});
  }
  std::sort(plan.tensors.begin(), plan.tensors.end(), [](const PackedTensor& a, const PackedTensor& b) {
    return a.tensor->shard != b.tensor->shard ? a.tensor->shard < b.tensor->shard : a.tensor->offset < b.tensor->offset;
  });
  for (PackedTensor& t : plan.tensors) {
    t.offset = plan.bytes;
    plan.bytes += padded(static_cast<int64_t>(t.tensor->bytes));
  }
  return plan;
}

std::vector<PackPiece> cut_in_pieces(const PackPlan& plan, int64_t bytes) {
  std::vector<PackPiece> pieces;
  for (const PackedTensor& t : plan.tensors) {
    const int64_t rows = static_cast<int64_t>(t.tensor->rows()), together = t.layout.rows_together(),
                  group_bytes = static_cast<int64_t>(t.tensor->row_bytes()) * together;
    const int64_t step = std::max<int64_t>(1, bytes / group_bytes) * together;
    for (int64_t row = 0; row < rows; row += step) pieces.push_back({&t, row, std::min(step, rows - row)});
  }
  return pieces;
}

}  // namespace smelt
