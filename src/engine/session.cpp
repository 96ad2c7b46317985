#include "engine/session.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/ensure.h"
#include "base/options.h"
#include "engine/launch_times.h"
#include "engine/memory_need.h"
#include "engine/model_passes.h"
#include "engine/weight_loading.h"
#include "runtime/available_memory.h"
#include "runtime/target.h"

namespace smelt {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

class SessionState {
 public:
  SessionState(const GgufFile& file, Hyperparameters model, const SessionOptions& options,
               int64_t context)
      : file_(file),
        model_(std::move(model)),
        options_(options),
        layout_(SessionLayout::make(context, options.prefill_chunk)) {}

  Status prepare(const Session::OpenHooks& hooks) {
    const auto start = Clock::now();
    hooks_ = &hooks;
    report("compiling", 0);
    SMELT_CHECK(open_device());
    make_passes(layouts_);
    // Layouts go with the options that were found with them.
    if (!layouts_.empty() && compiler_->tuned_lost() > 0) make_passes(options_.layouts);
    SMELT_CHECK(not_cancelled());
    const PackPlan packing = PackPlan::make(file_, passes_->packed_layouts(all_passes()));
    const int64_t arena_bytes = passes_->arena_bytes(all_passes());
    SMELT_CHECK(check_memory({.weights = packing.bytes, .session = session_bytes(arena_bytes)},
                             options_.memory ? options_.memory : available_memory(), file_.path()));
    compiler_->finish(
        [&](int done, int total) { report("compiling", static_cast<double>(done) / total); },
        hooks.cancel);
    SMELT_CHECK(not_cancelled());
    stats_.compile_seconds = seconds_since(start);
    SMELT_CHECK(load(packing));
    SMELT_TRY(memory, SessionMemory::allocate(model_, layout_, options_.cache_type, arena_bytes));
    memory_ = std::move(memory);
    for (Runnable* r : {&decode_, &prefill_, &head_})
      r->plan = passes_->plan(r->pass, packed_, memory_, memory_.arena());
    fill_stats();
    hooks_ = nullptr;
    if (debug(1)) start_profile();
    return {};
  }

  const SessionStats& stats() const { return stats_; }
  const Hyperparameters& model() const { return model_; }
  int64_t context() const { return layout_.context; }
  int64_t position() const { return position_; }
  void reset() { position_ = 0; }
  void rewind(int64_t position) {
    ENSURE(position >= 0 && position <= position_, "a position that is not in the context");
    position_ = position;  // what lies behind is masked, and written over
  }

  void start_profile() {
    size_t most = 0;
    for (const Runnable* r : {&decode_, &prefill_, &head_})
      most = std::max(most, r->plan.launches().size());
    times_.start(compiler_->kernel_count(), most);
  }

  std::vector<KernelTime> profile() const {
    std::vector<KernelTime> out;
    const auto kernels = times_.kernels();
    for (size_t i = 0; i < kernels.size(); ++i)
      if (kernels[i].calls > 0)
        out.push_back(
            {compiler_->kernel(static_cast<int>(i)).name, kernels[i].calls, kernels[i].seconds});
    std::sort(out.begin(), out.end(),
              [](const KernelTime& a, const KernelTime& b) { return a.seconds > b.seconds; });
    return out;
  }

  void observe(std::function<void(const RunTimes&)> observer) {
    observer_ = std::move(observer);
    if (!times_.started()) start_profile();
  }

  std::vector<PlanLaunch> launches(PlanKind kind) const {
    const Runnable& r = of_kind(kind);
    return passes_->launches(r.pass, r.plan);
  }
  std::vector<Ref> trees_with(PlanKind kind, const std::string& role, WeightLayout layout) const {
    return passes_->trees_with(of_kind(kind).pass, role, layout);
  }

  int kernel_count() const { return compiler_->kernel_count(); }
  KernelDescription kernel(int number) const {
    const CompiledKernel& k = compiler_->kernel(number);
    return {k.name, k.tree, k.opts};
  }
  KernelListing listing(int kernel, bool with_assembly) const {
    KernelListing out{.program = compiler_->program(kernel)};
    out.source = compiler_->source(out.program);
    if (with_assembly) out.assembly = device_->assembly(out.source);
    return out;
  }

