#include "engine/tune.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "base/clock.h"
#include "base/ensure_dump.h"
#include "base/parallel.h"
#include "engine/dump.h"
#include "engine/kernel_builder.h"
#include "engine/tune_bench.h"
#include "engine/tune_estimate.h"
#include "engine/tune_judge.h"
#include "engine/tune_moves.h"
#include "engine/tuned_options.h"
#include "runtime/target.h"
#include "schedule/schedule.h"

namespace smelt {
namespace {

constexpr double kHopeless = 1.5;       // times the estimate of the best: not compiled
constexpr double kHopelessStart = 1.5;  // times as slow as over the weights as they are: a layout is given up
constexpr double kAtTheFloor = 1.03;    // times what memory takes: nothing left to gain
constexpr int kStale = 2;               // generations without a gain that end a search
constexpr double kStep = 0.01;          // what counts as one
constexpr double kWorthANest = 0.03;    // share of a kernel's operations
constexpr size_t kSlice = 16;           // lists of options that become programs together
constexpr size_t kBatch = 6;            // candidates compiled and timed together
constexpr int kFewestRounds = 5, kMostRounds = 40, kLastRounds = 4;  // the last one: times as many
constexpr double kBatchSeconds = 0.25;                               // what rounds of a batch should take together
constexpr size_t kFinalists = 4;
constexpr double kFinalShare = 0.15;       // of the time, kept for the last comparison
constexpr size_t kSmallProgram = 2000;     // instructions; larger ones may be
constexpr double kGrowth = 2.5;            // times as large as the heuristic's
constexpr size_t kBatchProgram = 8000;     // of a batch, so that it can be interrupted
constexpr size_t kLargestProgram = 20000;  // LLVM takes seconds for them
constexpr size_t kWrongTold = 4;

struct Candidate {
  KernelOpts opts;
  uint64_t program = 0;
  size_t size = 0;  // instructions
  double estimate = 0;
  const Executable* kernel = nullptr;
  double score = 0;  // its time over the heuristic's, both from one batch; 0: not timed
  bool expanded = false;
  int trial = -1;  // of TuneOutcome::trials
};

// Of a model that fits the caches, weights come from there.
double bytes_per_second(const TuneRequest& request) {
  const bool cold = request.site.bytes_between > 2 * static_cast<double>(request.device.machine().l3_bytes);
  return cold ? request.bytes_per_second : 0;
}

class Search {
 public:
  Search(const TuneRequest& request, const KernelBuilder& builder, TuneJudge&& judge, ColdBench&& bench, Candidate base,
         double bytes)
      : request_(request),
        site_(request.site),
        now_(request.now ? *request.now : request.site),
        limits_(request.limits),
        builder_(builder),
        judge_(std::move(judge)),
        bench_(std::move(bench)),
        base_(std::move(base)),
        bytes_(bytes) {
    if (!is_other_layout()) seen_.insert(base_.program);
    out_.kernel = kernel_hash(site_.tree);
    out_.before = out_.after = base_.opts;
    out_.program = base_.program;
    out_.judged_elements = judge_.elements();
    if (bytes_per_second(request) > 0) out_.floor_us = bytes / bytes_per_second(request) * 1e6;
  }

  Result<TuneOutcome> run() {
    start();
    if (is_other_layout() && best_score() > kHopelessStart) return finished();
    // At least one generation, whatever the floor: on a busy machine memory seems slower than it is.
    for (int stale = 0; stale < kStale && !must_stop();) {
      const double before = best_score();
      if (!next_generation()) break;
      stale = best_score() < before * (1 - kStep) ? 0 : stale + 1;
      if (at_the_floor()) break;
    }
    return finished();
  }

