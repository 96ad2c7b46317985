// Where the time of packing goes: the system zeroes the pages that we write, which is most of it, and reads and maps
// the file. So each thread takes pieces of 4 MB. That keeps two of them from zeroing one large page at the same time,
// and a piece of the file is mapped by one call instead of a thousand faults. The advice SEQUENTIAL makes the system
// read ahead in large pages; asking for pieces in advance (WILLNEED) costs ten times the system time, as it reads
// small ones. Where the file and the weights do not fit into memory side by side, what was rewritten leaves the page
// cache, too: the next start would find only the end of the file there, which its own beginning evicts, and the small
// pages of the cache are in the way of the weights' large ones. With several nodes of memory a thread takes the pieces
// that are to lie on its node (near_pieces.h).
#include "engine/packed_weights.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "base/advice.h"
#include "base/parallel.h"
#include "engine/near_pieces.h"
#include "runtime/available_memory.h"
#include "runtime/cores.h"
#include "runtime/memory_nodes.h"

namespace smelt {
namespace {

constexpr int64_t kPieceBytes = 4 << 20;

// The file's mapping will be read once, front to back, while this lives.
class ReadOnce {
 public:
  explicit ReadOnce(const PackPlan& plan) : plan_(plan) { advise_all(Advice::Sequential); }
  ~ReadOnce() { advise_all(Advice::Normal); }
  ReadOnce(const ReadOnce&) = delete;
  ReadOnce& operator=(const ReadOnce&) = delete;

 private:
  void advise_all(Advice advice) {
    for (const auto& mapping : plan_.mappings) advise(mapping, advice);
  }
  const PackPlan& plan_;
};

bool fits_beside_file(const PackPlan& plan) {
  uint64_t both = static_cast<uint64_t>(plan.bytes);
  for (const auto& mapping : plan.mappings) both += mapping.size();
  return both <= available_memory();
}

// Maps the pages of a piece of the file, rewrites it and lets go of the pages, which stay in the page cache if wanted.
void pack_piece(const PackPiece& piece, bool keep_cached, std::byte* to) {
  const GgufType type = piece.of->tensor->type;
  const int64_t blocks = piece.row_bytes() / static_cast<int64_t>(info_of(type).bytes);
  const std::span<const std::byte> from = {piece.from(), static_cast<size_t>(piece.bytes())};
  if (piece.of->is_mapped) advise(from, Advice::PopulateRead);
  if (piece.of->layout.is_packed())
    interleave_rows(type, piece.of->layout, piece.rows, blocks, from.data(), to);
  else
    std::copy(from.begin(), from.end(), to);
  if (piece.of->is_mapped && !keep_cached) advise(from, Advice::PageOut);
  if (piece.of->is_mapped) advise(from, Advice::DontNeed);
}

// Where the host does not see the memory of the device, pieces are made beside it and sent there.
Status place_piece(const PackPiece& piece, bool keep_cached, Device& device, std::byte* to) {
  if (device.host_sees_memory()) {
    pack_piece(piece, keep_cached, to);
    return {};
  }
  std::vector<std::byte> made(static_cast<size_t>(piece.bytes()));
  pack_piece(piece, keep_cached, made.data());
  return device.upload(to, made);
}

}  // namespace

Result<PackedWeights> PackedWeights::pack(const PackPlan& plan, const LoadOptions& options, Device& device) {
  PackedWeights packed;
  if (plan.bytes == 0) return packed;
  const bool keep_cached = fits_beside_file(plan);
  SMELT_TRY(memory, DeviceMemory::allocate(device, static_cast<size_t>(plan.bytes), "the weights"));
  packed.memory_ = std::move(memory);
  const std::vector<int> nodes = device.host_sees_memory() ? nodes_of_workers(device.workers()) : std::vector<int>();
  const std::vector<int> cpus = nodes.empty() ? std::vector<int>() : core_cpus();
  // What lies on one node is a large page at least.
  const std::vector<PackPiece> pieces = cut_in_pieces(plan, nodes.empty() ? kPieceBytes : kPieceBytes / 2);
  NearPieces near(pieces, nodes);
  const ReadOnce reading(plan);
  std::atomic<int64_t> done = 0;
  std::mutex failing;
  Status failure;
  for_each_in_parallel(pieces.size(), options.threads, [&](size_t, int worker) {
    if (options.cancelled()) return;
    const size_t place = nodes.empty() ? 0 : static_cast<size_t>(worker) % nodes.size();
    const PinnedHere pinned(nodes.empty() ? -1 : cpus[place]);
    const size_t i = near.take(nodes.empty() ? 0 : nodes[place]);
    if (Status placed = place_piece(pieces[i], keep_cached, device, packed.memory_.data() + pieces[i].to()); !placed) {
      std::lock_guard lock(failing);
      failure = placed;
    }
    done += pieces[i].bytes();
    if (worker == 0) options.report(done, plan.bytes);
  });
  if (options.cancelled()) return Error{"[load] interrupted"};
  SMELT_CHECK(failure);
  packed.bytes_ = {packed.memory_.data(), packed.memory_.size()};
  packed.place(plan);
  return packed;
}

PackedWeights PackedWeights::mapped(const PackPlan& plan, PackCache::Mapped pack) {
  PackedWeights packed;
  packed.file_ = std::move(pack.file);
  packed.bytes_ = pack.weights;
  packed.place(plan);
  return packed;
}

void PackedWeights::place(const PackPlan& plan) {
  for (const PackedTensor& t : plan.tensors)
    places_[{std::string(t.tensor->name), t.layout}] = bytes_.data() + t.offset;
}

const std::byte* PackedWeights::find(const std::string& name, WeightLayout layout) const {
  const auto it = places_.find({name, layout});
  return it == places_.end() ? nullptr : it->second;
}

}  // namespace smelt
