#include "runtime/cpu/workers.h"

#include <bit>
#include <chrono>
#include <functional>
#include <map>
#include <new>
#include <system_error>
#include <vector>

#include "base/ensure.h"
#include "base/system_calls.h"
#include "base/thread.h"
#include "runtime/cores.h"
#include "runtime/target.h"

namespace smelt {
namespace {

// How often a waiting thread looks before it sleeps: within a run (about 0.8 ms), between runs (about 1 ms: longer
// than the host's work between two tokens).
//
// Who leaves its core on a machine that others use is away for their turn of 3 ms, and then it is the one that is
// waited for: patience of 20 us made each barrier take that long, and the tiny model a twentieth of its speed. So it
// takes more than launches are uneven, yet less than a turn of somebody else. Then it sleeps and is woken: who calls
// sched_yield() instead is counted as if it had had its turn, each time, so that two workers which waited for each
// other in this way had a hundredth of the time that was theirs.
struct Patience {
  int looks_in_run;
  int looks_between_runs;
};
constexpr Patience kAlone = {20000, 50000};
// More workers than cores: whoever waits holds up whoever works.
constexpr Patience kCrowded = {20, 0};

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // `yield` is too short to relieve the bus
#endif
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// A dissemination barrier: in round r worker i tells worker i + 2^r that it (and all it has heard
// of) has arrived. With two workers that is one write and one read each; with n workers log2(n)
// rounds, no shared counter. Flags count barriers upwards, so nothing is ever reset and a fast
// worker may be a barrier ahead.
class Barrier {
 public:
  Barrier(int count, Patience patience)
      : count_(count),
        rounds_(std::bit_width(static_cast<unsigned>(count - 1))),
        patience_(patience.looks_in_run),
        flags_(static_cast<size_t>(count) * rounds_) {}

  // `epoch` grows by one from barrier to barrier and is the same for all workers.
  void wait(int worker, uint64_t epoch) {
    const auto now = static_cast<uint32_t>(epoch);
    for (int round = 0; round < rounds_; ++round) {
      std::atomic<uint32_t>& partner = flag((worker + (1 << round)) % count_, round);
      partner.store(now, std::memory_order_release);
      if (sleepers_.value.load(std::memory_order_relaxed) > 0) wake_all(partner);
      wait_until(flag(worker, round), now);
    }
  }

 private:
  // Two cache lines each: the hardware fetches lines in pairs.
  struct alignas(128) Flag {
    std::atomic<uint32_t> value{0};
  };

  // A worker is woken by who stores its flag, if that one sees in time that somebody sleeps. It may look before its
  // store can be seen (to rule that out takes a fence at every barrier, 60 ns): then it is this that ends the sleep.
  static constexpr std::chrono::milliseconds kLongestSleep{1};

  std::atomic<uint32_t>& flag(int worker, int round) { return flags_[worker * rounds_ + round].value; }

  // The last bits of an epoch; the two are never far from each other.
  static bool is_before(uint32_t epoch, uint32_t other) { return static_cast<int32_t>(epoch - other) < 0; }

  void wait_until(const std::atomic<uint32_t>& value, uint32_t epoch) {
    for (int looks = 0; is_before(value.load(std::memory_order_acquire), epoch); ++looks) {
      if (looks < patience_)
        pause();
      else
        sleep_until(value, epoch);
    }
  }

  void sleep_until(const std::atomic<uint32_t>& value, uint32_t epoch) {
    ++sleepers_.value;
    if (const uint32_t seen = value; is_before(seen, epoch)) sleep_while(value, seen, kLongestSleep);
    --sleepers_.value;
  }

  const int count_, rounds_, patience_;
  std::vector<Flag> flags_;
  Flag sleepers_;
};

struct FreeScratch {
  void operator()(std::byte* memory) const { ::operator delete(memory, std::align_val_t{kKernelScratchAlign}); }
};
using Scratch = std::unique_ptr<std::byte, FreeScratch>;

// Workers that take part in a run, the first `count`, and what they share in it. Each number of workers has a barrier
// of its own: a flag has one writer, which may still be at the last barrier of a run when the next one begins, with
// others.
struct Team {
  Team(int workers, Patience patience) : count(workers), barrier(workers, patience) {
    for (auto& of_launch : taken) of_launch = std::vector<Taken>(static_cast<size_t>(workers));
  }

  const int count;
  Barrier barrier;
  uint64_t first_epoch = 1;             // of the next run
  std::atomic<uint64_t> stop_epoch{0};  // of the barrier at which all leave the run

  // How many of the parts that are a worker's own somebody has taken, in launches with even and with odd epochs. Each
  // worker resets its own of one kind while those of the other are in use.
  struct alignas(128) Taken {
    std::atomic<int64_t> value{0};
  };
  std::vector<Taken> taken[2];

