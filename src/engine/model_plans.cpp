#include "engine/model_plans.h"

#include <algorithm>
#include <bit>

#include "engine/tuned_options.h"
#include "model/mtp.h"

namespace smelt {
namespace {

constexpr int64_t kUsualContext = 4096;

constexpr int64_t kMostSequences = 4096;
constexpr int64_t kMostDrafts = 63;

Status check_options(const EngineOptions& options) {
  if (options.sequences < 1 || options.sequences > kMostSequences)
    return Error{"[engine] " + std::to_string(options.sequences) + " sequences at a time: 1 to " +
                 std::to_string(kMostSequences) + " are possible"};
  if (options.drafts < 0 || options.drafts > kMostDrafts)
    return Error{"[engine] " + std::to_string(options.drafts) + " tokens drafted at a time: 0 to " +
                 std::to_string(kMostDrafts) + " are possible"};
  if (options.cache_tokens < 0)
    return Error{"[engine] a cache of " + std::to_string(options.cache_tokens) + " tokens: it cannot be negative"};
  return {};
}

}  // namespace

Result<std::unique_ptr<ModelPlans>> ModelPlans::make(const GgufFile& file, Device& device, const EngineOptions& options,
                                                     const std::atomic<bool>* cancel) {
  SMELT_CHECK(check_options(options));
  SMELT_TRY(model, read_model(file));
  const int64_t trained = model->numbers().context;
  const int64_t context = options.context ? options.context : std::min(trained, kUsualContext);
  if (context < 1 || context > trained)
    return Error{"[context] " + std::to_string(context) + " tokens: this model was made for 1 to " +
                 std::to_string(trained)};
  if (options.mtp) SMELT_CHECK(check_mtp(file, *model));
  std::unique_ptr<ModelPlans> plans(new ModelPlans(file, std::move(model), device, options, context));
  LayoutChoice layouts = options.layouts;
  if (options.use_tuned) {
    TunedOptions tuned = TunedOptions::load(device.machine());
    layouts.merge(tuned.layouts());
    if (!options.only_tuned_layouts) plans->compiler_.use_tuned(std::move(tuned));
  }
  plans->make_passes(layouts, cancel);
  // Layouts go with the options that were found with them.
  if (!layouts.empty() && plans->compiler_.tuned_lost() > 0) plans->make_passes(options.layouts, cancel);
  if (cancel && *cancel) return Error{"[session] interrupted"};
  SMELT_CHECK(plans->compiler_.fits());
  return plans;
}

EngineLayout ModelPlans::layout_of(const Model& model, const Machine& machine, const EngineOptions& options,
                                   int64_t context) {
  EngineLayout layout = EngineLayout::make(context, options.prefill_chunk.value_or(machine.prompt_chunk),
                                           options.sequences, options.cache_tokens, options.drafts, machine.token_tile);
  layout.more_layers = options.mtp;
  if (model.has_states()) layout.add_states(options.back_steps);
  layout.add_window(model.longest_window(), options.kept_windows);
  return layout;
}

ModelPlans::ModelPlans(const GgufFile& file, std::shared_ptr<const Model> model, Device& device,
                       const EngineOptions& options, int64_t context)
    : file_(file),
      model_(std::move(model)),
      device_(device),
      options_(options),
      layout_(layout_of(*model_, device.machine(), options, context)),
      compiler_(device, PassSymbols::names(layout_.token_tile)) {}

bool ModelPlans::chooses_tokens() const {
  const bool is_possible = !model_->has_states() && !options_.mtp && options_.drafts == 0;
  return is_possible && options_.chooses_tokens.value_or(device_.runs_under_way() > 1);
}

void ModelPlans::make_passes(const LayoutChoice& layouts, const std::atomic<bool>* cancel) {
  const PassOptions pass_options{.cache_type = options_.cache_type,
                                 .quantise = options_.quantise_activations,
                                 .deterministic = options_.deterministic,
                                 .interleave = options_.repack ? device_.machine().rows_side_by_side() : 1,
                                 .reads_file = device_.host_sees_memory(),
                                 .sums_inputs = options_.sums_inputs,
                                 .layouts = layouts};
  passes_ = std::make_unique<ModelPasses>(file_, *model_, layout_, pass_options, compiler_);
  generated_.clear();
  const auto in_all = [&](int64_t batch, auto&& make) -> DecodePasses {
    const Contexts most = has_wide(batch) ? Contexts::Long : Contexts::All;
    const Contexts least = has_long(batch) ? Contexts::Short : most;
    DecodePasses of_batch{
        .pass = make(has_near(batch) ? Contexts::Near : least), .of_middle = {}, .of_long = {}, .of_wide = {}};
    if (has_near(batch) && layout_.positions > device_.machine().near_context) of_batch.of_middle = make(least);
    if (has_long(batch)) of_batch.of_long = make(Contexts::Long);
    if (has_wide(batch)) of_batch.of_wide = make(Contexts::Wide);
    return of_batch;
  };
  for (int64_t batch = 1; batch <= layout_.batch; batch *= 2)
    generated_.push_back(in_all(batch, [&](Contexts c) { return passes_->decode(cancel, batch, c); }));
  prompt_ = passes_->prefill(cancel, has_long_prompts() ? Prompts::Short : Prompts::All);
  long_prompt_.reset();
  if (has_long_prompts()) long_prompt_ = passes_->prefill(cancel, Prompts::Long);
  head_ = passes_->head(1);
  for (const ChoiceKind kind : {ChoiceKind::Greedy, ChoiceKind::Drawn}) {
    std::vector<DecodePasses>& choosing = choosing_[static_cast<size_t>(kind)];
    choosing.clear();
    for (int64_t batch = 1; batch <= layout_.batch && chooses_tokens(); batch *= 2)
      choosing.push_back(in_all(batch, [&](Contexts c) { return passes_->decode_and_choose(cancel, batch, kind, c); }));
  }
  drafts_.clear();
  if (!options_.mtp) return;
  for (int64_t batch = 1; batch <= layout_.batch; batch *= 2) drafts_.push_back(passes_->draft(cancel, batch));
  draft_prompt_ = passes_->draft_prompt(cancel);
}

KernelDescription ModelPlans::kernel(int number) const {
  const CompiledKernel& k = compiler_.kernel(number);
  return {k.name, k.tree, k.opts, device_.machine()};
}

KernelListing ModelPlans::listing(int number, bool with_assembly) const {
  KernelListing out{.program = compiler_.program(number)};
  out.source = compiler_.source(out.program);
  if (with_assembly) out.assembly = device_.linked_assembly(out.source);
  return out;
}

size_t ModelPlans::decode_number() const {
  const auto tokens = static_cast<uint64_t>(std::min(layout_.sequences, layout_.batch));
  return static_cast<size_t>(std::bit_width(tokens - 1));
}

// Drafts count on equal bits.
bool ModelPlans::has_near(int64_t batch) const {
  return batch == 1 && device_.machine().near_context > 0 && passes_->may_differ() && layout_.drafts == 0;
}

// Batches have enough tasks in any context; and there is nothing between short and wide ones where these meet.
bool ModelPlans::has_long(int64_t batch) const {
  const Machine& m = device_.machine();
  return m.short_context > 0 && layout_.positions > m.short_context && batch < m.full_tokens &&
         passes_->wide_context(batch) > m.short_context;
}

bool ModelPlans::has_wide(int64_t batch) const { return layout_.positions > passes_->wide_context(batch); }

PlanKind ModelPlans::decode_kind(int64_t batch, int64_t positions) const {
  if (has_wide(batch) && positions > passes_->wide_context(batch)) return PlanKind::WideDecode;
  if (has_long(batch) && is_long(positions)) return PlanKind::LongDecode;
  return has_near(batch) && positions > device_.machine().near_context ? PlanKind::MiddleDecode : PlanKind::Decode;
}

// What a token gets may then depend on how many come with it.
bool ModelPlans::has_long_prompts() const {
  const int64_t tokens = device_.machine().long_prompt;
  return tokens > 0 && layout_.prefill_tokens >= tokens && options_.quantise_activations && !options_.deterministic &&
         !options_.one_prompt_plan && !options_.sums_inputs;
}

const Pass* ModelPlans::of_kind(PlanKind plan) const {
  const DecodePasses& batch = generated_[decode_number()];
  switch (plan) {
    case PlanKind::Decode: return &batch.pass;
    case PlanKind::MiddleDecode: return batch.of_middle ? &*batch.of_middle : nullptr;
    case PlanKind::LongDecode: return batch.of_long ? &*batch.of_long : nullptr;
    case PlanKind::WideDecode: return batch.of_wide ? &*batch.of_wide : nullptr;
    case PlanKind::Prefill: return &prompt_;
    case PlanKind::Head: return &head_;
    case PlanKind::LongPrefill: return long_prompt_ ? &*long_prompt_ : nullptr;
  }
  return nullptr;
}

std::vector<PlanLaunch> ModelPlans::launches(PlanKind plan) const {
  const Pass* pass = of_kind(plan);
  return pass ? passes_->launches(*pass) : std::vector<PlanLaunch>();
}

std::vector<PlanSegment> ModelPlans::segments(PlanKind plan) const {
  const Pass* pass = of_kind(plan);
  return pass ? passes_->segments(*pass) : std::vector<PlanSegment>();
}

std::map<std::string, int64_t> ModelPlans::symbols(int64_t tokens, int64_t position) const {
  return PassSymbols::of(tokens, position + tokens, layout_.token_tile).named(layout_.token_tile);
}

}  // namespace smelt
