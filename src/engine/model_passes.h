// Passes over the model: which segments make one up, where the memory of their slots is, and what each launch is.
#pragma once

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "engine/engine_memory.h"
#include "engine/input_sums.h"
#include "engine/packed_weights.h"
#include "engine/plan.h"
#include "engine/profile.h"

namespace smelt {

// The segments of embed, all blocks and perhaps the head, compiled for one shape class.
struct Pass {
  // Stage of the first segment: 0 embed, 1 .. layers the blocks, layers + 1 the head, layers + 2 what chooses tokens.
  // The head for multi-token
  // prediction has layers + 3 .. layers + 5, so that its input lies where the last block has left it.
  int64_t first = 0;
  ModelShape shape;
  std::vector<Segment> segments;
  std::vector<int> compiled;  // CompiledSegment of each, in the compiler

  int64_t stage(size_t segment) const { return first + static_cast<int64_t>(segment); }
};

// Launch values of every kernel, in this order.
struct PassSymbols {
  int64_t token_tiles = 1;  // of a run over prompts
  int64_t chunks = 1;       // of the context, see ModelShape
  int64_t pages = 1;        // of the same: chunks of Contexts::Near

  // Of a run of so many tokens, whose last position is before `end`.
  static PassSymbols of(int64_t tokens, int64_t end, int64_t token_tile);
  static std::vector<std::string> names(int64_t token_tile);  // "tokens8" for tiles of 8 tokens
  std::map<std::string, int64_t> named(int64_t token_tile) const;
};

// Which contexts a pass is for: all, or those of up to Machine::near_context or Machine::short_context positions, or
// longer ones, or the longest (wide_chunks() in schedule/tiles.h).
enum class Contexts { All, Near, Short, Long, Wide };

// Which runs of prompts a pass is for: all, or those of fewer than Machine::long_prompt tokens, or longer ones.
enum class Prompts { All, Short, Long };

struct PassOptions {
  DType cache_type = DType::F32;
  bool quantise = false;       // activations
  bool deterministic = false;  // see EngineOptions
  int interleave = 1;          // rows of quantised matrices in a group, see WeightLayout
  bool reads_file = true;      // kernels can read weights in place, where the file is mapped
  bool sums_inputs = false;    // of prompts, see ModelShape
  LayoutChoice layouts = {};
};

class ModelPasses {
 public:
  // REQUIRES: all of it outlives this.
  ModelPasses(const GgufFile& file, const Model& model, const EngineLayout& layout, const PassOptions& options,
              Compiler& compiler)
      : file_(file), model_(model), layout_(layout), options_(options), compiler_(compiler) {}

  // These add their segments to the compiler. Incomplete, and of no use, when `cancel` becomes true in between.
  // Generated tokens, of several sequences if they are several, with the logits of each.
  Pass decode(const std::atomic<bool>* cancel, int64_t tokens = 1, Contexts contexts = Contexts::All) const;
  // The same, and a token is chosen behind each of them.
  Pass decode_and_choose(const std::atomic<bool>* cancel, int64_t tokens, ChoiceKind kind,
                         Contexts contexts = Contexts::All) const;
  // Whether bits of a token in a prompt or a batch may be others than those that it has alone.
  bool may_differ() const;
  // Positions of a context beyond which one of so many tokens is for Contexts::Wide.
  int64_t wide_context(int64_t tokens) const;
  // A chunk of a prompt, without.
  Pass prefill(const std::atomic<bool>* cancel, Prompts prompts = Prompts::All) const;
  Pass head(int64_t rows) const;  // over `rows` rows of a chunk
  // The head for multi-token prediction behind what the last run has left: over some of its rows, with the logits of
  // the first of them, or over all rows of a chunk for their rows of the cache alone.
  Pass draft(const std::atomic<bool>* cancel, int64_t tokens) const;
  Pass draft_prompt(const std::atomic<bool>* cancel) const;

  // The layout of every weight that is to be packed, by its name in the file: of all that kernels go through, as in
  // large pages of our own a weight in the order of the file is read half as fast again as in the small ones of its
  // mapping. Of the embedding only some rows are looked up. Where kernels cannot read the file: of all weights.
  WantedLayouts packed_layouts(const std::vector<const Pass*>& passes) const;
  int64_t arena_bytes(const std::vector<const Pass*>& passes) const;

  // Whether the two hidden buffers have changed roles in a stage: each one that writes hidden values swaps them.
  static bool is_flipped(int64_t stage) { return stage % 2 == 0; }

  // The slots of a pass that take sums of inputs, by their names in the model.
  std::vector<InputSums::Place> input_sums(const Pass& pass) const;

  // REQUIRES: the compiler has finished; weights, memory, arena and sums outlive the plan; there are sums where the
  // pass has slots for them.
  Plan plan(const Pass& pass, const PackedWeights& weights, const EngineMemory& memory, void* arena,
            const InputSums* sums = nullptr) const;

  std::vector<PlanLaunch> launches(const Pass& pass, const Plan& plan) const;
  // The same where nothing runs: without what the device runs.
  std::vector<PlanLaunch> launches(const Pass& pass) const;
  std::vector<PlanSegment> segments(const Pass& pass) const;
  // For each launch the tree of its kernel if weights of `role` lay in another layout; empty if the schedule would be
  // another one.
  std::vector<Ref> trees_with(const Pass& pass, const std::string& role, WeightLayout layout) const;
  // Bytes of weights that one replay has to read for so many tokens, if each of them chooses its experts at random:
  // what several choose is counted once.
  double bytes_read(const Pass& pass, int64_t tokens = 1) const;

 private:
  ModelShape decode_shape(int64_t tokens, Contexts contexts) const;
  Dim chunks_of(Contexts contexts, int64_t tokens) const;
  bool batch_has_halves(int64_t tokens) const;
  int64_t product_tasks(int64_t tokens) const;
  ModelShape prefill_shape(Prompts prompts) const;
  Segment segment(const ModelShape& shape, int64_t stage) const;
  Pass stages(const ModelShape& shape, int64_t first, int64_t end, const std::atomic<bool>* cancel) const;
  int64_t choice_stage() const { return model_.numbers().layers + 2; }
  int64_t mtp_stage() const { return model_.numbers().layers + 3; }
  int64_t layer_of(int64_t stage) const;
  bool is_looked_up(int64_t stage, const SlotBinding& slot) const;
  std::string weight_name(const Pass& pass, size_t segment, const SlotBinding& slot) const;
  LaunchBuffer describe(Ref buffer, const Pass& pass, size_t segment) const;
  LaunchBuffer describe(const SlotBinding& slot, int64_t bytes, const Pass& pass, size_t segment) const;
  std::string stage_name(const Pass& pass, size_t segment) const;

  const GgufFile& file_;
  const Model& model_;
  const EngineLayout& layout_;
  PassOptions options_;
  Compiler& compiler_;
  std::vector<std::string> names_ = PassSymbols::names(layout_.token_tile);
};

}  // namespace smelt
