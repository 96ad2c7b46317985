// A GPU of Apple that is not there: keeps its memory in the process, under other addresses than the host has, notes
// what is asked of it, and fails where a test wants it to. A run does what a test says, as late as it may: when
// somebody waits for its event. Who reads before that finds what was there before.
#pragma once

#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/metal/gpu.h"

namespace smelt::test {

// What tests look at; it outlives the device whose GPU this is.
struct FakeMetalLog {
  struct Encoded {
    std::vector<MetalDispatch> dispatches;
    std::vector<MetalBuffer> resident;
  };

  std::vector<Encoded> encoded;
  std::vector<size_t> started;                // positions in `encoded`
  std::vector<size_t> copies;                 // of each start: how many
  std::vector<std::string> order;             // "start 1", "wait 1", "run 1": by events, as they happened
  std::function<void(const Encoded&)> run;    // what the kernels of a plan do
  uint64_t fails = 0;                         // the event of a run that fails
  std::vector<std::string> compiled, loaded;  // texts, and what was kept of them
  std::vector<std::string> allocated;         // what for
  int waits = 0, adopted = 0;
  int open_objects = 0;  // buffers, pipelines, plans

  std::string fail_in;  // the call that fails, and which of them
  int fail_after = 0;
  std::map<std::string, int> count;
  std::mutex mutex;

  // An Error, where this call is to fail.
  Status enter(const std::string& call) {
    std::lock_guard lock(mutex);
    if (call == fail_in && count[call]++ == fail_after) return Error{"[metal] it failed in " + call};
    return {};
  }
};

class FakeMetal : public MetalGpu {
 public:
  static constexpr uint64_t kAway = uint64_t{1} << 44;  // from an address of the host to that of the GPU
  static constexpr size_t kPage = 4096, kMostDispatches = 4;

  explicit FakeMetal(FakeMetalLog& log, MetalProperties properties = usual())
      : log_(log), properties_(std::move(properties)) {}

  static MetalProperties usual() {
    return {.title = "Apple M3 Max",
            .compiler = "a fake",
            .memory_bytes = uint64_t{1} << 34,
            .buffer_bytes = 16 * kPage,
            .page_bytes = kPage,
            .threadgroup_bytes = 32 << 10};
  }

  const MetalProperties& properties() const override { return properties_; }
  uint64_t available_memory() const override { return properties_.memory_bytes; }

  Result<MetalMemory> allocate(size_t bytes, std::string_view what) override {
    SMELT_CHECK(log_.enter("allocate"));
    log_.allocated.emplace_back(what);
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage));
    std::memset(memory, 0, bytes);
    return buffer(memory, true);
  }
  Result<MetalMemory> adopt(std::span<const std::byte> pages) override {
    SMELT_CHECK(log_.enter("adopt"));
    ++log_.adopted;
    return buffer(const_cast<std::byte*>(pages.data()), false);
  }
  void release(MetalBuffer handle) override {
    const auto* held = reinterpret_cast<const Held*>(handle);
    if (held->is_own) std::free(held->memory);
    delete held;
    --log_.open_objects;
  }

  Result<std::string> compile(const MetalText& text) const override {
    SMELT_CHECK(log_.enter("compile"));
    std::lock_guard lock(log_.mutex);
    log_.compiled.emplace_back(text.text);
    return "code of " + std::string(text.text);
  }
  Result<MetalPipeline> load(const MetalText& text, std::string_view kept) override {
    SMELT_CHECK(log_.enter("load"));
    std::lock_guard lock(log_.mutex);
    log_.loaded.push_back(std::string(text.text) + " | " + std::string(kept));
    ++log_.open_objects;
    return reinterpret_cast<MetalPipeline>(new std::string(text.entry));
  }
  void release(MetalPipeline pipeline) override {
    delete reinterpret_cast<std::string*>(pipeline);
    --log_.open_objects;
  }
  size_t code_bytes() const override { return 0; }

  size_t most_dispatches() const override { return kMostDispatches; }
  Result<MetalCommands> encode(std::span<const MetalDispatch> dispatches,
                               std::span<const MetalBuffer> resident) override {
    SMELT_CHECK(log_.enter("encode"));
    log_.encoded.push_back({{dispatches.begin(), dispatches.end()}, {resident.begin(), resident.end()}});
    ++log_.open_objects;
    return reinterpret_cast<MetalCommands>(new size_t(log_.encoded.size() - 1));
  }
  void release(MetalCommands commands) override {
    delete reinterpret_cast<size_t*>(commands);
    --log_.open_objects;
  }
  Result<uint64_t> start(MetalCommands commands, std::span<const MetalCopy> copies) override {
    SMELT_CHECK(log_.enter("start"));
    log_.started.push_back(*reinterpret_cast<size_t*>(commands));
    log_.copies.push_back(copies.size());
    const uint64_t event = log_.started.size();
    log_.order.push_back("start " + std::to_string(event));
    begun_.push_back({event, log_.started.back(), {copies.begin(), copies.end()}});
    return event;
  }
  Status wait(uint64_t event) override {
    SMELT_CHECK(log_.enter("wait"));
    ++log_.waits;
    log_.order.push_back("wait " + std::to_string(event));
    if (event > log_.started.size()) return Error{"[metal] an event that is not to come"};
    Status first;
    for (; !begun_.empty() && begun_.front().event <= event; begun_.pop_front())
      if (const Status done = run(begun_.front()); first) first = done;
    return first;
  }
  // Each dispatch takes 30 ticks, with 20 between them; a tick is two nanoseconds.
  Result<MetalTimes> run_timed(MetalCommands commands) override {
    SMELT_CHECK(log_.enter("run_timed"));
    MetalTimes times{.dispatches = {}, .before = {1000, 100}, .after = {3000, 1100}};
    uint64_t now = 200;
    for (size_t i = 0; i < log_.encoded[*reinterpret_cast<size_t*>(commands)].dispatches.size(); ++i, now += 50)
      times.dispatches.push_back({now, now + 30});
    return times;
  }

  static const std::byte* host_of(MetalBuffer handle) { return reinterpret_cast<const Held*>(handle)->memory; }
  static std::string name_of(MetalPipeline pipeline) { return *reinterpret_cast<std::string*>(pipeline); }
  // The addresses that a dispatch gives its kernel.
  static std::vector<uint64_t> addresses(const MetalDispatch& d, size_t count) {
    std::vector<uint64_t> out(count);
    std::memcpy(out.data(), host_of(d.addresses) + d.addresses_offset, count * sizeof(uint64_t));
    return out;
  }

 private:
  struct Held {
    std::byte* memory;
    bool is_own;
  };
  struct Begun {
    uint64_t event;
    size_t encoded;
    std::vector<MetalCopy> copies;
  };
  Status run(const Begun& begun) {
    log_.order.push_back("run " + std::to_string(begun.event));
    for (const MetalCopy& c : begun.copies)
      std::memcpy(const_cast<std::byte*>(host_of(c.to)) + c.to_offset, host_of(c.from) + c.from_offset, c.bytes);
    if (begun.event == log_.fails) return Error{"[metal] the GPU gave up"};
    if (log_.run) log_.run(log_.encoded[begun.encoded]);
    return {};
  }
  MetalMemory buffer(std::byte* memory, bool is_own) {
    ++log_.open_objects;
    return {reinterpret_cast<MetalBuffer>(new Held{memory, is_own}), memory,
            reinterpret_cast<uint64_t>(memory) + kAway};
  }

  FakeMetalLog& log_;
  std::deque<Begun> begun_;
  const MetalProperties properties_;
};

}  // namespace smelt::test
