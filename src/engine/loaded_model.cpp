#include "engine/loaded_model.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <utility>

#include "base/clock.h"
#include "base/ensure.h"
#include "base/options.h"
#include "engine/launch_cost.h"
#include "engine/memory_need.h"
#include "engine/weight_loading.h"
#include "runtime/devices.h"
#include "runtime/target.h"

namespace smelt {
namespace {

// Of the plan for so many rows, in the order of sizes.
size_t number_of(int64_t batch) { return static_cast<size_t>(std::bit_width(static_cast<uint64_t>(batch)) - 1); }

}  // namespace

Result<std::unique_ptr<LoadedModel>> LoadedModel::open(const GgufFile& file, const EngineOptions& options,
                                                       const OpenHooks& hooks) {
  std::unique_ptr<LoadedModel> loaded(new LoadedModel(file, options));
  SMELT_CHECK(loaded->prepare(hooks));
  return loaded;
}

LoadedModel::~LoadedModel() {
  if (!debug(1)) return;
  for (const KernelTime& time : profile()) std::fprintf(stderr, "%s\n", text_of(time).c_str());
}

std::string text_of(const KernelTime& t) {
  char text[128];
  std::snprintf(text, sizeof text, "%10.1f us  %6lld calls  %8.3f ms in all  %7.2f GB/s  %8.2f Gop/s  ",
                t.seconds * 1e6 / static_cast<double>(t.calls), static_cast<long long>(t.calls), t.seconds * 1e3,
                t.bytes / t.seconds * 1e-9, t.operations / t.seconds * 1e-9);
  return text + t.name;
}

Status LoadedModel::prepare(const OpenHooks& hooks) {
  const auto start = Clock::now();
  hooks_ = &hooks;
  report("compiling", 0);
  SMELT_TRY(started, this->start());
  const auto& [packing, arena_bytes] = started;
  SMELT_CHECK(plans_->compiler().finish(
      [&](int done, int total) { report("compiling", static_cast<double>(done) / total); }, hooks.cancel));
  SMELT_CHECK(not_cancelled());
  stats_.compile_seconds = seconds_since(start);
  SMELT_CHECK(load(packing));
  SMELT_TRY(memory, EngineMemory::allocate(*device_, model(), layout(), options_.cache_type, arena_bytes));
  memory_ = std::move(memory);
  if (options_.sums_inputs) {
    SMELT_TRY(sums, InputSums::allocate(*device_, plans_->passes().input_sums(*prompt_.pass)));
    sums_ = std::move(sums);
  }
  for (Runnable* r : runnables()) {
    r->plan = plans_->passes().plan(*r->pass, packed_, memory_, memory_.arena(), sums_ ? &*sums_ : nullptr);
    SMELT_CHECK(r->plan.capture(*device_));
  }
  fill_stats();
  hooks_ = nullptr;
  if (debug(1)) start_profile();
  return {};
}

// On the first of the devices asked for that opens, knows the model's kernels and has the memory.
Result<LoadedModel::Start> LoadedModel::start() {
  const std::vector<std::string> names = names_for(options_.device);
  for (const std::string& name : names) {
    Result<Start> started = start_on(name);
    if (started || name == names.back() || cancelled()) return started;
    note(started.error().message + "; so the processor computes");
  }
  return Error{"[device] none was asked for"};
}

Result<LoadedModel::Start> LoadedModel::start_on(const std::string& device) {
  SMELT_CHECK(open_device(device));
  SMELT_TRY(plans, ModelPlans::make(file_, *device_, options_, hooks_->cancel));
  plans_ = std::move(plans);
  name_passes();
  Start started{.packing = PackPlan::make(file_, plans_->passes().packed_layouts(passes())),
                .arena_bytes = plans_->passes().arena_bytes(passes())};
  SMELT_CHECK(check_memory(started));
  return started;
}

Status LoadedModel::check_memory(const Start& start) const {
  const auto session = EngineMemory::bytes(model(), layout(), options_.cache_type, start.arena_bytes);
  const uint64_t there = options_.memory ? options_.memory : device_->available_memory();
  MemoryNeed need{.weights = start.packing.bytes, .session = session, .states = states_bytes(model(), layout())};
  if (static_cast<uint64_t>(need.bytes()) > there)
    need.fitting_context = fitting_context(static_cast<int64_t>(there) - need.weights, start.arena_bytes);
  return smelt::check_memory(need, {.bytes = there, .gpu = device_->host_sees_memory() ? "" : device_->name()},
                             file_.path());
}

// The longest context, in steps, whose session has room in so many bytes; 0: none.
int64_t LoadedModel::fitting_context(int64_t bytes, int64_t arena_bytes) const {
  constexpr int64_t kStep = 256;
  const auto fits = [&](int64_t steps) {
    return EngineMemory::bytes(model(), plans_->layout_with(steps * kStep), options_.cache_type, arena_bytes) <= bytes;
  };
  int64_t good = 0, bad = layout().context / kStep + 1;
  while (bad - good > 1) {
    const int64_t middle = (good + bad) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good * kStep;
}

Status LoadedModel::open_device(const std::string& name) {
  device_ = options_.opened;
  if (!device_) {
    SMELT_TRY(device,
              shared_device({.name = name, .threads = options_.threads, .use_cache = options_.use_kernel_cache}));
    device_ = std::move(device);
  }
  compiled_before_ = device_->stats();
  if (const std::string shortcoming = device_->shortcoming(); !shortcoming.empty()) note(shortcoming);
  return {};
}

void LoadedModel::name_passes() {
  generated_.clear(), drafts_.clear();
  for (std::vector<DecodeRunnables>& of_kind : choosing_) of_kind.clear();
  for (const DecodePasses& passes : plans_->generated()) generated_.emplace_back(passes);
  for (const Pass& pass : plans_->drafts()) drafts_.push_back({.pass = &pass, .plan = {}});
  for (const ChoiceKind kind : {ChoiceKind::Greedy, ChoiceKind::Drawn})
    for (const DecodePasses& passes : plans_->choosing(kind)) choosing_[static_cast<size_t>(kind)].emplace_back(passes);
  draft_prompt_.pass = &plans_->draft_prompt();
  prompt_.pass = &plans_->prompt();
  long_prompt_.reset();
  if (const std::optional<Pass>& pass = plans_->long_prompt()) long_prompt_ = Runnable{&*pass, {}};
  head_.pass = &plans_->head();
  wide_head_.pass = &wide_head_pass_;
  if (layout().sequences > 1) wide_head_pass_ = plans_->passes().head(layout().head_rows);
}

Status LoadedModel::load(const PackPlan& packing) {
  SMELT_TRY(loaded, load_weights({.device = *device_,
                                  .file = file_,
                                  .packing = packing,
                                  .pack_cache = options_.pack_cache,
                                  .threads = thread_count(options_.threads),
                                  .progress = [&](const char* what, double done) { report(what, done); },
                                  .note = [&](const std::string& sentence) { note(sentence); },
                                  .cancel = hooks_->cancel}));
  packed_ = std::move(loaded.packed);
  admitted_ = std::move(loaded.admitted);
  stats_.load_seconds = loaded.seconds;
  return {};
}

EngineStats LoadedModel::stats() const {
  EngineStats stats = stats_;
  stats.threads_per_token = generated_.front().run.plan.workers();
  return stats;
}

void LoadedModel::fill_stats() {
  const CompileStats compiled = device_->stats();
  const Runnable& single = generated_.front().run;
  stats_.kernels_compiled = compiled.compiled - compiled_before_.compiled;
  stats_.kernels_cached = compiled.cached - compiled_before_.cached;
  stats_.kernels_per_token = static_cast<int>(single.plan.launches().size());
  stats_.bytes_per_token = static_cast<int64_t>(plans_->passes().bytes_read(*single.pass));
  stats_.memory_bytes = memory_.bytes();
  stats_.threads = device_->workers();
}

bool LoadedModel::cancelled() const {
  return hooks_ && hooks_->cancel && hooks_->cancel->load(std::memory_order_relaxed);
}
Status LoadedModel::not_cancelled() const { return cancelled() ? Status(Error{"[session] interrupted"}) : Status(); }
void LoadedModel::note(const std::string& sentence) const {
  if (hooks_->note) hooks_->note(sentence);
}
void LoadedModel::report(const char* what, double done) const {
  if (hooks_->progress) hooks_->progress(what, done);
}

std::vector<LoadedModel::Runnable*> LoadedModel::runnables() {
  std::vector<Runnable*> list = {&prompt_, &head_};
  const auto add = [&](std::vector<DecodeRunnables>& batches) {
    for (DecodeRunnables& batch : batches) {
      list.push_back(&batch.run);
      if (batch.of_middle) list.push_back(&*batch.of_middle);
      if (batch.of_long) list.push_back(&*batch.of_long);
      if (batch.of_wide) list.push_back(&*batch.of_wide);
    }
  };
  if (long_prompt_) list.push_back(&*long_prompt_);
  add(generated_);
  for (Runnable& r : drafts_) list.push_back(&r);
  for (std::vector<DecodeRunnables>& of_kind : choosing_) add(of_kind);
  if (!drafts_.empty()) list.push_back(&draft_prompt_);
  if (layout().sequences > 1) list.push_back(&wide_head_);
  return list;
}

std::vector<const Pass*> LoadedModel::passes() {
  std::vector<const Pass*> list;
  for (const Runnable* r : runnables()) list.push_back(r->pass);
  return list;
}

const LoadedModel::Runnable* LoadedModel::of_kind(PlanKind kind) const {
  const DecodeRunnables& batch = generated_[plans_->decode_number()];
  switch (kind) {
    case PlanKind::Decode: return &batch.run;
    case PlanKind::MiddleDecode: return batch.of_middle ? &*batch.of_middle : nullptr;
    case PlanKind::LongDecode: return batch.of_long ? &*batch.of_long : nullptr;
    case PlanKind::WideDecode: return batch.of_wide ? &*batch.of_wide : nullptr;
    case PlanKind::Prefill: return &prompt_;
    case PlanKind::Head: return &head_;
    case PlanKind::LongPrefill: return long_prompt_ ? &*long_prompt_ : nullptr;
  }
  return nullptr;
}

const LoadedModel::Runnable& LoadedModel::of_kind(const DecodeRunnables& batch, PlanKind kind) {
  if (kind == PlanKind::WideDecode) return *batch.of_wide;
  if (kind == PlanKind::MiddleDecode) return *batch.of_middle;
  return kind == PlanKind::LongDecode ? *batch.of_long : batch.run;
}

// --- runs

int64_t LoadedModel::batch_for(int64_t tokens) const {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(tokens)));
}

