#include "engine/session.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>

#include "base/dirs.h"
#include "base/ensure.h"
#include "base/options.h"
#include "base/progress.h"
#include "engine/memory_need.h"
#include "engine/packed_weights.h"
#include "engine/prefault.h"
#include "engine/profile.h"
#include "engine/session_memory.h"
#include "graph/line.h"
#include "runtime/available_memory.h"
#include "runtime/target.h"

namespace smelt {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Launch values of every kernel, in this order.
const std::vector<std::string> kSymbols = {"tokens8", "chunks"};
struct Symbols {
  int64_t tokens8 = 1, chunks = 1;
};

// A pass over the layers: the segments of embed, all blocks and perhaps the head, compiled for one shape class.
struct Pass {
  int64_t first =
      0;  // stage of the first segment: 0 embed, 1 .. layers the blocks, layers + 1 the head
  std::vector<Segment> segments;
  std::vector<int> compiled;
};

// For people. A Weight goes by its own name.
const char* name_of(Bound kind) {
  switch (kind) {
    case Bound::Weight: return "weight";
    case Bound::Tokens: return "tokens";
    case Bound::Positions: return "positions";
    case Bound::Tables: return "tables";
    case Bound::Pages: return "pages";
    case Bound::Cache: return "cache";
    case Bound::CacheValues: return "cache values";
    case Bound::CacheScales: return "cache scales";
    case Bound::RopeCos: return "cos";
    case Bound::RopeSin: return "sin";
    case Bound::HiddenIn: return "hidden";
    case Bound::HiddenOut: return "next hidden";
    case Bound::Rows: return "rows";
    case Bound::Logits: return "logits";
  }
  return "";
}

// Where the model multiplies with the weights of a kernel; for one without, where its results come from.
std::vector<std::string> lines_of(const Kernel& kernel, const std::vector<SlotBinding>& slots) {
  std::vector<std::string> lines;
  const auto add = [&](const std::string& line) {
    if (!line.empty() && std::find(lines.begin(), lines.end(), line) == lines.end())
      lines.push_back(line);
  };
  for (Ref buffer : kernel.buffers)
    if (buffer->op == Op::Param) add(slots[static_cast<size_t>(buffer->arg.i)].line);
  if (!lines.empty()) return lines;
  for (Ref value : kernel.values)
    if (const auto line = line_of(value)) add(to_text(*line));
  return lines;
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
    report("compiling", 0, 1);
    SMELT_TRY(device, CpuDevice::open(
                          {.threads = options_.threads, .use_cache = options_.use_kernel_cache}));
    device_ = std::move(device);
    if (const std::string missing = missing_instructions(device_->target()); !missing.empty())
      note(missing);
    compiler_ = std::make_unique<Compiler>(*device_, kSymbols);
    if (options_.use_tuned) compiler_->use_tuned(TunedOptions::load(device_->target()));
    if (options_.repack) interleave_ = machine_of(device_->target()).lanes;
    decode_ = add_pass(shape(1));
    prefill_ = add_pass(shape(prefill_tokens() * 8));
    head_ = add_head(1);
    SMELT_CHECK(not_cancelled());
    const PackPlan packing = PackPlan::make(file_, packed_layouts());
    SMELT_CHECK(check_memory({.weights = packing.bytes, .session = session_bytes()},
                             available_memory(), file_.path()));
    compiler_->finish([&](int done, int total) { report("compiling", done, total); }, hooks.cancel);
    SMELT_CHECK(not_cancelled());
    stats_.compile_seconds = seconds_since(start);
    SMELT_CHECK(load(packing));
    SMELT_TRY(memory, SessionMemory::allocate(model_, layout_, options_.cache_type, arena_bytes()));
    memory_ = std::move(memory);
    build_plans();
    fill_stats();
    hooks_ = nullptr;
    if (debug(1)) start_profile();
    return {};
  }

  // Weights into memory: packed, or, for what is read in place, the pages of the file.
  Status load(const PackPlan& packing) {
    const auto start = Clock::now();
    const LoadOptions options{.threads = device_->workers().count(),
                              .progress = [&](double done) { report("loading", done, 1); },
                              .cancel = hooks_->cancel};
    report("loading", 0, 1);
    std::optional<PackCache> cache;
    if (options_.pack_cache) cache = open_pack_cache(packing);
    const bool is_mapped = cache && load_kept(*cache, packing, options);
    if (!is_mapped) SMELT_CHECK(pack(packing, options));
    if (packing.tensors.empty()) prefault(file_, options);
    SMELT_CHECK(not_cancelled());
    stats_.load_seconds = seconds_since(start);
    if (cache && !is_mapped) keep(*cache, options);
    return not_cancelled();
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
    profiling_ = true;
    times_.assign(static_cast<size_t>(compiler_->kernel_count()), {});
    clocks_.resize(std::max({decode_plan_.launches().size(), prefill_plan_.launches().size(),
                             head_plan_.launches().size()}) +
                   1);
  }

