#include "engine/packed_weights.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "engine/prefault.h"

namespace smelt {
namespace {

constexpr int64_t kPieceBytes = 1 << 20;  // of work that a thread takes at a time

int64_t padded(uint64_t bytes) { return (static_cast<int64_t>(bytes) + 63) / 64 * 64; }

// Hints about the whole pages of a tensor in the mapping; none for a model that is in memory already.
void advise(const GgufTensor& tensor, bool mapped, int advice) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(tensor.data) + page - 1) / page * page;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(tensor.data) + tensor.bytes) / page * page;
  if (mapped && begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

void pack_tensor(const GgufTensor& tensor, WeightLayout layout, std::byte* to, int threads) {
  const auto rows = static_cast<int64_t>(tensor.rows()),
             row_bytes = static_cast<int64_t>(tensor.row_bytes());
  const auto blocks = row_bytes / static_cast<int64_t>(info_of(tensor.type).bytes);
  const int64_t piece =
      std::max<int64_t>(1, kPieceBytes / (row_bytes * layout.interleave)) * layout.interleave;
  std::atomic<int64_t> next = 0;
  const auto work = [&] {
    for (int64_t row; (row = next.fetch_add(piece)) < rows;)
      interleave_rows(tensor.type, layout.interleave, std::min(piece, rows - row), blocks,
                      tensor.data + row * row_bytes, to + row * row_bytes);
  };
  std::vector<std::thread> helpers;
  if (rows > piece)
    for (int i = 1; i < threads; ++i) helpers.emplace_back(work);
  work();
  for (std::thread& t : helpers) t.join();
}

}  // namespace

Result<PackedWeights> PackedWeights::pack(const GgufFile& file,
                                          const std::map<std::string, WeightLayout>& layouts,
                                          int threads,
                                          const std::function<void(double)>& progress) {
  PackedWeights packed;
  int64_t total = 0;
  std::vector<std::pair<const GgufTensor*, WeightLayout>> list;
  for (const auto& [name, layout] : layouts) {
    list.emplace_back(file.find(name), layout);
    total += padded(list.back().first->bytes);
  }
  if (total == 0) return packed;
  if (const uint64_t available = available_memory(); static_cast<uint64_t>(total) > available)
    return Error{"[load] " + file.path() + ": the weights take " + std::to_string(total) +
                 " bytes of memory, " + std::to_string(available) +
                 " are available; close other programs, or run with --no-repack, which reads the "
                 "file in place"};
  SMELT_TRY(buffer, Buffer::allocate(static_cast<size_t>(total) + 64));
  packed.buffer_ = std::move(buffer);
  // In the order of the file, which disks like.
  std::sort(list.begin(), list.end(),
            [](const auto& a, const auto& b) { return a.first->data < b.first->data; });
  std::byte* to = packed.buffer_.data();
  int64_t done = 0;
  const bool mapped = reinterpret_cast<uintptr_t>(file.shards()[0].bytes.data()) %
                          static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)) ==
                      0;
  for (size_t i = 0; i < list.size(); ++i) {
    const auto& [tensor, layout] = list[i];
    if (i + 1 < list.size())
      advise(*list[i + 1].first, mapped, MADV_WILLNEED);  // read while this one is rewritten
    pack_tensor(*tensor, layout, to, threads);
    advise(*tensor, mapped,
           MADV_DONTNEED);  // not needed again: the pages go back to the page cache
    packed.places_[std::string(tensor->name)] = to;
    to += padded(tensor->bytes);
    progress(static_cast<double>(done += padded(tensor->bytes)) / static_cast<double>(total));
  }
  return packed;
}

const std::byte* PackedWeights::find(const std::string& name) const {
  auto it = places_.find(name);
  return it == places_.end() ? nullptr : it->second;
}

}  // namespace smelt
