#include "app/synthetic_model.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

#include "app/synthetic_blocks.h"
#include "app/synthetic_file.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "base/system_calls.h"
#include "model/dequant.h"
#include "runtime/available_memory.h"
#include "runtime/cores.h"

namespace smelt {
namespace {

constexpr uint64_t kPatternBytes = 16 << 20;           // of random blocks that tensors share, about
constexpr uint64_t kPieceBytes = 4 << 20;              // that a thread fills at a time, about
constexpr uint64_t kWorkingBytes = uint64_t{1} << 30;  // that a suggestion leaves for caches and activations

uint64_t page_size() { return static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)); }
uint64_t up_to(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

// Random blocks of one type and size of values, somewhere in the store.
struct Pattern {
  GgufType type;
  double mean, deviation;
  bool shared = false;  // by several tensors: whole blocks and whole pages
  uint64_t bytes = 0;
  uint64_t offset = 0;  // in the store
};

// Which bytes stand for which tensor.
class Store {
 public:
  Store(const std::vector<SyntheticTensor>& tensors, uint64_t first_offset, bool own_bytes)
      : end_(first_offset), own_bytes_(own_bytes) {
    for (const SyntheticTensor& t : tensors) pattern_of_.push_back(add(t));
    for (Pattern& p : patterns_) {
      p.offset = end_;
      end_ += up_to(p.bytes, page_size());
    }
  }

  uint64_t bytes() const { return end_; }
  const std::vector<Pattern>& patterns() const { return patterns_; }
  const Pattern& pattern_of(size_t tensor) const { return patterns_[pattern_of_[tensor]]; }

  // Blocks and pages come out even after so many bytes of a type.
  static uint64_t unit(GgufType type) { return std::lcm(page_size(), uint64_t{info_of(type).bytes}); }

 private:
  size_t add(const SyntheticTensor& t) {
    if (own_bytes_ || is_plain(t.type)) {
      patterns_.push_back({t.type, t.mean, t.deviation, false, t.bytes});
      return patterns_.size() - 1;
    }
    const auto [at, is_new] = shared_.try_emplace({t.type, t.deviation}, patterns_.size());
    if (is_new) patterns_.push_back({t.type, t.mean, t.deviation, true});
    Pattern& pattern = patterns_[at->second];
    pattern.bytes = std::max(pattern.bytes, up_to(std::min(t.bytes, kPatternBytes), unit(t.type)));
    return at->second;
  }

  uint64_t end_;
  bool own_bytes_;
  std::vector<Pattern> patterns_;
  std::vector<size_t> pattern_of_;  // by tensor
  std::map<std::pair<GgufType, double>, size_t> shared_;
};

void fill(const Store& store, std::byte* base) {
  struct Piece {
    const Pattern* pattern;
    uint64_t at, bytes;
  };
  std::vector<Piece> pieces;
  for (const Pattern& p : store.patterns()) {
    const uint64_t block = info_of(p.type).bytes, step = kPieceBytes / block * block;
    for (uint64_t at = 0; at < p.bytes; at += step) pieces.push_back({&p, at, std::min(step, p.bytes - at)});
  }
  Progress progress("making random weights", store.bytes(), ProgressUnit::bytes);
  for_each_in_parallel(pieces.size(), static_cast<int>(core_cpus().size()), [&](size_t i, int) {
    const auto& [p, at, bytes] = pieces[i];
    fill_with_random_blocks(p->type, p->mean, p->deviation, i, {base + p->offset + at, bytes});
    progress.add(bytes);
  });
}

Error no_memory(const SyntheticSpec& spec, uint64_t bytes) {
  return Error{"[synthetic] " + spec.name + ": the system refuses " + std::to_string(bytes) +
               " bytes of memory; free some, or measure fewer layers, such as SHAPE:MIX:4"};
}

// Memory without a name in any folder, which many places can map.
class SharedMemory {
 public:
  explicit SharedMemory(uint64_t bytes) : bytes_(bytes), file_(open_memory_file()) {
    if (file_ < 0 || ::ftruncate(file_, static_cast<off_t>(bytes)) != 0) return;
    void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    if (memory != MAP_FAILED) data_ = static_cast<std::byte*>(memory);
  }
  ~SharedMemory() {
    if (data_) ::munmap(data_, bytes_);
    if (file_ >= 0) ::close(file_);
  }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::byte* data() const { return data_; }  // null where the system refused
  bool map_at(std::byte* place, uint64_t offset, uint64_t bytes) const {
    return ::mmap(place, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, file_, static_cast<off_t>(offset)) == place;
  }

 private:
  uint64_t bytes_;
  int file_;
  std::byte* data_ = nullptr;
};

// Maps a tensor's pattern as often as it takes, each tensor from another place of it on.
bool map_tensor(const SharedMemory& memory, const Pattern& pattern, size_t number, uint64_t bytes, std::byte* place) {
  const uint64_t unit = Store::unit(pattern.type);
  uint64_t at = pattern.shared ? number * 7 % (pattern.bytes / unit) * unit : 0;
  for (uint64_t done = 0; done < bytes; at = 0) {
    const uint64_t step = std::min(bytes - done, pattern.bytes - at);
    if (!memory.map_at(place + done, pattern.offset + at, step)) return false;
    done += step;
  }
  return true;
}

uint64_t bytes_of_session(const SyntheticSpec& spec, bool own_bytes) {
  const std::vector<SyntheticTensor> tensors = tensors_of(spec);
  const Store store(tensors, 0, own_bytes);
  uint64_t bytes = store.bytes();
  if (!own_bytes)
    for (const SyntheticTensor& t : tensors)
      if (!is_plain(t.type)) bytes += t.bytes;  // the copy in another layout
  return bytes;
}

// The name of the same model with as many layers as fit; empty where none does.
std::string most_layers_that_fit(const SyntheticSpec& spec, bool own_bytes, uint64_t available) {
  for (int64_t layers = spec.model->numbers().layers; layers > 0; --layers) {
    const auto smaller = parse_synthetic(spec.shape_name + ":" + spec.mix + ":" + std::to_string(layers));
    if (smaller && bytes_of_session(*smaller, own_bytes) + kWorkingBytes <= available) return smaller->name;
  }
  return "";
}

Status check_memory(const SyntheticSpec& spec, bool own_bytes) {
  const uint64_t needed = bytes_of_session(spec, own_bytes), available = available_memory();
  if (needed <= available) return {};
  const std::string less = most_layers_that_fit(spec, own_bytes, available);
  return Error{
      "[synthetic] " + spec.name + ": its weights take " + std::to_string(needed) + " bytes of memory, " +
      std::to_string(available) + " are available; " +
      (less.empty() ? "not even one layer fits, so choose a smaller model" : "measure fewer layers, such as " + less)};
}

}  // namespace