 private:
  Result<TuneOutcome> finished() {
    if (failed_) finish();
    if (!failed_) return failed_.error();
    return std::move(out_);
  }
  bool is_other_layout() const { return &now_ != &site_; }
  bool cancelled() const { return request_.cancel && *request_.cancel; }
  double elapsed() const { return seconds_since(begin_); }
  bool must_stop() const {
    const double time = elapsed() / limits_.seconds,
                 count = static_cast<double>(out_.counts.compiled) / limits_.compiled;
    if (request_.progress) request_.progress(std::min(std::max(time, count), 1.0));
    return cancelled() || !failed_ || time > 1 - kFinalShare || count >= 1;
  }
  double best_score() const {
    if (is_other_layout()) return timed_.empty() ? kHopelessStart : timed_.front().score;
    return timed_.empty() ? 1 : std::min(timed_.front().score, 1.0);
  }
  bool at_the_floor() const { return base_us_ > 0 && best_score() * base_us_ < out_.floor_us * kAtTheFloor; }

  // --- candidates

  // What a failed ENSURE leaves behind: the kernel, with the options that it was about.
  std::string leave(const KernelOpts& opts) const { return leave_for_replay(site_.tree, site_.name, opts); }

  KernelOpts heuristic_options() const {
    const EnsureDump dump([&] { return leave({}); });
    return generate(builder_.request(site_.tree, site_.name)).opts;
  }

  Program program_of(const KernelOpts& opts) const { return builder_.program(site_.tree, site_.name, opts); }

  // A list of options with the estimate of its program; nothing if that is too large.
  std::optional<Candidate> candidate(KernelOpts opts) const {
    const EnsureDump dump([&] { return leave(opts); });
    const Program program = program_of(opts);
    const size_t size = program.code.size();
    const double most = std::max(static_cast<double>(kSmallProgram), kGrowth * static_cast<double>(base_.size));
    if (size > kLargestProgram || static_cast<double>(size) > most) return std::nullopt;
    const double seconds = estimate_of(program, opts);
    return Candidate{.opts = std::move(opts), .program = program_hash(program), .size = size, .estimate = seconds};
  }

  // Those whose programs are new and of a bearable size: neighbours of the trial `parent`, if there is one. Stops in
  // between when it must.
  std::vector<Candidate> candidates(std::vector<KernelOpts> lists, int parent = -1) {
    std::vector<Candidate> out;
    for (size_t at = 0; at < lists.size() && !must_stop(); at += kSlice) {
      std::vector<std::optional<Candidate>> slice(std::min(kSlice, lists.size() - at));
      for_each_in_parallel(slice.size(), std::min(request_.device.workers(), thread_count(0)),
                           [&](size_t i, int) { slice[i] = candidate(std::move(lists[at + i])); });
      for (std::optional<Candidate>& c : slice) {
        ++out_.counts.considered;
        if (!c)
          ++out_.counts.hopeless;
        else if (seen_.insert(c->program).second)
          out.push_back(met(std::move(*c), parent));
      }
    }
    return out;
  }

  Candidate met(Candidate c, int parent) {
    const int generation = parent < 0 ? 0 : out_.trials[static_cast<size_t>(parent)].generation + 1;
    c.trial = static_cast<int>(out_.trials.size());
    out_.trials.push_back({.options = to_string(c.opts),
                           .parent = parent,
                           .generation = generation,
                           .estimate_us = c.estimate * 1e6,
                           .ratio = c.score,
                           .problem = {}});
    return c;
  }

  TuneTrial& trial_of(const Candidate& c) { return out_.trials[static_cast<size_t>(c.trial)]; }

  double estimate_of(const Program& program, const KernelOpts& opts) const {
    const SymbolValues symbols = site_.symbol_values();
    return estimate({.program = program,
                     .machine = builder_.machine(),
                     .workers = request_.device.workers(),
                     .symbols = symbols,
                     .tasks = shape_of(site_.tree, opts, builder_.machine(), symbols).tasks,
                     .bytes = bytes_,
                     .bytes_per_second = bytes_per_second(request_)})
        .seconds;
  }

  // Every list that differs from `opts` by one step in one nest.
  std::vector<KernelOpts> steps_from(const KernelOpts& opts) const {
    const EnsureDump dump([&] { return leave(opts); });
    std::vector<KernelOpts> out;
    for (size_t nest : worth_changing_)
      for (std::vector<Opt>& other : neighbours(nests_[nest], opts[nest], builder_.machine(), is_local(nest))) {
        out.push_back(opts);
        out.back()[nest] = std::move(other);
      }
    return out;
  }