Status LoadedModel::run_generated(int64_t batch, const Extent& extent, const std::atomic<bool>* cancel) {
  const DecodeRunnables& of_batch = generated_.at(number_of(batch));
  const PlanKind kind = plans_->decode_kind(batch, extent.end);
  return run(kind, of_kind(of_batch, kind), extent, extent.tokens, cancel);
}

Result<uint64_t> LoadedModel::run_choosing(ChoiceKind kind, int64_t batch, const Extent& extent,
                                           std::span<int32_t> chosen) {
  const DecodeRunnables& of_batch = choosing_[static_cast<size_t>(kind)].at(number_of(batch));
  const Runnable& runnable = of_kind(of_batch, plans_->decode_kind(batch, extent.end));
  const ReadBack read_back{.to = std::as_writable_bytes(chosen), .from = memory_.chosen()};
  SMELT_CHECK(run({}, runnable, extent, extent.tokens, nullptr, read_back));
  return std::exchange(last_run_, 0);
}

Status LoadedModel::run_draft(int64_t batch, const Extent& extent, const std::atomic<bool>* cancel) {
  return run({}, drafts_.at(number_of(batch)), extent, extent.tokens, cancel);
}

Status LoadedModel::run_draft_prompt(const Extent& extent, const std::atomic<bool>* cancel) {
  return run({}, draft_prompt_, extent, extent.tokens, cancel);
}