  Status check(std::span<const int32_t> tokens) const {
    if (position_ + static_cast<int64_t>(tokens.size()) > layout_.context)
      return Error{"[context] " + std::to_string(tokens.size()) +
                   " tokens do not fit: " + std::to_string(position_) + " of " +
                   std::to_string(layout_.context) + " are taken; use a larger context (-c)"};
    for (int32_t t : tokens)
      if (t < 0 || t >= model_.vocabulary)
        return Error{"[tokens] id " + std::to_string(t) + " is not in the vocabulary of " +
                     std::to_string(model_.vocabulary)};
    return {};
  }

  Result<std::span<const float>> append(std::span<const int32_t> tokens,
                                        const std::atomic<bool>* cancel) {
    SMELT_CHECK(check(tokens));
    while (!tokens.empty()) {
      const auto n = std::min<size_t>(tokens.size(), static_cast<size_t>(layout_.prefill_tokens));
      if (n == 1) {
        SMELT_CHECK(decode(tokens[0], cancel));
      } else {
        SMELT_CHECK(prefill(tokens.first(n), cancel));
        if (n == tokens.size()) SMELT_CHECK(run_head(static_cast<int32_t>(n) - 1, cancel));
      }
      tokens = tokens.subspan(n);
    }
    return std::span<const float>(memory_.logits(), static_cast<size_t>(model_.vocabulary));
  }

  Status append_all(std::span<const int32_t> tokens, const Session::LogitsSink& sink,
                    const std::atomic<bool>* cancel) {
    SMELT_CHECK(check(tokens));
    int64_t index = 0;
    while (!tokens.empty()) {
      const auto n = std::min<size_t>(tokens.size(), static_cast<size_t>(layout_.prefill_tokens));
      SMELT_CHECK(prefill(tokens.first(n), cancel));
      SMELT_CHECK(report_rows(static_cast<int32_t>(n), index, sink, cancel));
      index += static_cast<int64_t>(n);
      tokens = tokens.subspan(n);
    }
    return {};
  }

 private:
  // A pass and its launches.
  struct Runnable {
    Pass pass;
    Plan plan;
  };

  Status open_device() {
    SMELT_TRY(device, CpuDevice::open({.threads = options_.threads,
                                       .use_cache = options_.use_kernel_cache,
                                       .codegen = {},
                                       .target = options_.target}));
    device_ = std::move(device);
    if (const std::string missing = missing_instructions(device_->target()); !missing.empty())
      note(missing);
    compiler_ = std::make_unique<Compiler>(*device_, PassSymbols::names());
    layouts_ = options_.layouts;
    if (options_.use_tuned) {
      TunedOptions tuned = TunedOptions::load(device_->target());
      layouts_.merge(tuned.layouts());
      compiler_->use_tuned(std::move(tuned));
    }
    return {};
  }

  void make_passes(const LayoutChoice& layouts) {
    const PassOptions pass_options{
        .cache_type = options_.cache_type,
        .quantise = options_.quantise_activations,
        .interleave = options_.repack ? machine_of(device_->target()).lanes : 1,
        .layouts = layouts};
    passes_ = std::make_unique<ModelPasses>(file_, model_, layout_, pass_options, *compiler_);
    decode_.pass = passes_->decode(hooks_->cancel);
    prefill_.pass = passes_->prefill(hooks_->cancel);
    head_.pass = passes_->head(1);
  }

  Status load(const PackPlan& packing) {
    SMELT_TRY(loaded,
              load_weights({.file = file_,
                            .packing = packing,
                            .pack_cache = options_.pack_cache,
                            .threads = device_->workers().count(),
                            .progress = [&](const char* what, double done) { report(what, done); },
                            .note = [&](const std::string& sentence) { note(sentence); },
                            .cancel = hooks_->cancel}));
    packed_ = std::move(loaded.packed);
    stats_.load_seconds = loaded.seconds;
    return {};
  }

