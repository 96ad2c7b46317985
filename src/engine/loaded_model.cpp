#include "engine/loaded_model.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>

#include "base/ensure.h"
#include "base/options.h"
#include "engine/memory_need.h"
#include "engine/weight_loading.h"
#include "runtime/devices.h"
#include "runtime/target.h"

namespace smelt {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

constexpr int64_t kMostSequences = 4096;

Status check_options(const EngineOptions& options) {
  if (options.sequences < 1 || options.sequences > kMostSequences)
    return Error{"[engine] " + std::to_string(options.sequences) + " sequences at a time: 1 to " +
                 std::to_string(kMostSequences) + " are possible"};
  if (options.cache_tokens < 0)
    return Error{"[engine] a cache of " + std::to_string(options.cache_tokens) + " tokens: it cannot be negative"};
  return {};
}

}  // namespace

Result<std::unique_ptr<LoadedModel>> LoadedModel::open(const GgufFile& file, const EngineOptions& options,
                                                       const OpenHooks& hooks) {
  SMELT_CHECK(check_options(options));
  SMELT_TRY(model, read_model(file));
  const int64_t trained = model->numbers().context;
  const int64_t context = options.context == 0 ? std::min<int64_t>(trained, 4096) : options.context;
  if (context < 1 || context > trained)
    return Error{"[context] " + std::to_string(context) + " tokens: this model was made for 1 to " +
                 std::to_string(trained)};
  const EngineLayout layout =
      EngineLayout::make(context, options.prefill_chunk, options.sequences, options.cache_tokens);
  std::unique_ptr<LoadedModel> loaded(new LoadedModel(file, std::move(model), options, layout));
  SMELT_CHECK(loaded->prepare(hooks));
  return loaded;
}

LoadedModel::LoadedModel(const GgufFile& file, std::shared_ptr<const Model> model, const EngineOptions& options,
                         const EngineLayout& layout)
    : file_(file), model_(std::move(model)), options_(options), layout_(layout) {}

LoadedModel::~LoadedModel() {
  if (!debug(1)) return;
  for (const KernelTime& t : profile())
    std::fprintf(stderr, "%10.1f us  %6lld calls  %8.3f ms in all  %s\n",
                 t.seconds * 1e6 / static_cast<double>(t.calls), static_cast<long long>(t.calls), t.seconds * 1e3,
                 t.name.c_str());
}

Status LoadedModel::prepare(const OpenHooks& hooks) {
  const auto start = Clock::now();
  hooks_ = &hooks;
  report("compiling", 0);
  SMELT_CHECK(open_device());
  make_passes(layouts_);
  // Layouts go with the options that were found with them.
  if (!layouts_.empty() && compiler_->tuned_lost() > 0) make_passes(options_.layouts);
  SMELT_CHECK(not_cancelled());
  const PackPlan packing = PackPlan::make(file_, passes_->packed_layouts(passes()));
  const int64_t arena_bytes = passes_->arena_bytes(passes());
  const int64_t session_bytes = EngineMemory::bytes(*model_, layout_, options_.cache_type, arena_bytes);
  SMELT_CHECK(check_memory({.weights = packing.bytes, .session = session_bytes},
                           options_.memory ? options_.memory : device_->available_memory(), file_.path()));
  SMELT_CHECK(compiler_->finish([&](int done, int total) { report("compiling", static_cast<double>(done) / total); },
                                hooks.cancel));
  SMELT_CHECK(not_cancelled());
  stats_.compile_seconds = seconds_since(start);
  SMELT_CHECK(load(packing));
  SMELT_TRY(memory, EngineMemory::allocate(*device_, *model_, layout_, options_.cache_type, arena_bytes));
  memory_ = std::move(memory);
  for (Runnable* r : runnables()) {
    r->plan = passes_->plan(r->pass, packed_, memory_, memory_.arena());
    SMELT_CHECK(r->plan.capture(*device_));
  }
  fill_stats();
  hooks_ = nullptr;
  if (debug(1)) start_profile();
  return {};
}