  void forget_taken() {
    for (auto& of_launch : taken)
      for (Taken& of_worker : of_launch) of_worker.value = 0;
  }

  // Worker 0 decides before it arrives at a barrier, so behind that barrier all know. It may by
  // then have decided about the next barrier (epoch + 1), which does not count yet, or, having
  // left, about one of a later run, which does.
  bool must_stop(uint64_t epoch, uint64_t last_epoch) const {
    uint64_t stop = stop_epoch.load(std::memory_order_relaxed);
    return stop == epoch || stop > last_epoch;
  }
};

// Which of the parts that workers take as they become free are a worker's own: neighbours, so that it reads on where
// its last part has ended, and the same place of all whichever way a launch is shared out (near_pieces.h counts on it).
// The others come to them when they have none left: were all of them taken from one counter, the workers would wait for
// each other at its cache line.
struct OwnParts {
  OwnParts(const CpuLaunch& launch, int workers)
      : parts(launch.parts > 0 ? launch.parts : int64_t{workers} * launch.shares),
        count(workers),
        fixed(launch.half_is_fixed ? launch.shares / 2 : 0) {}

  int64_t first(int worker) const { return parts * worker / count + fixed; }
  int64_t end(int worker) const { return parts * (worker + 1) / count; }

  // The one with most parts that nobody has taken, of equal ones the next behind `worker`; -1: there are none.
  int who_has_most(const std::vector<Team::Taken>& taken, int worker) const {
    int found = -1;
    int64_t most = 0;
    for (int i = 1; i < count; ++i) {
      const int other = (worker + i) % count;
      const int64_t left =
          end(other) - first(other) - taken[static_cast<size_t>(other)].value.load(std::memory_order_relaxed);
      if (left > most) most = left, found = other;
    }
    return found;
  }

  const int64_t parts;
  const int count;
  const int64_t fixed;  // parts of each that are shared out before
};

// Not touched: what no kernel uses takes no memory.
Scratch new_scratch(int64_t bytes) {
  const std::align_val_t align{kKernelScratchAlign};
  return Scratch(static_cast<std::byte*>(::operator new(static_cast<size_t>(bytes), align)));
}

}  // namespace

struct Workers::State {
  explicit State(int wanted) : patience(wanted > host_target().cores ? kCrowded : kAlone) {}

  // How many there are. REQUIRES: none of them has run yet.
  void settle(int workers, int64_t scratch_bytes) {
    ENSURE(workers < static_cast<int>(kRunStep), "more workers than a run can have");
    count = workers;
    present = static_cast<uint32_t>(workers);
    for (int i = 0; i < workers; ++i) scratch.push_back(new_scratch(scratch_bytes));
  }

  Team& team_of(int workers) { return teams.try_emplace(workers, workers, patience).first->second; }

  int count = 0;
  const Patience patience;
  int caller_cpu = -1;        // -1: nobody is pinned
  std::map<int, Team> teams;  // by how many they are
  std::vector<Thread> threads;
  std::vector<Scratch> scratch;  // of each worker

  // The run under way. Written by the caller before `generation` announces it, read by workers that take part in it
  // after they saw that.
  Team* team = nullptr;
  std::span<const CpuLaunch> launches;
  const int64_t* symbols = nullptr;
  RunOptions options;
  bool quit = false;

  // The number of the run, and in the last bits how many workers take part in it: for the others nobody waits, so that
  // what they read above may be that of a later run.
  static constexpr uint32_t kRunStep = 1 << 12;
  alignas(128) std::atomic<uint32_t> generation{0};
  std::atomic<int> idle{0};          // workers that sleep until the next one
  std::atomic<uint32_t> present{0};  // those behind so many sleep until there are more

  // What every worker does in a run. All it needs is copied first: behind the last barrier the
  // caller may already be writing the next run.
  bool work(int worker) {
    Team& among = *team;
    const std::span<const CpuLaunch> mine = launches;
    const int64_t* const values = symbols;
    const std::atomic<bool>* const cancel = worker == 0 ? options.cancel : nullptr;
    const std::span<int64_t> times = worker == 0 ? options.times_ns : std::span<int64_t>();
    const std::span<int64_t> arrivals =
        options.arrivals_ns.empty() ? options.arrivals_ns : options.arrivals_ns.subspan(worker * mine.size());
    const uint64_t first_epoch = among.first_epoch, last_epoch = first_epoch + mine.size() - 1;
    uint64_t epoch = first_epoch;
    if (!times.empty()) times[0] = now_ns();
    for (size_t i = 0; i < mine.size(); ++i, ++epoch) {
      among.taken[(epoch + 1) % 2][static_cast<size_t>(worker)].value.store(0, std::memory_order_relaxed);
      take_parts(mine[i], values, worker, among, epoch);
      if (!arrivals.empty()) arrivals[i] = now_ns();
      if (cancel && epoch != last_epoch && cancel->load(std::memory_order_relaxed))
        among.stop_epoch.store(epoch, std::memory_order_relaxed);
      among.barrier.wait(worker, epoch);
      if (!times.empty()) times[i + 1] = now_ns();
      if (epoch != last_epoch && among.must_stop(epoch, last_epoch)) return false;
    }
    return true;
  }