  bool cancelled() const {
    return hooks_ && hooks_->cancel && hooks_->cancel->load(std::memory_order_relaxed);
  }
  Status not_cancelled() const {
    return cancelled() ? Status(Error{"[session] interrupted"}) : Status();
  }
  void note(const std::string& sentence) const {
    if (hooks_->note) hooks_->note(sentence);
  }
  void report(const char* what, double done) const {
    if (hooks_->progress) hooks_->progress(what, done);
  }

  std::vector<const Pass*> all_passes() const {
    return {&decode_.pass, &prefill_.pass, &head_.pass};
  }
  const Runnable& of_kind(PlanKind kind) const {
    return kind == PlanKind::Decode ? decode_ : kind == PlanKind::Prefill ? prefill_ : head_;
  }
  PlanKind kind_of(const Plan& plan) const {
    return &plan == &decode_.plan    ? PlanKind::Decode
           : &plan == &prefill_.plan ? PlanKind::Prefill
                                     : PlanKind::Head;
  }

  int64_t session_bytes(int64_t arena_bytes) const {
    return SessionMemory::bytes(model_, layout_, options_.cache_type, arena_bytes);
  }

  Status run(const Plan& plan, int64_t tokens, const std::atomic<bool>* cancel) {
    const int64_t last = position_ + tokens;
    const PassSymbols symbols{.tokens8 = (tokens + 7) / 8,
                              .chunks = (last + kChunkSize - 1) / kChunkSize};
    const std::span<int64_t> clocks = times_.clocks(plan.launches().size());
    if (!device_->workers().run(plan.launches(), &symbols.tokens8,
                                {.cancel = cancel, .times_ns = clocks}))
      return Error{"[run] interrupted"};
    times_.add(plan.kernels(), clocks);
    const auto& names = PassSymbols::names();
    if (observer_)
      observer_({kind_of(plan),
                 tokens,
                 position_,
                 {{names[0], symbols.tokens8}, {names[1], symbols.chunks}},
                 clocks});
    return {};
  }

  Status decode(int32_t token, const std::atomic<bool>* cancel) {
    memory_.tokens()[0] = token;
    memory_.positions()[0] = static_cast<int32_t>(position_);
    memory_.rows()[0] = 0;
    SMELT_CHECK(run(decode_.plan, 1, cancel));
    ++position_;
    return {};
  }

  Status prefill(std::span<const int32_t> tokens, const std::atomic<bool>* cancel) {
    const auto n = static_cast<int64_t>(tokens.size());
    for (int64_t i = 0; i < (n + 7) / 8 * 8; ++i) {
      memory_.tokens()[i] = i < n ? tokens[i] : 0;
      memory_.positions()[i] =
          static_cast<int32_t>(i < n ? position_ + i : layout_.first_padding_position() + i % 8);
    }
    SMELT_CHECK(run(prefill_.plan, n, cancel));
    position_ += n;
    return {};
  }

  Status run_head(int32_t row, const std::atomic<bool>* cancel) {
    memory_.rows()[0] = row;
    return run(head_.plan, layout_.prefill_tokens, cancel);
  }

  Status report_rows(int32_t n, int64_t index, const Session::LogitsSink& sink,
                     const std::atomic<bool>* cancel) {
    if (wide_head_.plan.launches().empty()) {
      wide_head_.pass = passes_->head(layout_.logit_rows);
      compiler_->finish();
      const int64_t need = passes_->arena_bytes({&wide_head_.pass});
      SMELT_TRY(arena, Buffer::allocate(static_cast<size_t>(need) + 64));
      wide_arena_ = std::move(arena);
      wide_head_.plan = passes_->plan(wide_head_.pass, packed_, memory_, wide_arena_.data());
    }
    for (int32_t row = 0; row < n; row += static_cast<int32_t>(layout_.logit_rows)) {
      const int32_t count = std::min<int32_t>(n - row, static_cast<int32_t>(layout_.logit_rows));
      for (int32_t r = 0; r < layout_.logit_rows; ++r) memory_.rows()[r] = std::min(row + r, n - 1);
      SMELT_CHECK(run(wide_head_.plan, layout_.prefill_tokens, cancel));
      for (int32_t r = 0; r < count; ++r)
        sink(index + row + r,
             {memory_.logits() + r * model_.vocabulary, static_cast<size_t>(model_.vocabulary)});
    }
    return {};
  }