Status LoadedModel::open_device() {
  SMELT_TRY(device, shared_device({.name = options_.device,
                                   .threads = options_.threads,
                                   .use_cache = options_.use_kernel_cache,
                                   .target = options_.target}));
  device_ = std::move(device);
  compiled_before_ = device_->stats();
  if (const std::string shortcoming = device_->shortcoming(); !shortcoming.empty()) note(shortcoming);
  compiler_ = std::make_unique<Compiler>(*device_, PassSymbols::names());
  layouts_ = options_.layouts;
  if (options_.use_tuned) {
    TunedOptions tuned = TunedOptions::load(device_->machine());
    layouts_.merge(tuned.layouts());
    compiler_->use_tuned(std::move(tuned));
  }
  return {};
}

void LoadedModel::make_passes(const LayoutChoice& layouts) {
  const PassOptions pass_options{.cache_type = options_.cache_type,
                                 .quantise = options_.quantise_activations,
                                 .interleave = options_.repack ? device_->machine().rows_side_by_side() : 1,
                                 .reads_file = device_->host_sees_memory(),
                                 .layouts = layouts};
  passes_ = std::make_unique<ModelPasses>(file_, *model_, layout_, pass_options, *compiler_);
  generated_.clear();
  for (int64_t batch = 1; batch <= layout_.batch; batch *= 2)
    generated_.push_back({.pass = passes_->decode(hooks_->cancel, batch), .plan = {}});
  prompt_.pass = passes_->prefill(hooks_->cancel);
  head_.pass = passes_->head(1);
  if (layout_.sequences > 1) wide_head_.pass = passes_->head(layout_.head_rows);
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
  stats_.load_seconds = loaded.seconds;
  return {};
}

void LoadedModel::fill_stats() {
  const CompileStats compiled = device_->stats();
  const Runnable& single = generated_.front();
  stats_.kernels_compiled = compiled.compiled - compiled_before_.compiled;
  stats_.kernels_cached = compiled.cached - compiled_before_.cached;
  stats_.kernels_per_token = static_cast<int>(single.plan.launches().size());
  const int last_block = single.pass.compiled[static_cast<size_t>(model_->numbers().layers)];
  stats_.kernels_per_moe_layer = static_cast<int>(compiler_->segment(last_block).kernels.size());
  stats_.bytes_per_token = static_cast<int64_t>(passes_->bytes_read(single.pass));
  stats_.memory_bytes = memory_.bytes();
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
  for (Runnable& r : generated_) list.push_back(&r);
  if (layout_.sequences > 1) list.push_back(&wide_head_);
  return list;
}

std::vector<const Pass*> LoadedModel::passes() {
  std::vector<const Pass*> list;
  for (const Runnable* r : runnables()) list.push_back(&r->pass);
  return list;
}

const LoadedModel::Runnable& LoadedModel::of_kind(PlanKind kind) const {
  return kind == PlanKind::Decode ? generated_.front() : kind == PlanKind::Prefill ? prompt_ : head_;
}

// --- runs

int64_t LoadedModel::batch_for(int64_t tokens) const {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(tokens)));
}

Status LoadedModel::run_generated(int64_t batch, const Extent& extent, const std::atomic<bool>* cancel) {
  const auto number = static_cast<size_t>(std::bit_width(static_cast<uint64_t>(batch)) - 1);
  return run(PlanKind::Decode, generated_.at(number).plan, extent, extent.tokens, cancel);
}

Status LoadedModel::run_prompt(const Extent& extent, const std::atomic<bool>* cancel) {
  return run(PlanKind::Prefill, prompt_.plan, extent, extent.tokens, cancel);
}

Status LoadedModel::run_head(const Extent& extent, const std::atomic<bool>* cancel) {
  return run(PlanKind::Head, head_.plan, extent, layout_.prefill_tokens, cancel);
}

