#include "engine/model_passes.h"

#include <algorithm>
#include <cmath>

#include "base/ensure.h"
#include "graph/line.h"
#include "graph/text.h"
#include "graph/views.h"
#include "model/byte_cache.h"
#include "model/choice_graph.h"
#include "model/mtp.h"
#include "schedule/tiles.h"

namespace smelt {
namespace {

// For people.
std::string name_of(const SlotBinding& slot) {
  switch (slot.kind) {
    case Bound::Weight:
    case Bound::PositionTable:
    case Bound::Cache:
    case Bound::State: return slot.name;
    case Bound::Tokens: return "tokens";
    case Bound::Positions: return "positions";
    case Bound::Tables: return "tables";
    case Bound::Pages: return "pages";
    case Bound::LocalPages: return "local pages";
    case Bound::StatesIn: return "states in";
    case Bound::StatesOut: return "states out";
    case Bound::HiddenIn: return "hidden";
    case Bound::HiddenOut: return "next hidden";
    case Bound::Rows: return "rows";
    case Bound::Logits: return "logits";
    case Bound::Choices: return "choices";
    case Bound::Chosen: return "chosen";
    case Bound::InputSums: return slot.name;
  }
  return "";
}

// Where the model multiplies with the weights of a kernel; for one without, where its results come from.
std::vector<std::string> lines_of(const Kernel& kernel, const std::vector<SlotBinding>& slots) {
  std::vector<std::string> lines;
  const auto add = [&](const std::string& line) {
    if (!line.empty() && std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
  };
  for (Ref buffer : kernel.buffers)
    if (buffer->op == Op::Param) add(slots[static_cast<size_t>(number_of_buffer(buffer))].line);
  if (!lines.empty()) return lines;
  for (Ref value : kernel.values)
    if (const auto line = line_of(value)) add(to_text(*line));
  return lines;
}

// Of a slot, with symbolic sizes at their greatest.
int64_t most_bytes(Ref buffer) {
  int64_t bytes = size_of(buffer->dtype);
  for (Ref size : buffer->shape) bytes *= size->max;
  return bytes;
}

std::string in_brackets(const std::vector<std::string>& sizes) {
  std::string text = "[";
  for (const std::string& size : sizes) text += (text.size() > 1 ? ", " : "") + size;
  return text + "]";
}

std::string shape_text(Ref buffer) {
  std::vector<std::string> sizes;
  for (Ref size : buffer->shape) sizes.push_back(to_infix(size));
  return std::string(name_of(buffer->dtype)) + " " + in_brackets(sizes);
}

std::string shape_text(const GgufTensor& tensor) {
  std::vector<std::string> sizes;
  for (int i = tensor.rank; i-- > 0;) sizes.push_back(std::to_string(tensor.dims[static_cast<size_t>(i)]));
  return std::string(name_of(tensor.type)) + " " + in_brackets(sizes);
}

// Whether kernels of the one can run on the memory of the other.
bool same_buffers(const Schedule& a, const Schedule& b) {
  const auto equal = [](const auto& x, const auto& y, auto&& is_same) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), is_same);
  };
  return equal(a.temps, b.temps,
               [](const auto& x, const auto& y) { return x.bytes == y.bytes && x.offset == y.offset; }) &&
         equal(a.kernels, b.kernels, [&](const Kernel& x, const Kernel& y) {
           return equal(x.buffers, y.buffers,
                        [](Ref p, Ref q) { return p->op == q->op && number_of_buffer(p) == number_of_buffer(q); });
         });
}

}  // namespace

PassSymbols PassSymbols::of(int64_t tokens, int64_t end, int64_t token_tile) {
  return {.token_tiles = (tokens + token_tile - 1) / token_tile,
          .chunks = (end + kChunkSize - 1) / kChunkSize,
          .pages = (end + kPageSize - 1) / kPageSize};
}