  void fill_stats() {
    const CompileStats compiled = device_->stats();
    stats_.kernels_compiled = compiled.compiled;
    stats_.kernels_cached = compiled.cached;
    stats_.kernels_per_token = static_cast<int>(decode_.plan.launches().size());
    const int last_block = decode_.pass.compiled[static_cast<size_t>(model_.layers)];
    stats_.kernels_per_moe_layer = static_cast<int>(compiler_->segment(last_block).kernels.size());
    stats_.bytes_per_token = static_cast<int64_t>(passes_->bytes_read(decode_.pass));
    stats_.memory_bytes = memory_.bytes();
  }

  const GgufFile& file_;
  const Hyperparameters model_;
  const SessionOptions options_;
  const SessionLayout layout_;
  LayoutChoice layouts_;
  const Session::OpenHooks* hooks_ = nullptr;  // while opening
  std::unique_ptr<CpuDevice> device_;
  std::unique_ptr<Compiler> compiler_;
  std::unique_ptr<ModelPasses> passes_;
  PackedWeights packed_;
  SessionMemory memory_;
  Buffer wide_arena_;
  Runnable decode_, prefill_, head_, wide_head_;
  int64_t position_ = 0;
  SessionStats stats_;
  LaunchTimes times_;
  std::function<void(const RunTimes&)> observer_;
};

Result<std::unique_ptr<Session>> Session::open(const GgufFile& file, const SessionOptions& options,
                                               const OpenHooks& hooks) {
  SMELT_TRY(model, read_hyperparameters(file));
  int64_t context = options.context;
  if (context == 0) context = std::min<int64_t>(model.context, 4096);
  if (context < 1 || context > model.context)
    return Error{"[context] " + std::to_string(context) + " tokens: this model was made for 1 to " +
                 std::to_string(model.context)};
  auto state = std::make_unique<SessionState>(file, std::move(model), options, context);
  SMELT_CHECK(state->prepare(hooks));
  return std::unique_ptr<Session>(new Session(std::move(state)));
}

Session::Session(std::unique_ptr<SessionState> state) : state_(std::move(state)) {}
Session::~Session() {
  if (!state_ || !debug(1)) return;
  for (const KernelTime& t : profile())
    std::fprintf(stderr, "%10.1f us  %6lld calls  %8.3f ms in all  %s\n",
                 t.seconds * 1e6 / static_cast<double>(t.calls), static_cast<long long>(t.calls),
                 t.seconds * 1e3, t.name.c_str());
}
int64_t Session::context() const { return state_->context(); }
int64_t Session::position() const { return state_->position(); }
int64_t Session::vocabulary_size() const { return state_->model().vocabulary; }
void Session::reset() { state_->reset(); }
void Session::rewind(int64_t position) { state_->rewind(position); }
const SessionStats& Session::stats() const { return state_->stats(); }
void Session::start_profile() { state_->start_profile(); }
std::vector<KernelTime> Session::profile() const { return state_->profile(); }
void Session::observe(std::function<void(const RunTimes&)> observer) {
  state_->observe(std::move(observer));
}
std::vector<PlanLaunch> Session::launches(PlanKind plan) const { return state_->launches(plan); }
std::vector<Ref> Session::trees_with(PlanKind plan, const std::string& role,
                                     WeightLayout layout) const {
  return state_->trees_with(plan, role, layout);
}
int Session::kernel_count() const { return state_->kernel_count(); }
KernelDescription Session::kernel(int number) const { return state_->kernel(number); }
KernelListing Session::listing(int kernel, bool with_assembly) const {
  return state_->listing(kernel, with_assembly);
}

Result<std::span<const float>> Session::append(std::span<const int32_t> tokens,
                                               const std::atomic<bool>* cancel) {
  return state_->append(tokens, cancel);
}

Status Session::append_all(std::span<const int32_t> tokens, const LogitsSink& sink,
                           const std::atomic<bool>* cancel) {
  return state_->append_all(tokens, sink, cancel);
}

}  // namespace smelt