Status LoadedModel::run_wide_head(const Extent& extent, const std::atomic<bool>* cancel) {
  SMELT_CHECK(make_wide_head());
  return run(PlanKind::Head, wide_head_.plan, extent, layout_.prefill_tokens, cancel);
}

// Several prompts may end in one run; of programs with one sequence few ask for the logits of all tokens.
Status LoadedModel::make_wide_head() {
  if (!wide_head_.plan.launches().empty()) return {};
  wide_head_.pass = passes_->head(layout_.head_rows);
  SMELT_CHECK(compiler_->finish());
  const int64_t need = passes_->arena_bytes({&wide_head_.pass});
  SMELT_TRY(arena, DeviceMemory::allocate(*device_, static_cast<size_t>(need) + 64, "the head of many tokens"));
  wide_arena_ = std::move(arena);
  wide_head_.plan = passes_->plan(wide_head_.pass, packed_, memory_, wide_arena_.data());
  return wide_head_.plan.capture(*device_);
}

// `symbol_tokens`: what the plan is told of the number of its tokens.
Status LoadedModel::run(PlanKind kind, const Plan& plan, const Extent& extent, int64_t symbol_tokens,
                        const std::atomic<bool>* cancel) {
  const PassSymbols symbols{.tokens8 = (symbol_tokens + kGroupSize - 1) / kGroupSize,
                            .chunks = (extent.end + kChunkSize - 1) / kChunkSize};
  const std::span<int64_t> clocks = times_.clocks(plan.launches().size());
  const int64_t values[] = {symbols.tokens8, symbols.chunks};
  SMELT_CHECK(memory_.send_inputs());
  SMELT_CHECK(plan.run(values, {.cancel = cancel, .times_ns = clocks}));
  times_.add(plan.kernels(), clocks);
  const auto& names = PassSymbols::names();
  if (observer_)
    observer_({kind, extent.tokens, extent.first, {{names[0], symbols.tokens8}, {names[1], symbols.chunks}}, clocks});
  return {};
}

// --- what the plans are made of, and what they cost

void LoadedModel::start_profile() {
  size_t most = 0;
  for (const Runnable* r : runnables()) most = std::max(most, r->plan.launches().size());
  times_.start(compiler_->kernel_count(), most);
}

std::vector<KernelTime> LoadedModel::profile() const {
  std::vector<KernelTime> out;
  const auto kernels = times_.kernels();
  for (size_t i = 0; i < kernels.size(); ++i)
    if (kernels[i].calls > 0)
      out.push_back({compiler_->kernel(static_cast<int>(i)).name, kernels[i].calls, kernels[i].seconds});
  std::sort(out.begin(), out.end(), [](const KernelTime& a, const KernelTime& b) { return a.seconds > b.seconds; });
  return out;
}

void LoadedModel::observe(std::function<void(const RunTimes&)> observer) {
  observer_ = std::move(observer);
  if (!times_.started()) start_profile();
}

std::vector<PlanLaunch> LoadedModel::launches(PlanKind kind) const {
  const Runnable& r = of_kind(kind);
  return passes_->launches(r.pass, r.plan);
}

std::vector<Ref> LoadedModel::trees_with(PlanKind kind, const std::string& role, WeightLayout layout) const {
  return passes_->trees_with(of_kind(kind).pass, role, layout);
}

KernelDescription LoadedModel::kernel(int number) const {
  const CompiledKernel& k = compiler_->kernel(number);
  return {k.name, k.tree, k.opts, device_->machine()};
}

KernelListing LoadedModel::listing(int kernel, bool with_assembly) const {
  KernelListing out{.program = compiler_->program(kernel)};
  out.source = compiler_->source(out.program);
  if (with_assembly) out.assembly = device_->assembly(out.source);
  return out;
}

}  // namespace smelt