std::vector<std::string> PassSymbols::names(int64_t token_tile) {
  return {"tokens" + std::to_string(token_tile), "chunks", "pages"};
}

std::map<std::string, int64_t> PassSymbols::named(int64_t token_tile) const {
  const std::vector<std::string> list = names(token_tile);
  return {{list[0], token_tiles}, {list[1], chunks}, {list[2], pages}};
}

Pass ModelPasses::decode(const std::atomic<bool>* cancel, int64_t tokens, Contexts contexts) const {
  return stages(decode_shape(tokens, contexts), 0, model_.numbers().layers + 2, cancel);
}

Pass ModelPasses::decode_and_choose(const std::atomic<bool>* cancel, int64_t tokens, ChoiceKind kind,
                                    Contexts contexts) const {
  ModelShape shape = decode_shape(tokens, contexts);
  shape.chosen_rows = layout_.batch;
  shape.choice = kind;
  return stages(shape, 0, choice_stage() + 1, cancel);
}

Pass ModelPasses::prefill(const std::atomic<bool>* cancel, Prompts prompts) const {
  ModelShape shape = prefill_shape(prompts);
  shape.sums_inputs = options_.sums_inputs;
  return stages(shape, 0, model_.numbers().layers + 1, cancel);
}

Pass ModelPasses::head(int64_t rows) const {
  ModelShape chunk = prefill_shape(Prompts::All);
  chunk.rows = Dim(rows);
  return stages(chunk, model_.numbers().layers + 1, model_.numbers().layers + 2, nullptr);
}

Pass ModelPasses::draft(const std::atomic<bool>* cancel, int64_t tokens) const {
  return stages(decode_shape(tokens, Contexts::All), mtp_stage(), mtp_stage() + 3, cancel);
}

Pass ModelPasses::draft_prompt(const std::atomic<bool>* cancel) const {
  ModelShape shape = prefill_shape(Prompts::All);
  shape.only_cache = true;
  return stages(shape, mtp_stage(), mtp_stage() + 2, cancel);
}

ModelShape ModelPasses::prefill_shape(Prompts prompts) const {
  const Machine& machine = compiler_.machine();
  ModelShape shape = decode_shape(1, Contexts::All);
  const int64_t most = prompts == Prompts::Short ? machine.long_prompt - 1 : layout_.prefill_tokens;
  shape.tokens = variable(names_[0], 1, (most + layout_.token_tile - 1) / layout_.token_tile) * layout_.token_tile;
  shape.many_tokens = true;
  const MatrixUnit* halves = unit_for_halves(machine);
  shape.halves = may_differ() && (prompts == Prompts::Long ? halves != nullptr : unit_of_warpgroup(machine) != nullptr);
  shape.attention_halves = shape.halves && unit_of_warpgroup(machine);
  shape.expert_places = options_.sums_inputs ? 1 : shape.halves ? halves->n : machine.expert_places;
  shape.prompt_block = options_.deterministic ? 0 : machine.prompt_block;
  shape.tokens_side_by_side = machine.tokens_side_by_side();
  return shape;
}

bool ModelPasses::may_differ() const { return options_.quantise && !options_.deterministic && !options_.sums_inputs; }

// Drafts count on equal bits.
bool ModelPasses::batch_has_halves(int64_t tokens) const {
  const Machine& machine = compiler_.machine();
  return machine.halves_tokens > 0 && tokens >= machine.halves_tokens && unit_of_warpgroup(machine) && may_differ() &&
         layout_.drafts == 0;
}

// Of halves.
int64_t ModelPasses::product_tasks(int64_t tokens) const {
  const Machine& machine = compiler_.machine();
  const bool are_halves = machine.product_halves_tokens > 0 && tokens >= machine.product_halves_tokens;
  return are_halves && batch_has_halves(tokens) ? machine.tasks : 0;
}