  void take_parts(const CpuLaunch& launch, const int64_t* values, int worker, Team& among, uint64_t epoch) {
    int64_t begins = 1;
    const auto run = [&](int64_t part, int64_t parts) {
      launch.entry(launch.buffers, values, part, parts, scratch[worker].get(), begins);
      begins = 0;
    };
    if (launch.shares == 1 && launch.parts == 0) return run(worker, among.count);
    if (launch.half_is_fixed) run(2 * int64_t{worker}, 2 * int64_t{among.count});
    const OwnParts own(launch, among.count);
    std::vector<Team::Taken>& taken = among.taken[epoch % 2];
    for (int of = worker; of >= 0;) {
      const int64_t part = own.first(of) + taken[static_cast<size_t>(of)].value.fetch_add(1, std::memory_order_relaxed);
      if (part < own.end(of)) run(part, own.parts);
      if (of != worker || part + 1 >= own.end(of)) of = own.who_has_most(taken, worker);
    }
  }

  // A worker thread's life: wait for a run, take part in it.
  void serve(int worker) {
    for (uint32_t seen = 0;;) {
      seen = next_run(worker, seen);
      if (quit) return;
      work(worker);
    }
  }

  // Waits for a run behind the one that was seen, in which this worker takes part.
  uint32_t next_run(int worker, uint32_t seen) {
    while (true) {
      seen = wait_for_run(seen);
      if (worker < static_cast<int>(seen % kRunStep)) return seen;
      for (uint32_t there = present; static_cast<int>(there) <= worker; there = present) sleep_while(present, there);
    }
  }

  uint32_t wait_for_run(uint32_t seen) {
    for (int looks = 0; looks < patience.looks_between_runs; ++looks) {
      if (const uint32_t now = generation.load(std::memory_order_acquire); now != seen) return now;
      pause();
    }
    ++idle;  // before it looks again: who announces looks for it behind that
    while (generation == seen) sleep_while(generation, seen);
    --idle;
    return generation;
  }

  // Makes what was written above visible to the workers and wakes those that sleep.
  void announce(int workers) {
    const auto part = static_cast<uint32_t>(workers);
    if (present != part) {
      present = part;
      wake_all(present);
    }
    generation = (generation / kRunStep + 1) * kRunStep + part;
    if (idle > 0) wake_all(generation);
  }
};

Workers::Workers(int count, int64_t scratch_bytes) {
  ENSURE(count >= 1, "there is no running without a worker");
  state_ = std::make_unique<State>(count);
  std::vector<int> cpus = core_cpus();
  bool pinned = count > 1 && static_cast<size_t>(count) == cpus.size();
  if (pinned) state_->caller_cpu = cpus[0];
  try {
    for (int worker = 1; worker < count; ++worker) {
      state_->threads.emplace_back([state = state_.get(), worker] { state->serve(worker); });
      if (pinned) pin_to(state_->threads.back().handle(), cpus[worker]);
    }
  } catch (const std::system_error&) {  // the system refuses a thread
  }
  state_->settle(static_cast<int>(state_->threads.size()) + 1, scratch_bytes);
}

Workers::~Workers() {
  state_->quit = true;
  state_->announce(state_->count);
  state_->threads.clear();
}

int Workers::count() const { return state_->count; }

bool Workers::run(std::span<const CpuLaunch> launches, const int64_t* symbols, const RunOptions& options, int active) {
  ENSURE(active >= 0 && active <= count(), "more workers than there are");
  ENSURE(active == 0 || options.times_ns.empty(), "times of a run without all workers");
  ENSURE(options.times_ns.empty() || options.times_ns.size() == launches.size() + 1, "one time more than launches");
  ENSURE(options.arrivals_ns.empty() || options.arrivals_ns.size() == launches.size() * static_cast<size_t>(count()),
         "an arrival for each worker and launch");
  if (launches.empty()) {
    if (!options.times_ns.empty()) options.times_ns[0] = now_ns();
    return true;
  }
  if (options.cancel && options.cancel->load(std::memory_order_relaxed)) return false;
  PinnedHere pinned(state_->caller_cpu);
  Team& team = state_->team_of(active > 0 ? active : count());
  state_->team = &team;
  state_->launches = launches;
  state_->symbols = symbols;
  state_->options = options;
  if (team.count > 1) state_->announce(team.count);
  const bool finished = state_->work(0);
  // Launches that were left out have not reset it. Nobody looks at it between two runs.
  if (!finished) team.forget_taken();
  team.first_epoch += launches.size();
  return finished;
}

}  // namespace smelt
