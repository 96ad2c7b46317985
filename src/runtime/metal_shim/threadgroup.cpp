#include "runtime/metal_shim/threadgroup.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <functional>
#include <memory>

#include "base/ensure.h"
#include "runtime/metal_shim/fibre.h"

namespace smelt {
namespace {

constexpr uint32_t kSimdThreads = 32;
constexpr size_t kScratchAlign = 64;
constexpr int kMostThreads = 1024;  // of a threadgroup
constexpr int64_t kMostScratch = 32 << 10;

// What a thread does: it runs, or waits for others at a line of the kernel.
enum class Wait : uint8_t { None, Barrier, Simd };

struct Thread {
  std::function<void()> body;
  Wait wait = Wait::None;
  uint32_t line = 0;
};

// One stack for each thread of a threadgroup, kept for the next one.
std::byte* stack_of(size_t thread) {
  struct alignas(64) Stack {
    std::byte bytes[Fibre::kStackBytes];
  };
  static thread_local std::vector<std::unique_ptr<Stack>> stacks;
  while (stacks.size() <= thread) stacks.push_back(std::make_unique_for_overwrite<Stack>());
  return stacks[thread]->bytes;
}

class Threadgroup {
 public:
  Threadgroup(const ShimLaunch& launch, MemoryChecks& checks, std::byte* scratch)
      : launch_(launch), checks_(checks), scratch_(scratch) {}

  std::string run(uint32_t part) {
    begin(part);
    Threadgroup* const outer = current_;
    current_ = this;
    while (problem_.empty() && running_ > 0) {
      step();
      if (problem_.empty()) release();
    }
    current_ = outer;
    return problem_;
  }

  static Threadgroup& current() { return *current_; }

  void access(const void* at, size_t bytes, bool writes) {
    std::string problem = writes ? checks_.write(at, bytes, thread()) : checks_.read(at, bytes, thread());
    if (!problem.empty()) fail(std::move(problem));
  }
  void wait(Wait wait, uint32_t line) {
    threads_[mine_].wait = wait;
    threads_[mine_].line = line;
    fibres_[mine_].stop();
  }
  // What was given before may still be taken by others: two places take turns.
  void give(uint32_t bits, uint32_t line) {
    exchanges_[mine_ / kSimdThreads][turns_[mine_]++ % 2][mine_ % kSimdThreads] = bits;
    wait(Wait::Simd, line);
  }
  uint32_t take(uint32_t lane) const {
    return exchanges_[mine_ / kSimdThreads][(turns_[mine_] - 1) % 2][lane % kSimdThreads];
  }
  int thread() const { return static_cast<int>(mine_); }

  // Of the thread that runs: it goes no further, and nothing on its stack is destroyed.
  void fail(std::string&& problem) {
    problem_ = std::move(problem);
    fibres_[mine_].stop();
    ENSURE(false, "a thread that was stopped goes on");
  }

 private:
  using Exchange = std::array<std::array<uint32_t, kSimdThreads>, 2>;

  void begin(uint32_t part) {
    const auto count = static_cast<size_t>(launch_.kernel->shape.threads);
    checks_.begin_threadgroup(static_cast<int>(part));
    std::fill_n(scratch_, launch_.kernel->shape.shared_bytes, std::byte{0xff});  // nothing is known of it
    threads_.assign(count, {});
    exchanges_.assign((count + kSimdThreads - 1) / kSimdThreads, {});
    turns_.assign(count, 0);
    fibres_.clear();
    for (size_t i = 0; i < count; ++i) {
      threads_[i].body = [this, part, i] {
        const ShimKernel& kernel = *launch_.kernel;
        kernel.entry(kernel.number, launch_.buffers.data(), launch_.symbols.data(), scratch_, static_cast<uint32_t>(i),
                     part, launch_.parts);
      };
      fibres_.emplace_back(stack_of(i), threads_[i].body);
    }
    running_ = count;
  }

  // Every thread that does not wait runs until it does.
  void step() {
    for (mine_ = 0; mine_ < threads_.size() && problem_.empty(); ++mine_) {
      if (fibres_[mine_].has_ended() || threads_[mine_].wait != Wait::None) continue;
      fibres_[mine_].resume();
      if (fibres_[mine_].has_ended()) --running_;
    }
  }

  // All have come to a place, or those of a SIMD group: they go on.
  void release() {
    if (running_ == 0) return;
    bool is_any_released = false;
    for (size_t first = 0; first < threads_.size(); first += kSimdThreads)
      is_any_released |= release(first, std::min(first + kSimdThreads, threads_.size()), Wait::Simd);
    if (is_any_released) return;
    if (release(0, threads_.size(), Wait::Barrier)) return checks_.barrier();
    problem_ = divergence();
  }

  bool release(size_t begin, size_t end, Wait wait) {
    for (size_t i = begin; i < end; ++i)
      if (fibres_[i].has_ended() || threads_[i].wait != wait || threads_[i].line != threads_[begin].line) return false;
    for (size_t i = begin; i < end; ++i) threads_[i].wait = Wait::None;
    return true;
  }

  std::string where(size_t i) const {
    if (fibres_[i].has_ended()) return "has ended";
    const bool is_barrier = threads_[i].wait == Wait::Barrier;
    return (is_barrier ? "waits at the barrier of line " : "waits for its SIMD group in line ") +
           std::to_string(threads_[i].line);
  }