// Only bytes have tiles of more heads; and batches of halves have them in any context.
int64_t ModelPasses::wide_context(int64_t tokens) const {
  const bool has_bytes = options_.quantise && options_.cache_type == DType::U8 && !batch_has_halves(tokens);
  const int64_t heads = has_bytes ? model_.heads_per_key() : 1, all = layout_.positions / kChunkSize;
  const int64_t chunks = wide_chunks(compiler_.machine(), tokens, heads);
  return chunks < all ? chunks * kChunkSize : layout_.positions;
}

Dim ModelPasses::chunks_of(Contexts contexts, int64_t tokens) const {
  const Machine& machine = compiler_.machine();
  if (contexts == Contexts::Near)
    return variable(names_[2], 1, std::min(layout_.positions, machine.near_context) / kPageSize);
  const int64_t all = layout_.positions / kChunkSize, few = machine.short_context / kChunkSize,
                many = wide_context(tokens) / kChunkSize;
  // At least one in any case: what is known of a size may change the order of a sum, and the bits with it.
  return variable(names_[1], 1, contexts == Contexts::Short ? few : contexts == Contexts::Long ? many : all);
}

ModelShape ModelPasses::decode_shape(int64_t tokens, Contexts contexts) const {
  const int64_t side_by_side = compiler_.machine().tokens_side_by_side();
  return {.tokens = Dim(tokens),
          .chunk = contexts == Contexts::Near ? kPageSize : kChunkSize,
          .chunks = chunks_of(contexts, tokens),
          .rows = Dim(tokens),
          .context = layout_.positions,
          .cache_rows = layout_.cache_rows(),
          .local_rows = layout_.local_rows(),
          .page_entries = layout_.page_entries,
          .states = layout_.states,
          .rows_follow = layout_.drafts > 0 && tokens > 1,
          .cache_type = options_.cache_type,
          .few_streams = !compiler_.machine().has_threads(),
          .token_block = compiler_.machine().token_block,
          .superblock_token_block = compiler_.machine().superblock_token_block,
          .halves_of_batch = batch_has_halves(tokens),
          .product_tasks = product_tasks(tokens),
          .tokens_side_by_side = tokens % side_by_side == 0 ? side_by_side : 1,
          .heads_together = tokens >= compiler_.machine().unit_tokens ? side_by_side : 1,
          .has_fragments = has_fragments(compiler_.machine()),
          .interleave = options_.interleave,
          .piece = static_cast<int>(compiler_.machine().piece_bytes),
          .layouts = options_.layouts,
          .hidden_rows = layout_.tokens(),
          .quantise = options_.quantise};
}

Segment ModelPasses::segment(const ModelShape& shape, int64_t stage) const {
  if (stage == 0) return model_.embed(file_, shape);
  if (layer_of(stage) >= 0) return model_.block(file_, shape, layer_of(stage));
  if (stage == choice_stage())
    return choice_graph(*const_int(shape.tokens.ref), model_.numbers().vocabulary, *shape.choice);
  if (stage == mtp_stage()) return mtp_input(file_, model_, shape);
  if (stage > mtp_stage()) return mtp_head(file_, model_, shape);
  return model_.head(file_, shape);
}

Pass ModelPasses::stages(const ModelShape& shape, int64_t first, int64_t end, const std::atomic<bool>* cancel) const {
  Pass pass{.first = first, .shape = shape};
  for (int64_t stage = first; stage < end; ++stage) pass.segments.push_back(segment(shape, stage));
  for (const Segment& s : pass.segments) {
    if (cancel && cancel->load(std::memory_order_relaxed)) break;
    pass.compiled.push_back(compiler_.add_segment(s.root));
  }
  return pass;
}

// Negative: it is no block.
int64_t ModelPasses::layer_of(int64_t stage) const {
  if (stage == mtp_stage() + 1) return model_.numbers().layers;
  return stage <= model_.numbers().layers ? stage - 1 : -1;
}