Status LoadedModel::run_prompt(const Extent& extent, const std::atomic<bool>* cancel) {
  ENSURE(!sums_ || extent.tokens % kGroupSize == 0, "padding tokens would be part of the sums of inputs");
  const bool is_long = plans_->is_long_prompt(extent.tokens);
  SMELT_CHECK(run(is_long ? PlanKind::LongPrefill : PlanKind::Prefill, is_long ? *long_prompt_ : prompt_, extent,
                  extent.tokens, cancel));
  return sums_ ? sums_->add_run(extent.tokens) : Status();
}

Status LoadedModel::run_head(const Extent& extent, const std::atomic<bool>* cancel) {
  return run(PlanKind::Head, head_, extent, layout().prefill_tokens, cancel);
}

Status LoadedModel::run_wide_head(const Extent& extent, const std::atomic<bool>* cancel) {
  SMELT_CHECK(make_wide_head());
  return run(PlanKind::Head, wide_head_, extent, layout().prefill_tokens, cancel);
}

// Several prompts may end in one run; of programs with one sequence few ask for the logits of all tokens.
Status LoadedModel::make_wide_head() {
  if (!wide_head_.plan.launches().empty()) return {};
  wide_head_pass_ = plans_->passes().head(layout().head_rows);
  SMELT_CHECK(plans_->compiler().finish());
  const int64_t need = plans_->passes().arena_bytes({wide_head_.pass});
  SMELT_TRY(arena, DeviceMemory::allocate(*device_, static_cast<size_t>(need) + 64, "the head of many tokens"));
  wide_arena_ = std::move(arena);
  wide_head_.plan = plans_->passes().plan(*wide_head_.pass, packed_, memory_, wide_arena_.data());
  return wide_head_.plan.capture(*device_);
}