  // All wait, and not at the same place.
  std::string divergence() const {
    size_t other = 1;
    while (other + 1 < threads_.size() && where(other) == where(0)) ++other;
    return "threads diverge: thread 0 " + where(0) + ", thread " + std::to_string(other) + " " + where(other);
  }

  static thread_local Threadgroup* current_;

  const ShimLaunch& launch_;
  MemoryChecks& checks_;
  std::byte* scratch_;
  std::vector<Thread> threads_;
  std::deque<Fibre> fibres_;
  std::vector<Exchange> exchanges_;  // by SIMD group
  std::vector<size_t> turns_;        // by thread: exchanges that it took part in
  size_t mine_ = 0, running_ = 0;
  std::string problem_;
};

thread_local Threadgroup* Threadgroup::current_ = nullptr;

// --- what compiled kernels call

template <size_t bytes>
void read(const void* at) {
  Threadgroup::current().access(at, bytes, false);
}
template <size_t bytes>
void write(const void* at) {
  Threadgroup::current().access(at, bytes, true);
}

void misaligned(const void*, uintptr_t at) {
  Threadgroup::current().fail("thread " + std::to_string(Threadgroup::current().thread()) +
                              " touches memory at an address that is not aligned for it: " + std::to_string(at % 64) +
                              " bytes behind a multiple of 64");
}

void nothing() {}
void barrier(uint32_t line) { Threadgroup::current().wait(Wait::Barrier, line); }
void give(uint32_t bits, uint32_t line) { Threadgroup::current().give(bits, line); }
uint32_t take(uint32_t lane) { return Threadgroup::current().take(lane); }
uint32_t lane() { return static_cast<uint32_t>(Threadgroup::current().thread()) % kSimdThreads; }

template <class F>
std::pair<const char*, void*> call(const char* name, F* function) {
  return {name, reinterpret_cast<void*>(function)};
}

}  // namespace

std::vector<std::pair<const char*, void*>> shim_calls() {
  return {call("__tsan_init", nothing),
          call("__tsan_read1", read<1>),
          call("__tsan_read2", read<2>),
          call("__tsan_read4", read<4>),
          call("__tsan_read8", read<8>),
          call("__tsan_read16", read<16>),
          call("__tsan_unaligned_read2", read<2>),
          call("__tsan_unaligned_read4", read<4>),
          call("__tsan_unaligned_read8", read<8>),
          call("__tsan_unaligned_read16", read<16>),
          call("__tsan_write1", write<1>),
          call("__tsan_write2", write<2>),
          call("__tsan_write4", write<4>),
          call("__tsan_write8", write<8>),
          call("__tsan_write16", write<16>),
          call("__tsan_unaligned_write2", write<2>),
          call("__tsan_unaligned_write4", write<4>),
          call("__tsan_unaligned_write8", write<8>),
          call("__tsan_unaligned_write16", write<16>),
          call("__ubsan_handle_type_mismatch_v1", misaligned),
          call("smelt_threadgroup_barrier", barrier),
          call("smelt_simd_give", give),
          call("smelt_simd_take", take),
          call("smelt_simd_lane", lane),
          call("exp2f", static_cast<float (*)(float)>(std::exp2)),
          call("log2f", static_cast<float (*)(float)>(std::log2))};
}

namespace {

// What Metal gives a threadgroup, whatever the kernel asks for.
std::string problem_of(const LaunchShape& shape) {
  if (shape.threads < 1 || shape.threads > kMostThreads)
    return "a threadgroup of " + std::to_string(shape.threads) + " threads, Metal takes 1 to " +
           std::to_string(kMostThreads);
  if (shape.shared_bytes > kMostScratch)
    return "a threadgroup with " + std::to_string(shape.shared_bytes) + " bytes of memory, Metal gives " +
           std::to_string(kMostScratch);
  return "";
}

}  // namespace

Status run_checked(const ShimLaunch& launch, std::vector<MemoryRegion> regions, MemoryChecks& checks) {
  const LaunchShape& shape = launch.kernel->shape;
  const std::string head = "[metal-shim] kernel " + launch.kernel->name + ": ";
  if (const std::string problem = problem_of(shape); !problem.empty()) return Error{head + problem};
  std::vector<std::byte> memory(static_cast<size_t>(shape.shared_bytes) + kScratchAlign);
  std::byte* scratch = memory.data();
  while (reinterpret_cast<uintptr_t>(scratch) % kScratchAlign != 0) ++scratch;
  regions.push_back({"the memory of the threadgroup", scratch, static_cast<size_t>(shape.shared_bytes), true});
  regions.push_back(
      {"the launch values", reinterpret_cast<const std::byte*>(launch.symbols.data()), launch.symbols.size_bytes()});
  regions.push_back({"the addresses of the buffers", reinterpret_cast<const std::byte*>(launch.buffers.data()),
                     launch.buffers.size_bytes()});
  checks.set_regions(std::move(regions));
  Threadgroup threadgroup(launch, checks, scratch);
  for (uint32_t part = 0; part < launch.parts; ++part)
    if (const std::string problem = threadgroup.run(part); !problem.empty()) return Error{head + problem};
  return {};
}

}  // namespace smelt