// Of an embedding only some rows are read.
bool ModelPasses::is_looked_up(int64_t stage, const SlotBinding& slot) const {
  return stage == 0 || (stage == mtp_stage() && slot.share_of_read < 1);
}

WantedLayouts ModelPasses::packed_layouts(const std::vector<const Pass*>& passes) const {
  WantedLayouts layouts;
  if (options_.interleave == 1 && options_.reads_file) return layouts;
  for (const Pass* pass : passes)
    for (size_t i = 0; i < pass->segments.size(); ++i)
      for (const SlotBinding& slot : pass->segments[i].slots)
        if (slot.kind == Bound::Weight && (!is_looked_up(pass->stage(i), slot) || !options_.reads_file))
          layouts.insert({weight_name(*pass, i, slot), slot.layout});
  return layouts;
}

int64_t ModelPasses::arena_bytes(const std::vector<const Pass*>& passes) const {
  int64_t bytes = 0;
  for (const Pass* pass : passes)
    for (int s : pass->compiled) bytes = std::max(bytes, compiler_.segment(s).schedule.arena_bytes);
  return bytes;
}

std::vector<InputSums::Place> ModelPasses::input_sums(const Pass& pass) const {
  std::vector<InputSums::Place> places;
  for (size_t i = 0; i < pass.segments.size(); ++i)
    for (const SlotBinding& slot : pass.segments[i].slots) {
      if (slot.kind != Bound::InputSums) continue;
      InputSums::Place& place = places.emplace_back();
      place = {.names = {weight_name(pass, i, slot)}, .elements = slot.elements};
      for (const std::string& name : slot.same_as) place.names.push_back(layer_prefix(layer_of(pass.stage(i))) + name);
    }
  return places;
}

// The name in the file.
std::string ModelPasses::weight_name(const Pass& pass, size_t segment, const SlotBinding& slot) const {
  const int64_t layer = layer_of(pass.stage(segment));
  return layer >= 0 ? layer_prefix(layer) + slot.name : slot.name;
}

Plan ModelPasses::plan(const Pass& pass, const PackedWeights& weights, const EngineMemory& memory, void* arena,
                       const InputSums* sums) const {
  Plan out;
  for (size_t i = 0; i < pass.segments.size(); ++i) {
    const int64_t stage = pass.stage(i), layer = std::max<int64_t>(layer_of(stage), 0);
    const auto resolve = [&](const SlotBinding& slot) -> const void* {
      if (slot.kind == Bound::InputSums) return sums->find(weight_name(pass, i, slot));
      if (slot.kind != Bound::Weight) return memory.resolve(slot, layer, is_flipped(stage));
      const std::string name = weight_name(pass, i, slot);
      const std::byte* packed = weights.find(name, slot.layout);
      ENSURE(packed || options_.reads_file, "the device has not got " + name);
      return packed ? packed : file_.find(name)->data;
    };
    out.append(compiler_, pass.compiled[i], pass.segments[i].slots, resolve, arena);
  }
  return out;
}

std::vector<PlanLaunch> ModelPasses::launches(const Pass& pass, const Plan& plan) const {
  std::vector<PlanLaunch> out = launches(pass);
  for (size_t i = 0; i < out.size(); ++i) out[i].launch = plan.launches()[i];
  return out;
}

std::vector<PlanLaunch> ModelPasses::launches(const Pass& pass) const {
  std::vector<PlanLaunch> out;
  for (size_t i = 0; i < pass.segments.size(); ++i) {
    const CompiledSegment& segment = compiler_.segment(pass.compiled[i]);
    for (size_t k = 0; k < segment.kernels.size(); ++k) {
      PlanLaunch launch{.kernel = segment.kernels[k], .stage = stage_name(pass, i), .layer = layer_of(pass.stage(i))};
      for (Ref buffer : segment.schedule.kernels[k].buffers) launch.buffers.push_back(describe(buffer, pass, i));
      launch.lines = lines_of(segment.schedule.kernels[k], pass.segments[i].slots);
      out.push_back(std::move(launch));
    }
  }
  return out;
}