  bool is_local(size_t nest) const { return is_local_nest(site_.tree->src[nest]); }

  // --- timing

  // Compiles, judges and times; what passes is among timed_ afterwards.
  void try_out(std::vector<Candidate> batch) {
    compile(batch);
    std::vector<Candidate> right;
    failed_ = now_.prepare();
    for (size_t i = 0; i < batch.size() && !cancelled() && failed_; ++i) {
      if (!batch[i].kernel) continue;
      const auto problem = judge_.problem_with(batch[i].kernel, site_.launches[0]);
      if (!problem)
        failed_ = problem.error();
      else if (problem->empty())
        right.push_back(std::move(batch[i]));
      else
        disagrees(batch[i], *problem);
    }
    if (right.empty() || cancelled() || !failed_) return;
    time(right, rounds_for(right));
    for (Candidate& c : right) timed_.push_back(std::move(c));
    std::stable_sort(timed_.begin(), timed_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.score < b.score; });
  }

  // Together, or, where the device refuses some of them, one by one. Those that it refuses get no kernel.
  void compile(std::vector<Candidate>& batch) {
    std::vector<Program> programs;
    for (const Candidate& c : batch) programs.push_back(program_of(c.opts));
    const auto built = builder_.build(programs, [&](size_t i) { return leave(batch[i].opts); });
    out_.counts.compiled += static_cast<int>(batch.size());
    for (size_t i = 0; i < batch.size(); ++i) {
      if (built) {
        batch[i].kernel = (*built)[i];
        continue;
      }
      const auto alone = builder_.build(programs[i]);
      if (alone)
        batch[i].kernel = *alone;
      else
        disagrees(batch[i], alone.error().message);
    }
  }

  void disagrees(const Candidate& c, const std::string& problem) {
    ++out_.counts.wrong;
    trial_of(c).problem = problem;
    if (out_.wrong.size() < kWrongTold) out_.wrong.push_back(to_string(c.opts) + ": " + problem);
  }

  int rounds_for(std::vector<Candidate>& candidates) {
    const double one = samples_of(candidates, 1).second;
    return std::clamp(static_cast<int>(kBatchSeconds / std::max(one, 1e-7)), kFewestRounds, kMostRounds);
  }

  // The heuristic's kernel first, then the candidates.
  std::vector<TimedKernel> timed_kernels(const std::vector<Candidate>& candidates) const {
    std::vector<TimedKernel> kernels = {{base_.kernel, now_.launches}};
    for (const Candidate& c : candidates) kernels.push_back({c.kernel, site_.launches});
    return kernels;
  }

  std::vector<std::vector<double>> timed(const std::vector<TimedKernel>& kernels, int rounds,
                                         const std::atomic<bool>* cancel) {
    auto samples = bench_.run(kernels, rounds, cancel);
    if (samples) return samples.take();
    failed_ = samples.error();
    return std::vector<std::vector<double>>(kernels.size());
  }

  // Their samples, and the seconds that a round took.
  std::pair<std::vector<std::vector<double>>, double> samples_of(const std::vector<Candidate>& candidates, int rounds) {
    const std::vector<TimedKernel> kernels = timed_kernels(candidates);
    const auto start = Clock::now();
    auto samples = timed(kernels, rounds, request_.cancel);
    const double seconds = seconds_since(start);
    return {std::move(samples), seconds / rounds};
  }

  void time(std::vector<Candidate>& candidates, int rounds) {
    auto samples = samples_of(candidates, rounds).first;
    const double base = typical_of(samples[0]);
    if (base <= 0) return;
    base_us_ = base_us_ > 0 ? std::min(base_us_, base * 1e6) : base * 1e6;
    for (size_t i = 0; i < candidates.size(); ++i)
      trial_of(candidates[i]).ratio = candidates[i].score = typical_of(samples[i + 1]) / base;
  }