  std::vector<KernelTime> profile() const {
    std::vector<KernelTime> out;
    for (size_t i = 0; i < times_.size(); ++i)
      if (times_[i].calls > 0)
        out.push_back(
            {compiler_->kernel(static_cast<int>(i)).name, times_[i].calls, times_[i].seconds});
    std::sort(out.begin(), out.end(),
              [](const KernelTime& a, const KernelTime& b) { return a.seconds > b.seconds; });
    return out;
  }

  void observe(std::function<void(const RunTimes&)> observer) {
    observer_ = std::move(observer);
    if (!profiling_) start_profile();
  }

  std::vector<PlanLaunch> launches(PlanKind kind) const {
    const Pass& pass = kind == PlanKind::Decode    ? decode_
                       : kind == PlanKind::Prefill ? prefill_
                                                   : head_;
    const Plan& plan = kind == PlanKind::Decode    ? decode_plan_
                       : kind == PlanKind::Prefill ? prefill_plan_
                                                   : head_plan_;
    std::vector<PlanLaunch> out;
    for (size_t i = 0; i < pass.segments.size(); ++i) {
      const CompiledSegment& segment = compiler_->segment(pass.compiled[i]);
      const int64_t stage = pass.first + static_cast<int64_t>(i);
      const bool is_block = stage >= 1 && stage <= model_.layers;
      for (size_t k = 0; k < segment.kernels.size(); ++k) {
        PlanLaunch launch{.kernel = segment.kernels[k],
                          .stage = is_block     ? "block"
                                   : stage == 0 ? "embed"
                                                : "head"};
        if (is_block) launch.layer = stage - 1;
        for (Ref buffer : segment.schedule.kernels[k].buffers)
          launch.buffers.push_back(describe(buffer, pass, i));
        launch.lines = lines_of(segment.schedule.kernels[k], pass.segments[i].slots);
        launch.launch = plan.launches()[out.size()];
        out.push_back(std::move(launch));
      }
    }
    return out;
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
  Status pack(const PackPlan& packing, const LoadOptions& options) {
    SMELT_TRY(packed, PackedWeights::pack(packing, options));
    packed_ = std::move(packed);
    return {};
  }

  // A cache that cannot be used is no reason not to run.
  std::optional<PackCache> open_pack_cache(const PackPlan& packing) const {
    auto cache = find_pack_cache(packing);
    if (cache) return cache.take();
    note(cache.error().message);
    return std::nullopt;
  }

  bool load_kept(const PackCache& cache, const PackPlan& packing, const LoadOptions& options) {
    std::string problem;
    auto kept = cache.load(options, problem);
    if (!problem.empty()) note(problem);
    if (!kept) return false;
    packed_ = PackedWeights::mapped(packing, std::move(*kept));
    note("[pack cache] mapped " + cache.path());
    return true;
  }

  void keep(const PackCache& cache, LoadOptions options) const {
    options.progress = [&](double done) { report("keeping", done, 1); };
    const Status kept = cache.store(packed_.bytes(), options);
    if (cancelled()) return;
    note(kept ? "[pack cache] wrote " + bytes_text(packed_.bytes().size()) + " to " + cache.path()
              : kept.error().message + "; nothing is kept");
  }

  Result<PackCache> find_pack_cache(const PackPlan& packing) const {
    if (packing.tensors.empty())
      return Error{"[pack cache] nothing is packed with --no-repack, so nothing is kept"};
    SMELT_TRY(folder, cache_folder());
    if (folder.empty()) return Error{"[pack cache] SMELT_CACHE is off, so nothing is kept"};
    return PackCache::open(file_, packing, folder + "/packs");
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
  void report(const char* what, double done, double total) const {
    if (hooks_->progress) hooks_->progress(what, done / total);
  }

  ModelShape shape(Dim tokens) const {
    // Judged for a short prompt, where the expanded form is at its worst and the wait is felt most.
    const bool expand = !const_int(tokens.ref) && expanding_is_cheaper(model_, 32, kChunkSize);
    return {.tokens = tokens,
            .chunks = variable("chunks", 1, layout_.positions / kChunkSize),
            .rows = 1,
            .one_sequence = true,
            .context = layout_.positions,
            .cache_rows = layout_.positions,
            .page_entries = layout_.page_entries,
            .cache_type = options_.cache_type,
            .interleave = interleave_,
            .quantise = options_.quantise_activations,
            .expand_attention = expand};
  }

  Ref prefill_tokens() const { return variable("tokens8", 1, layout_.prefill_tokens / 8); }

  Pass add_pass(const ModelShape& shape) {
    Pass pass;
    pass.segments.push_back(embed_segment(file_, model_, shape));
    for (int64_t layer = 0; layer < model_.layers; ++layer)
      pass.segments.push_back(block_segment(file_, model_, shape, layer));
    if (const_int(shape.tokens.ref)) pass.segments.push_back(head_segment(file_, model_, shape));
    compile(pass);
    return pass;
  }

  // The head over `rows` rows of a prefill chunk.
  Pass add_head(int64_t rows) {
    ModelShape chunk = shape(prefill_tokens() * 8);
    chunk.rows = Dim(rows);
    Pass pass{.first = model_.layers + 1};
    pass.segments.push_back(head_segment(file_, model_, chunk));
    compile(pass);
    return pass;
  }

  void compile(Pass& pass) {
    for (const Segment& s : pass.segments) {
      if (cancelled()) return;  // noticed by prepare() before anyone looks
      pass.compiled.push_back(compiler_->add_segment(s.root));
    }
  }

  std::map<std::string, WeightLayout> packed_layouts() const {
    std::map<std::string, WeightLayout> layouts;
    for (const Pass* pass : {&decode_, &prefill_, &head_})
      for (size_t i = 0; i < pass->segments.size(); ++i)
        for (const SlotBinding& slot : pass->segments[i].slots)
          if (slot.kind == Bound::Weight && slot.layout.interleave > 1)
            layouts[weight_name(*pass, i, slot)] = slot.layout;
    return layouts;
  }

  int64_t session_bytes() const {
    return SessionMemory::bytes(model_, layout_, options_.cache_type, arena_bytes());
  }

  int64_t arena_bytes() const {
    int64_t bytes = 0;
    for (const Pass* pass : {&decode_, &prefill_, &head_})
      for (int s : pass->compiled)
        bytes = std::max(bytes, compiler_->segment(s).schedule.arena_bytes);
    return bytes;
  }

  void build_plans() {
    decode_plan_ = plan(decode_, memory_.arena());
    prefill_plan_ = plan(prefill_, memory_.arena());
    head_plan_ = plan(head_, memory_.arena());
  }

  // The name in the file of a weight of segment `i` of a pass.
  std::string weight_name(const Pass& pass, size_t i, const SlotBinding& slot) const {
    const int64_t stage = pass.first + static_cast<int64_t>(i);
    return stage >= 1 && stage <= model_.layers ? layer_prefix(stage - 1) + slot.name : slot.name;
  }

  const void* weight(const std::string& name, WeightLayout layout) const {
    return layout.interleave > 1 ? packed_.find(name) : file_.find(name)->data;
  }

  // Each segment that writes hidden states swaps the two buffers.
  Plan plan(const Pass& pass, void* arena) {
    Plan out;
    for (size_t i = 0; i < pass.segments.size(); ++i) {
      const int64_t stage = pass.first + static_cast<int64_t>(i),
                    layer = std::clamp<int64_t>(stage - 1, 0, model_.layers - 1);
      const auto resolve = [&](const SlotBinding& slot) -> const void* {
        if (slot.kind == Bound::Weight) return weight(weight_name(pass, i, slot), slot.layout);
        return memory_.resolve(slot, layer, stage % 2 == 0);
      };
      out.append(*compiler_, pass.compiled[i], pass.segments[i].slots, resolve, arena);
    }
    return out;
  }

  Status run(const Plan& plan, int64_t tokens, const std::atomic<bool>* cancel) {
    const int64_t last = position_ + tokens;
    const Symbols symbols{.tokens8 = (tokens + 7) / 8,
                          .chunks = (last + kChunkSize - 1) / kChunkSize};
    const size_t launches = plan.launches().size();
    const std::span<int64_t> clocks =
        profiling_ ? std::span(clocks_).first(launches + 1) : std::span<int64_t>{};
    if (!device_->workers().run(plan.launches(), &symbols.tokens8,
                                {.cancel = cancel, .times_ns = clocks}))
      return Error{"[run] interrupted"};
    for (size_t i = 0; i + 1 < clocks.size(); ++i) {
      KernelTime& time = times_[static_cast<size_t>(plan.kernels()[i])];
      ++time.calls;
      time.seconds += static_cast<double>(clocks[i + 1] - clocks[i]) * 1e-9;
    }
    if (observer_) {
      const PlanKind kind = &plan == &decode_plan_    ? PlanKind::Decode
                            : &plan == &prefill_plan_ ? PlanKind::Prefill
                                                      : PlanKind::Head;
      observer_({kind,
                 tokens,
                 position_,
                 {{kSymbols[0], symbols.tokens8}, {kSymbols[1], symbols.chunks}},
                 clocks});
    }
    return {};
  }

  // Of a slot, with symbolic sizes at their greatest.
  static int64_t most_bytes(Ref buffer) {
    int64_t bytes = size_of(buffer->dtype);
    for (Ref size : buffer->shape) bytes *= size->max;
    return bytes;
  }

  // A buffer of segment `i` of a pass.
  LaunchBuffer describe(Ref buffer, const Pass& pass, size_t i) const {
    if (buffer->op == Op::Temp) {
      const auto& temps = compiler_->segment(pass.compiled[i]).schedule.temps;
      return {.name = "temp " + std::to_string(buffer->arg.i),
              .bytes = temps[static_cast<size_t>(buffer->arg.i)].bytes};
    }
    const SlotBinding& slot = pass.segments[i].slots[static_cast<size_t>(buffer->arg.i)];
    if (slot.kind != Bound::Weight)
      return {.name = name_of(slot.kind), .bytes = most_bytes(buffer)};
    return {slot.name, true, static_cast<int64_t>(file_.find(weight_name(pass, i, slot))->bytes)};
  }

  Status decode(int32_t token, const std::atomic<bool>* cancel) {
    memory_.tokens()[0] = token;
    memory_.positions()[0] = static_cast<int32_t>(position_);
    memory_.rows()[0] = 0;
    SMELT_CHECK(run(decode_plan_, 1, cancel));
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
    SMELT_CHECK(run(prefill_plan_, n, cancel));
    position_ += n;
    return {};
  }

  Status run_head(int32_t row, const std::atomic<bool>* cancel) {
    memory_.rows()[0] = row;
    return run(head_plan_, layout_.prefill_tokens, cancel);
  }

  Status report_rows(int32_t n, int64_t index, const Session::LogitsSink& sink,
                     const std::atomic<bool>* cancel) {
    if (wide_head_plan_.launches().empty()) {
      wide_head_ = add_head(layout_.logit_rows);
      compiler_->finish();
      const int64_t need = compiler_->segment(wide_head_.compiled[0]).schedule.arena_bytes;
      SMELT_TRY(arena, Buffer::allocate(static_cast<size_t>(need) + 64));
      wide_arena_ = std::move(arena);
      wide_head_plan_ = plan(wide_head_, wide_arena_.data());
    }
    for (int32_t row = 0; row < n; row += static_cast<int32_t>(layout_.logit_rows)) {
      const int32_t count = std::min<int32_t>(n - row, static_cast<int32_t>(layout_.logit_rows));
      for (int32_t r = 0; r < layout_.logit_rows; ++r) memory_.rows()[r] = std::min(row + r, n - 1);
      SMELT_CHECK(run(wide_head_plan_, layout_.prefill_tokens, cancel));
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
    stats_.kernels_per_token = static_cast<int>(decode_plan_.launches().size());
    stats_.kernels_per_moe_layer = static_cast<int>(
        compiler_->segment(decode_.compiled[static_cast<size_t>(model_.layers)]).kernels.size());
    double bytes = 0;
    for (size_t i = 0; i < decode_.segments.size(); ++i)
      for (const SlotBinding& slot : decode_.segments[i].slots)
        if (slot.kind == Bound::Weight)
          bytes += slot.share_of_read *
                   static_cast<double>(file_.find(weight_name(decode_, i, slot))->bytes);
    stats_.bytes_per_token = static_cast<int64_t>(bytes);
    stats_.memory_bytes = memory_.bytes();
  }

  const GgufFile& file_;
  Hyperparameters model_;
  SessionOptions options_;
  SessionLayout layout_;
  const Session::OpenHooks* hooks_ = nullptr;  // while opening
  std::unique_ptr<CpuDevice> device_;
  std::unique_ptr<Compiler> compiler_;
  int interleave_ = 1;
  PackedWeights packed_;
  SessionMemory memory_;
  Buffer wide_arena_;
  Pass decode_, prefill_, head_, wide_head_;
  Plan decode_plan_, prefill_plan_, head_plan_, wide_head_plan_;
  int64_t position_ = 0;
  SessionStats stats_;
  bool profiling_ = false;
  std::vector<KernelTime> times_;  // by kernel number
  std::vector<int64_t> clocks_;
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