// `kind`: under which observers know it, if they do. `symbol_tokens`: what the plan is told of the number of its
// tokens.
Status LoadedModel::run(std::optional<PlanKind> kind, const Runnable& runnable, const Extent& extent,
                        int64_t symbol_tokens, const std::atomic<bool>* cancel, const ReadBack& read_back) {
  const Plan& plan = runnable.plan;
  const PassSymbols symbols = PassSymbols::of(symbol_tokens, extent.end, layout().token_tile);
  const std::span<int64_t> clocks = times_.clocks(plan.launches().size());
  const std::span<int64_t> arrivals = times_.arrivals(plan.launches().size());
  const int64_t values[] = {symbols.token_tiles, symbols.chunks, symbols.pages};
  SMELT_CHECK(memory_.send_inputs());
  SMELT_TRY(begun, plan.start(values,
                              {.cancel = cancel, .times_ns = clocks, .arrivals_ns = arrivals, .read_back = read_back}));
  last_run_ = begun;
  times_.add(plan.kernels(), clocks, work_of(runnable, symbols, extent));
  if (observer_ && kind)
    observer_({.plan = *kind,
               .tokens = extent.tokens,
               .position = extent.first,
               .symbols = symbols.named(layout().token_tile),
               .times_ns = clocks,
               .arrivals_ns = arrivals});
  return {};
}

Status LoadedModel::finish() { return device_->wait(std::exchange(last_run_, 0)); }

Result<std::span<const float>> LoadedModel::read_logits(int64_t rows) {
  SMELT_CHECK(finish());
  return memory_.read_logits(rows);
}

// Where the head looks for them.
Result<std::span<const float>> LoadedModel::read_hidden(int64_t first, int64_t rows) {
  return memory_.read_hidden(ModelPasses::is_flipped(model().numbers().layers + 1), first, rows);
}

// For DEBUG=1, of each launch. It is counted anew where attention reads notably further.
std::span<const LaunchTimes::Work> LoadedModel::work_of(const Runnable& runnable, const PassSymbols& symbols,
                                                        const Extent& extent) {
  if (!debug(1)) return {};
  const int64_t middle = (extent.first + extent.end) / 2, step = middle < kChunkSize ? 16 : kChunkSize;
  const int64_t position = middle / step * step + step / 2;
  auto& work = work_[{&runnable, symbols.token_tiles, position}];
  if (!work.empty()) return work;
  const SymbolValues values = symbols.named(layout().token_tile);
  for (const PlanLaunch& launch : plans_->passes().launches(*runnable.pass, runnable.plan)) {
    const KernelCost cost = launch_cost(launch, kernel(launch.kernel).tree, values, position);
    work.push_back({cost.bytes(), cost.operations()});
  }
  return work;
}

// --- what the plans are made of, and what they cost

void LoadedModel::start_profile() {
  size_t most = 0;
  for (const Runnable* r : runnables()) most = std::max(most, r->plan.launches().size());
  times_.start(kernel_count(), most, static_cast<size_t>(device_->timed_workers()));
}

std::vector<KernelTime> LoadedModel::profile() const {
  std::vector<KernelTime> out;
  const auto kernels = times_.kernels();
  for (size_t i = 0; i < kernels.size(); ++i)
    if (const LaunchTimes::Kernel& k = kernels[i]; k.calls > 0)
      out.push_back({plans_->compiler().kernel(static_cast<int>(i)).name, k.calls, k.seconds, k.bytes, k.operations});
  std::sort(out.begin(), out.end(), [](const KernelTime& a, const KernelTime& b) { return a.seconds > b.seconds; });
  return out;
}

void LoadedModel::observe(std::function<void(const RunTimes&)> observer) {
  observer_ = std::move(observer);
  if (!times_.started()) start_profile();
}

std::vector<PlanLaunch> LoadedModel::launches(PlanKind kind) const {
  const Runnable* r = of_kind(kind);
  return r ? plans_->passes().launches(*r->pass, r->plan) : std::vector<PlanLaunch>();
}

std::vector<PlanSegment> LoadedModel::segments(PlanKind kind) const {
  const Runnable* r = of_kind(kind);
  return r ? plans_->passes().segments(*r->pass) : std::vector<PlanSegment>();
}

std::vector<Ref> LoadedModel::trees_with(PlanKind kind, const std::string& role, WeightLayout layout) const {
  const Runnable* r = of_kind(kind);
  return r ? plans_->passes().trees_with(*r->pass, role, layout) : std::vector<Ref>();
}

}  // namespace smelt