LaunchBuffer ModelPasses::describe(Ref buffer, const Pass& pass, size_t segment) const {
  const auto number = static_cast<size_t>(number_of_buffer(buffer));
  if (buffer->op == Op::Temp) {
    const auto& temps = compiler_.segment(pass.compiled[segment]).schedule.temps;
    return {.name = "temp " + std::to_string(number), .bytes = temps[number].bytes, .shape = shape_text(buffer)};
  }
  LaunchBuffer slot = describe(pass.segments[segment].slots[number], most_bytes(buffer), pass, segment);
  if (slot.shape.empty()) slot.shape = shape_text(buffer);
  return slot;
}

// `bytes`: that it may need, of what is no weight.
LaunchBuffer ModelPasses::describe(const SlotBinding& slot, int64_t bytes, const Pass& pass, size_t segment) const {
  if (slot.kind != Bound::Weight) return {.name = name_of(slot), .bytes = bytes};
  const std::string name = weight_name(pass, segment, slot);
  const GgufTensor& tensor = *file_.find(name);
  return {.name = slot.name,
          .is_weight = true,
          .bytes = static_cast<int64_t>(tensor.bytes),
          .shape = shape_text(tensor),
          .tensor = name,
          .layout = slot.layout,
          .split = slot.split,
          .role = slot.role,
          .format = std::string(name_of(tensor.type))};
}

std::string ModelPasses::stage_name(const Pass& pass, size_t segment) const {
  const int64_t stage = pass.stage(segment);
  return layer_of(stage) >= 0 ? "block" : stage == 0 ? "embed" : "head";
}

std::vector<PlanSegment> ModelPasses::segments(const Pass& pass) const {
  std::vector<PlanSegment> out;
  for (size_t i = 0; i < pass.segments.size(); ++i) {
    PlanSegment segment{.root = pass.segments[i].root,
                        .number = pass.compiled[i],
                        .stage = stage_name(pass, i),
                        .layer = layer_of(pass.stage(i)),
                        .kernels = compiler_.segment(pass.compiled[i]).kernels};
    for (const SlotBinding& slot : pass.segments[i].slots) segment.slots.push_back(describe(slot, 0, pass, i));
    out.push_back(std::move(segment));
  }
  return out;
}

std::vector<Ref> ModelPasses::trees_with(const Pass& pass, const std::string& role, WeightLayout layout) const {
  ModelShape shape = pass.shape;
  shape.layouts[role] = layout;
  std::map<const Node*, Schedule> schedules;
  std::vector<Ref> trees;
  for (size_t i = 0; i < pass.segments.size(); ++i) {
    const Segment other = segment(shape, pass.stage(i));
    auto [found, is_new] = schedules.try_emplace(other.root.get());
    if (is_new) found->second = make_schedule(other.root, compiler_.machine());
    if (!same_buffers(found->second, compiler_.segment(pass.compiled[i]).schedule)) return {};
    for (const Kernel& kernel : found->second.kernels) trees.push_back(kernel.tree);
  }
  return trees;
}

double ModelPasses::bytes_read(const Pass& pass, int64_t tokens) const {
  double bytes = 0;
  const auto share = [&](const SlotBinding& slot) {
    const double one = slot.share_of_read;
    return tokens == 1 ? one : 1 - std::pow(1 - one, static_cast<double>(tokens));
  };
  for (size_t i = 0; i < pass.segments.size(); ++i)
    for (const SlotBinding& slot : pass.segments[i].slots)
      if (slot.kind == Bound::Weight)
        bytes += share(slot) * static_cast<double>(file_.find(weight_name(pass, i, slot))->bytes);
  return bytes;
}

}  // namespace smelt
