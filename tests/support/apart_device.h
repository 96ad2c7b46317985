// A processor whose memory the host does not see, as that of a GPU: whoever reads or writes it other than through the
// device ends with a fault.
#pragma once

#include <sys/mman.h>

#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "base/ensure.h"
#include "runtime/device.h"

namespace smelt::test {

class ApartDevice : public Device {
 public:
  explicit ApartDevice(std::unique_ptr<Device> inner) : inner_(std::move(inner)) {}

  std::string name() const override { return inner_->name(); }
  std::string title() const override { return inner_->title(); }
  const Machine& machine() const override { return inner_->machine(); }
  int workers() const override { return inner_->workers(); }

  Result<void*> allocate(size_t bytes, std::string_view) override {
    void* memory = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ENSURE(memory != MAP_FAILED, "no memory for a test");
    pieces_[memory] = bytes;
    return memory;
  }
  void release(void* memory, size_t bytes) override {
    pieces_.erase(memory);
    ::munmap(memory, bytes);
  }
  bool host_sees_memory() const override { return false; }
  uint64_t available_memory() const override { return inner_->available_memory(); }
  Status upload(void* to, std::span<const std::byte> from) override {
    const Seen seen(pieces_);
    std::memcpy(to, from.data(), from.size());
    return {};
  }
  Status clear(void* to, size_t bytes) override {
    const Seen seen(pieces_);
    std::memset(to, 0, bytes);
    return {};
  }
  Status read_back(std::span<std::byte> to, const void* from) override {
    const Seen seen(pieces_);
    std::memcpy(to.data(), from, to.size());
    return {};
  }

  Result<std::vector<const Executable*>> compile(std::span<const Source> sources, const ProgressFn& progress = {},
                                                 const std::atomic<bool>* cancel = nullptr) override {
    return inner_->compile(sources, progress, cancel);
  }
  std::string key_of(const Source& source) const override { return inner_->key_of(source); }
  std::optional<std::string> recall(std::string_view question) const override { return inner_->recall(question); }
  void remember(std::string_view question, std::string_view answer) const override {
    inner_->remember(question, answer);
  }
  std::string assembly(const Source& source) const override { return inner_->assembly(source); }
  std::string cache_problem() const override { return inner_->cache_problem(); }
  CompileStats stats() const override { return inner_->stats(); }
  Result<const Executable*> memory_reader() override { return inner_->memory_reader(); }

  Result<std::unique_ptr<CapturedPlan>> capture(std::span<const Launch> launches) override {
    return inner_->capture(launches);
  }
  Result<uint64_t> start(const CapturedPlan& plan, std::span<const int64_t> symbols,
                         const RunOptions& options) override {
    if (fails) return Error{"[apart] the device is gone"};
    const Seen seen(pieces_);
    return inner_->start(plan, symbols, options);
  }

  bool fails = false;  // every run from now on

 private:
  using Pieces = std::map<void*, size_t>;

  // While this lives, all memory can be read and written.
  struct Seen {
    explicit Seen(const Pieces& pieces) : pieces(pieces) { allow(PROT_READ | PROT_WRITE); }
    ~Seen() { allow(PROT_NONE); }
    void allow(int what) const {
      for (const auto& [memory, bytes] : pieces) ENSURE(::mprotect(memory, bytes, what) == 0, "mprotect failed");
    }
    const Pieces& pieces;
  };

  std::unique_ptr<Device> inner_;
  Pieces pieces_;
};

}  // namespace smelt::test
