#include "runtime/cpu/workers.h"

#include <doctest/doctest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "base/machine.h"
#include "base/thread.h"
#include "runtime/cores.h"
#include "support/cpu_time.h"
#include "support/effort.h"

using namespace smelt;

namespace {

// out[i] = sin(a[i]) over the worker's share; symbols[0]: how many.
void sine(const void* const* buffers, const int64_t* symbols, int64_t part, int64_t parts, std::byte*, int64_t) {
  float* out = static_cast<float*>(const_cast<void*>(buffers[0]));
  const float* a = static_cast<const float*>(buffers[1]);
  for (int64_t i = symbols[0] * part / parts; i < symbols[0] * (part + 1) / parts; ++i) out[i] = std::sin(a[i]);
}

// out[i] = a[i + 1] + a[i - 1], so that a worker reads what its neighbours wrote in the launch
// before.
void neighbours(const void* const* buffers, const int64_t* symbols, int64_t part, int64_t parts, std::byte*, int64_t) {
  int64_t* out = static_cast<int64_t*>(const_cast<void*>(buffers[0]));
  const int64_t* a = static_cast<const int64_t*>(buffers[1]);
  int64_t n = symbols[0];
  for (int64_t i = n * part / parts; i < n * (part + 1) / parts; ++i)
    out[i] = (a[(i + 1) % n] + a[(i + n - 1) % n]) % 1000003;
}

// out[part] = the bytes of the worker's stack.
void stack_size(const void* const* buffers, const int64_t*, int64_t part, int64_t, std::byte*, int64_t) {
  pthread_attr_t attributes;
  size_t bytes = 0;
  if (::pthread_getattr_np(::pthread_self(), &attributes) == 0) {
    ::pthread_attr_getstacksize(&attributes, &bytes);
    ::pthread_attr_destroy(&attributes);
  }
  static_cast<int64_t*>(const_cast<void*>(buffers[0]))[part] = static_cast<int64_t>(bytes);
}

void count_call(const void* const* buffers, const int64_t*, int64_t, int64_t, std::byte*, int64_t) {
  ++*static_cast<std::atomic<int64_t>*>(const_cast<void*>(buffers[0]));
}

// Sets buffers[1] when buffers[0] reaches symbols[0]. Worker 0 alone counts.
void cancel_at(const void* const* buffers, const int64_t* symbols, int64_t part, int64_t, std::byte*, int64_t) {
  if (part != 0) return;
  if (++*static_cast<std::atomic<int64_t>*>(const_cast<void*>(buffers[0])) == symbols[0])
    static_cast<std::atomic<bool>*>(const_cast<void*>(buffers[1]))->store(true);
}

// Worker 1 takes symbols[0] us; the others are done at once.
void uneven(const void* const*, const int64_t* symbols, int64_t part, int64_t, std::byte*, int64_t) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(symbols[0]);
  while (part == 1 && std::chrono::steady_clock::now() < end) continue;
}

void pin_caller(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  REQUIRE(::sched_setaffinity(0, sizeof set, &set) == 0);
}

// How often this thread has left its core so far.
int64_t switches() {
  rusage usage{};
  REQUIRE(::getrusage(RUSAGE_THREAD, &usage) == 0);
  return usage.ru_nvcsw + usage.ru_nivcsw;
}

double cpu_seconds() { return smelt::test::seconds_on(CLOCK_PROCESS_CPUTIME_ID); }

}  // namespace

TEST_CASE("a worker's stack has the size that kernels count on, whatever the limits of the system") {
  Workers workers(3);
  int64_t bytes[3] = {};
  const void* buffers[] = {bytes};
  REQUIRE(workers.run(std::vector{CpuLaunch{stack_size, buffers}}, nullptr));
  for (int worker : {1, 2}) CHECK(bytes[worker] == static_cast<int64_t>(Thread::kStackBytes));
  CHECK(Machine{}.stack_bytes == static_cast<int64_t>(Thread::kStackBytes));
}