Result<std::unique_ptr<SyntheticModel>> SyntheticModel::make(const SyntheticSpec& spec, SyntheticUse use) {
  const bool own_bytes = use == SyntheticUse::in_place;
  if (use != SyntheticUse::copied) SMELT_CHECK(check_memory(spec, own_bytes));
  const std::vector<SyntheticTensor> tensors = tensors_of(spec);
  const NewHead layout = synthetic_file(spec, tensors, page_size());
  const uint64_t head_bytes = layout.bytes.size();
  const Store store(tensors, head_bytes, own_bytes);
  const SharedMemory memory(store.bytes());
  if (!memory.data()) return no_memory(spec, store.bytes());
  std::memcpy(memory.data(), layout.bytes.data(), head_bytes);
  fill(store, memory.data());

  // Addresses for the whole file, then what lies there.
  const uint64_t size = head_bytes + layout.data_bytes;
  void* place = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return no_memory(spec, size);
  const std::span<std::byte> bytes(static_cast<std::byte*>(place), size);
  std::unique_ptr<SyntheticModel> model(new SyntheticModel(bytes));
  bool mapped = memory.map_at(bytes.data(), 0, head_bytes);
  for (size_t i = 0; i < tensors.size(); ++i)
    mapped = mapped && map_tensor(memory, store.pattern_of(i), i, tensors[i].bytes,
                                  bytes.data() + head_bytes + layout.offsets[i]);
  if (!mapped) return no_memory(spec, size);
  SMELT_TRY(file, GgufFile::open_memory(bytes, spec.name));
  model->file_ = std::make_unique<GgufFile>(std::move(file));
  return model;
}

Result<std::unique_ptr<SyntheticModel>> SyntheticModel::without_weights(const SyntheticSpec& spec) {
  const NewHead layout = synthetic_file(spec, tensors_of(spec), page_size());
  const uint64_t size = layout.bytes.size() + layout.data_bytes;
  void* place = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return no_memory(spec, size);
  const std::span<std::byte> bytes(static_cast<std::byte*>(place), size);
  std::unique_ptr<SyntheticModel> model(new SyntheticModel(bytes));
  std::memcpy(bytes.data(), layout.bytes.data(), layout.bytes.size());
  SMELT_TRY(file, GgufFile::open_memory(bytes, spec.name));
  model->file_ = std::make_unique<GgufFile>(std::move(file));
  return model;
}

void SyntheticModel::release_pages() const {
  ::madvise(mapping_.data(), mapping_.size(), MADV_DONTNEED);  // advice: no matter if refused
}

SyntheticModel::~SyntheticModel() {
  file_.reset();
  ::munmap(mapping_.data(), mapping_.size());
}

}  // namespace smelt