  // --- the search

  // A nest that does little is left as it is. Every worker runs all of a local one.
  void look_at_nests() {
    std::vector<double> work;
    double all = 0;
    for (size_t i = 0; i < site_.tree->src.size(); ++i) {
      const Ref nest = site_.tree->src[i];
      nests_.push_back(prepare_nest(nest, builder_.machine()));
      const KernelCost cost = cost_of(make(Op::Sink, DType::Void, {nest}), site_.symbol_values());
      work.push_back((cost.operations() + cost.bytes()) * (is_local(i) ? request_.device.workers() : 1));
      all += work.back();
    }
    for (size_t i = 0; i < work.size(); ++i)
      if (work[i] >= all * kWorthANest) worth_changing_.push_back(i);
  }

  void start() {
    look_at_nests();
    std::vector<KernelOpts> starts;
    KernelOpts chosen = base_.opts;
    if (is_other_layout()) {
      // What the heuristic chooses for this layout, and what it has chosen for the other one.
      chosen = heuristic_options();
      starts.push_back(chosen);
      if (why_not_opts(site_.tree, base_.opts, builder_.machine()).empty()) starts.push_back(base_.opts);
    } else {
      Candidate base = base_;
      base.score = 1;
      timed_.push_back(met(std::move(base), -1));
    }
    for (const KernelOpts& known : request_.known)
      if (why_not_opts(site_.tree, known, builder_.machine()).empty()) starts.push_back(known);
    for (size_t nest : worth_changing_)
      for (std::vector<Opt>& other : starting_points(nests_[nest], builder_.machine(), is_local(nest))) {
        KernelOpts opts = chosen;
        opts[nest] = std::move(other);
        starts.push_back(std::move(opts));
      }
    try_out_in_batches(candidates(std::move(starts)));
  }

  void try_out_in_batches(std::vector<Candidate> candidates) {
    for (auto at = candidates.begin(); at != candidates.end() && !must_stop();) {
      std::vector<Candidate> batch;
      size_t size = 0;
      while (at != candidates.end() && batch.size() < kBatch && (batch.empty() || size + at->size <= kBatchProgram)) {
        size += at->size;
        batch.push_back(std::move(*at++));
      }
      try_out(std::move(batch));
    }
  }

  // False when the beam has no neighbours left that promise anything.
  bool next_generation() {
    std::vector<Candidate> next;
    const size_t beam = std::min(static_cast<size_t>(limits_.beam), timed_.size());
    double best = base_.estimate;
    for (size_t i = 0; i < beam; ++i) best = std::min(best, timed_[i].estimate);
    for (size_t i = 0; i < beam && !must_stop(); ++i) {
      if (timed_[i].expanded) continue;
      timed_[i].expanded = true;
      for (Candidate& c : candidates(steps_from(timed_[i].opts), timed_[i].trial)) {
        if (c.estimate > best * kHopeless)
          ++out_.counts.hopeless;
        else
          next.push_back(std::move(c));
      }
    }
    if (next.empty()) return false;
    std::stable_sort(next.begin(), next.end(),
                     [](const Candidate& a, const Candidate& b) { return a.estimate < b.estimate; });
    if (next.size() > static_cast<size_t>(limits_.generation)) {
      // What is not looked at now may come up again as the neighbour of another.
      for (size_t i = static_cast<size_t>(limits_.generation); i < next.size(); ++i) seen_.erase(next[i].program);
      next.resize(static_cast<size_t>(limits_.generation));
    }
    try_out_in_batches(std::move(next));
    return true;
  }