TEST_CASE("every worker runs every launch once, with its part") {
  for (int count : {1, 2, 3, 4, 5, 7}) {
    Workers workers(count);
    CHECK(workers.count() == count);
    std::atomic<int64_t> calls{0};
    const void* buffers[] = {&calls};
    std::vector<CpuLaunch> launches(10, CpuLaunch{count_call, buffers});
    CHECK(workers.run(launches, nullptr));
    CHECK(calls == 10 * count);
    CHECK(workers.run({}, nullptr));
    CHECK(calls == 10 * count);
  }
}

TEST_CASE("a run may leave workers out, and the next one takes them in") {
  std::mt19937 rng(1);
  for (int count : {2, 3, 4, 7}) {
    Workers workers(count);
    std::atomic<int64_t> calls{0};
    const void* buffers[] = {&calls};
    const std::vector<CpuLaunch> launches(5, CpuLaunch{count_call, buffers});
    for (int run = 0; run < smelt::test::repetitions(300); ++run) {
      const int active = static_cast<int>(rng() % static_cast<unsigned>(count + 1));
      CAPTURE(active);
      calls = 0;
      REQUIRE(workers.run(launches, nullptr, {}, active));
      REQUIRE(calls == 5 * (active == 0 ? count : active));
      // So that those who are left out fall asleep now and then.
      if (run % 100 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
}

TEST_CASE("parts that workers take as they become free are each taken once") {
  constexpr int64_t kParts = 60;
  // Adds one to the counter of its part; the first parts take longest.
  const KernelEntry entry = [](const void* const* buffers, const int64_t*, int64_t part, int64_t parts, std::byte*,
                               int64_t) {
    auto* counts = static_cast<std::atomic<int64_t>*>(const_cast<void*>(buffers[0]));
    volatile double x = 1;
    for (int64_t i = 0; i < (parts - part) * 50; ++i) x = std::sin(x);
    counts[part] += 1000 + parts;
  };
  for (int count : {1, 2, 3, 4}) {
    Workers workers(count);
    std::vector<std::atomic<int64_t>> counts(kParts);
    const void* buffers[] = {counts.data()};
    const int shares = static_cast<int>(kParts) / count;
    // Kinds of launches follow each other in every way.
    const CpuLaunch many{entry, buffers, shares}, one{entry, buffers};
    const std::vector<CpuLaunch> launches{many, many, one, many, one, one, many};
    std::atomic<bool> cancel{true};
    for (int run = 0; run < 20; ++run) {
      CHECK(workers.run(launches, nullptr));
      CHECK_FALSE(workers.run(launches, nullptr, {.cancel = &cancel}));
    }
    for (int64_t i = 0; i < kParts; ++i) {
      CAPTURE(i);
      CHECK(counts[static_cast<size_t>(i)] == 20 * (4 * (1000 + kParts) + (i < count ? 3 * (1000 + count) : 0)));
    }
  }
}

TEST_CASE("where a half is shared out before, all is done once, and each worker begins once and finds what it left") {
  constexpr int64_t kCells = 960;
  struct Seen {
    std::atomic<int64_t> cells[kCells], begun, lost;
  };
  // The number of the launch is what all parts of a worker want; the first parts take longest.
  const KernelEntry entry = [](const void* const* buffers, const int64_t*, int64_t part, int64_t parts,
                               std::byte* scratch, int64_t begins) {
    auto* seen = static_cast<Seen*>(const_cast<void*>(buffers[0]));
    const auto launch = reinterpret_cast<int64_t>(buffers[1]);
    if (begins) seen->begun += 1, std::memcpy(scratch, &launch, sizeof launch);
    seen->lost += std::memcmp(scratch, &launch, sizeof launch) != 0;
    volatile double x = 1;
    for (int64_t i = 0; i < (parts - part) * 50; ++i) x = std::sin(x);
    for (int64_t i = kCells * part / parts; i < kCells * (part + 1) / parts; ++i) ++seen->cells[i];
  };
  for (int count : {1, 2, 3, 5}) {
    CAPTURE(count);
    Workers workers(count);
    Seen seen = {};
    const void* first[] = {&seen, reinterpret_cast<const void*>(1)};
    const void* second[] = {&seen, reinterpret_cast<const void*>(2)};
    const CpuLaunch launches[] = {{.entry = entry, .buffers = first, .shares = 8, .half_is_fixed = true},
                                  {.entry = entry, .buffers = second, .shares = 8, .half_is_fixed = true},
                                  {.entry = entry, .buffers = first}};
    for (int run = 0; run < 20; ++run) CHECK(workers.run(launches, nullptr));
    CHECK(seen.begun == 20 * 3 * count);
    CHECK(seen.lost == 0);
    for (const auto& cell : seen.cells) CHECK(cell == 20 * 3);
  }
}

TEST_CASE("a launch sees all that the launch before it wrote") {
  constexpr int64_t n = 61, steps = 200;
  auto result = [&](int count) {
    std::vector<int64_t> a(n), b(n);
    for (int64_t i = 0; i < n; ++i) a[i] = i * i;
    const void* forth[] = {b.data(), a.data()};
    const void* back[] = {a.data(), b.data()};
    std::vector<CpuLaunch> launches;
    for (int i = 0; i < steps; ++i) launches.push_back({neighbours, i % 2 ? back : forth});
    Workers workers(count);
    int64_t symbols[] = {n};
    for (int run = 0; run < 3; ++run) CHECK(workers.run(launches, symbols));
    return a;
  };
  auto expected = result(1);
  for (int count : {2, 3, 4, 8}) CHECK(result(count) == expected);
}

TEST_CASE("results are equal to the last bit for any number of workers") {
  std::vector<float> a(1001);
  for (size_t i = 0; i < a.size(); ++i) a[i] = 0.37f * static_cast<float>(i);
  std::vector<float> expected;
  for (int count : {1, 2, 3, 5}) {
    std::vector<float> out(a.size());
    const void* buffers[] = {out.data(), a.data()};
    const CpuLaunch launches[] = {{sine, buffers}};
    int64_t symbols[] = {1001};
    Workers workers(count);
    workers.run(launches, symbols);
    if (expected.empty()) expected = out;
    CHECK(out == expected);
  }
}

TEST_CASE("a run ends after the launch in which it is cancelled, on all workers") {
  for (int count : {1, 2, 4}) {
    Workers workers(count);
    for (int64_t at : {1, 2, 7, 19, 20}) {
      std::atomic<int64_t> steps{0}, calls{0};
      std::atomic<bool> cancel{false};
      const void* cancel_buffers[] = {&steps, &cancel};
      const void* count_buffers[] = {&calls};
      std::vector<CpuLaunch> launches;
      for (int i = 0; i < 20; ++i) {
        launches.push_back({count_call, count_buffers});
        launches.push_back({cancel_at, cancel_buffers});
      }
      int64_t symbols[] = {at};
      CHECK(workers.run(launches, symbols, {.cancel = &cancel}) == (at == 20));  // the last launch completes the run
      CHECK(calls == at * count);
      CHECK_FALSE(workers.run(launches, symbols, {.cancel = &cancel}));
      CHECK(calls == at * count);
      symbols[0] = -1;
      cancel = false;
      CHECK(workers.run(launches, symbols, {.cancel = &cancel}));
      CHECK(calls == (at + 20) * count);
    }
  }
}

TEST_CASE("cancelled runs one close after the other do not confuse slow workers") {
  Workers workers(4);
  std::atomic<int64_t> steps{0}, calls{0};
  std::atomic<bool> cancel{false};
  const void* cancel_buffers[] = {&steps, &cancel};
  const void* count_buffers[] = {&calls};
  std::vector<CpuLaunch> launches;
  for (int i = 0; i < 6; ++i) {
    launches.push_back({cancel_at, cancel_buffers});
    launches.push_back({count_call, count_buffers});
  }
  int64_t expected = 0;
  for (int64_t run = 0; run < 300; ++run) {
    steps = 0;
    cancel = false;
    int64_t symbols[] = {1 + run % 3};
    CHECK_FALSE(workers.run(launches, symbols, {.cancel = &cancel}));
    expected += 4 * (run % 3);
  }
  CHECK(calls == expected);
}

TEST_CASE("launch times do not run backwards") {
  Workers workers(2);
  std::atomic<int64_t> calls{0};
  const void* buffers[] = {&calls};
  std::vector<CpuLaunch> launches(5, CpuLaunch{count_call, buffers});
  std::vector<int64_t> times(6, -1);
  std::vector<int64_t> arrivals(10, -1);  // worker by worker
  CHECK(workers.run(launches, nullptr, {.times_ns = times, .arrivals_ns = arrivals}));
  for (size_t i = 0; i < times.size(); ++i) CHECK(times[i] > 0);
  for (size_t i = 1; i < times.size(); ++i) CHECK(times[i] >= times[i - 1]);
  for (size_t worker = 0; worker < 2; ++worker)
    for (size_t i = 0; i < 5; ++i) {
      const int64_t arrival = arrivals[worker * 5 + i];
      CHECK(arrival > 0);  // another worker may be done before worker 0 has looked at the clock
      CHECK(arrival <= times[i + 1]);
      if (worker == 0) CHECK(arrival >= times[i]);
    }
}

TEST_CASE("an idle pool sleeps, and wakes up for the next run") {
  Workers workers(2);
  std::atomic<int64_t> calls{0};
  const void* buffers[] = {&calls};
  const CpuLaunch launches[] = {{count_call, buffers}};
  workers.run(launches, nullptr);
  bool rests = false;  // at the latest when a busy machine has let it look around long enough
  for (int i = 0; i < 1000 && !rests; ++i) {
    const double before = cpu_seconds();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    rests = cpu_seconds() - before < 0.002;
  }
  CHECK(rests);
  CHECK(workers.run(launches, nullptr));
  CHECK(calls == 4);
}

TEST_CASE("a worker that waits for a slower one does not leave its core to others at each launch") {
  const std::vector<int> cpus = core_cpus();
  if (cpus.size() < 2) return;  // who waits has to give way there
  std::atomic<bool> is_over{false};
  int64_t left = 0;
  std::thread caller([&] {
    Workers workers(2);
    pin_caller(cpus[0]);
    std::thread other([&] {  // on the core of the caller
      while (!is_over.load(std::memory_order_relaxed)) continue;
    });
    const std::vector<CpuLaunch> launches(400, CpuLaunch{uneven, nullptr});
    const int64_t before = switches(), microseconds[] = {60};
    CHECK(workers.run(launches, microseconds));
    left = switches() - before;
    is_over = true;
    other.join();
  });
  caller.join();
  CHECK(left < 100);  // 24 ms of work: a few turns, and some more where others use the machine
}

TEST_CASE("a worker that waits long sleeps and is woken, and does not look all the time") {
  Workers workers(2);
  const std::vector<CpuLaunch> launches(20, CpuLaunch{uneven, nullptr});
  const int64_t microseconds[] = {10'000};
  const double before = smelt::test::seconds_on(CLOCK_THREAD_CPUTIME_ID);
  CHECK(workers.run(launches, microseconds));
  CHECK(smelt::test::seconds_on(CLOCK_THREAD_CPUTIME_ID) - before < 0.1);  // of 0.2 s
}

TEST_CASE("a run leaves the affinity of its caller as it was") {
  cpu_set_t before, after;
  REQUIRE(::sched_getaffinity(0, sizeof before, &before) == 0);
  Workers workers(static_cast<int>(core_cpus().size()));
  std::atomic<int64_t> calls{0};
  const void* buffers[] = {&calls};
  const CpuLaunch launches[] = {{count_call, buffers}};
  workers.run(launches, nullptr);
  REQUIRE(::sched_getaffinity(0, sizeof after, &after) == 0);
  CHECK(CPU_EQUAL(&before, &after));
}

TEST_CASE("a pool that was never used ends") {
  for (int i = 0; i < 5; ++i) Workers workers(3);
}