  // The best few again, in turns with the heuristic's.
  void finish() {
    out_.interrupted = cancelled();
    std::vector<Candidate> last;
    for (const Candidate& c : timed_)
      if (last.size() < kFinalists && c.score > 0 && c.kernel != base_.kernel) last.push_back(c);
    failed_ = now_.prepare();
    if (!failed_) return;
    const int rounds = kLastRounds * (last.empty() ? kFewestRounds : rounds_for_last(last));
    const std::vector<TimedKernel> kernels = timed_kernels(last);
    // Not interrupted: what was found is to be worth something.
    const auto samples = timed(kernels, out_.interrupted ? kFewestRounds : rounds, nullptr);
    out_.before_us = out_.after_us = typical_of(samples[0]) * 1e6;
    if (is_other_layout()) out_.after_us = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < last.size(); ++i) {
      const double us = typical_of(samples[i + 1]) * 1e6;
      if (out_.before_us > 0) trial_of(last[i]).last_ratio = us / out_.before_us;
      if (us >= out_.after_us) continue;
      const auto steady = is_steady(last[i]);
      if (!steady) {
        failed_ = steady.error();
        return;
      }
      if (!*steady) {
        disagrees(last[i], "the output depends on the number of threads");
        continue;
      }
      out_.after_us = us;
      out_.after = last[i].opts;
      out_.program = last[i].program;
      out_.winner = last[i].trial;
    }
    out_.improved = out_.after_us < out_.before_us * (1 - limits_.gain);
    if (request_.progress) request_.progress(1);
  }

  Result<bool> is_steady(const Candidate& c) {
    SMELT_CHECK(now_.prepare());
    return judge_.is_steady(c.kernel, site_.launches[0]);
  }

  int rounds_for_last(const std::vector<Candidate>& last) {
    const double one = base_us_ * 1e-6 * static_cast<double>(last.size() + 1);
    return std::clamp(static_cast<int>(kBatchSeconds / std::max(one, 1e-7)), kFewestRounds, kMostRounds);
  }

  const TuneRequest& request_;
  const TuneSite &site_, &now_;
  const TuneLimits& limits_;
  const KernelBuilder& builder_;
  TuneJudge judge_;
  ColdBench bench_;
  const Candidate base_;
  const double bytes_;
  const Clock::time_point begin_ = Clock::now();
  std::vector<Refs> nests_;             // stores before options
  std::vector<size_t> worth_changing_;  // of these
  double base_us_ = 0;
  std::unordered_set<uint64_t> seen_;  // programs
  std::vector<Candidate> timed_;       // best first
  Status failed_;                      // of the device: nothing more can be said
  TuneOutcome out_;
};

double weight_bytes(const TuneSite& site, const KernelCost& cost) {
  double bytes = 0;
  for (size_t i = 0; i < std::min(site.buffers.size(), cost.buffers.size()); ++i)
    if (site.buffers[i].is_weight) bytes += std::min(cost.buffers[i].read, static_cast<double>(site.buffers[i].bytes));
  return bytes;
}

}  // namespace

Result<TuneOutcome> tune_kernel(const TuneRequest& request) {
  const TuneSite& site = request.now ? *request.now : request.site;
  Device& device = request.device;
  const KernelBuilder builder(device, site.symbol_names);
  CodegenResult made = generate(builder.request(site.tree, site.name));
  Candidate base{.opts = made.opts, .program = program_hash(made.program), .size = made.program.code.size()};
  SMELT_TRY(kernel, builder.build(made.program));
  base.kernel = kernel;
  const SymbolValues symbols = site.symbol_values();
  const double weights = weight_bytes(site, cost_of(site.tree, symbols));
  base.estimate = estimate({.program = made.program,
                            .machine = builder.machine(),
                            .workers = device.workers(),
                            .symbols = symbols,
                            .tasks = shape_of(site.tree, base.opts, builder.machine(), symbols).tasks,
                            .bytes = weights,
                            .bytes_per_second = bytes_per_second(request)})
                      .seconds;
  SMELT_TRY(judge, TuneJudge::make(site, base.kernel, device));
  SMELT_TRY(bench, ColdBench::make(site, weights, device));
  SMELT_TRY(found, Search(request, builder, std::move(judge), std::move(bench), std::move(base), weights).run());
  if (std::isinf(found.after_us))
    return Error{"[tune] " + site.name + ": nothing was found that agrees, in the time there was"};
  return found;
}

}  // namespace smelt
