// What the parts of a forward pass share while they build a segment: its slots, its weights by name, and the sizes that
// it is for.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "gguf/gguf.h"
#include "graph/line.h"
#include "graph/matrix_shape.h"
#include "model/byte_cache.h"
#include "model/model.h"
#include "model/norm.h"
#include "model/product.h"

namespace smelt {

// x * factor, as a constant where x is one: shapes are compared as they stand.
Dim times(Dim x, int64_t factor);

// The slots of a segment under construction, numbered in the order in which the pass asks for them.
class Slots {
 public:
  int add(Bound kind) { return add(SlotBinding{.kind = kind}); }
  int add(SlotBinding binding) {
    list_.push_back(std::move(binding));
    return static_cast<int>(list_.size()) - 1;
  }
  Tensor input(Bound kind, DType dtype, std::vector<Dim> shape, const char* name) {
    return param(add(kind), dtype, std::move(shape), name);
  }
  // Of what the host writes for each run.
  Tensor given(Bound kind, DType dtype, std::vector<Dim> shape, const char* name) {
    return given_param(add(kind), dtype, std::move(shape), name);
  }
  // The first line stays.
  void used_at(int slot, Line line) {
    std::string& at = list_[static_cast<size_t>(slot)].line;
    if (at.empty()) at = to_text(line);
  }
  Ref output(Bound kind, Tensor x) { return smelt::output(add(kind), x); }
  // Sums of inputs, as one more root. Those that are there already get another name.
  void sums(const std::string& name, int64_t elements, Tensor x);
  Segment finish(Refs roots) && {
    for (const auto& [x, slot] : sums_) roots.push_back(smelt::output(slot, x));
    return {sink(std::move(roots)), std::move(list_)};
  }

 private:
  std::vector<SlotBinding> list_;
  std::vector<std::pair<Tensor, int>> sums_;  // with their slots
};

// The weights of a segment by name. Their slots come first, in the order of the list.
class Weights {
 public:
  Weights(const GgufFile& file, const std::string& prefix, const std::vector<TensorShape>& shapes, Slots& slots,
          const ModelShape& wanted);

  // x [..., k] times the transposed matrix, and the same with the chosen of a stack of matrices: see product().
  Tensor product(const Activations& x, const std::string& name, Line line = Line::current()) const {
    const AtLine at(line);
    const Entry& w = find(name);
    slots_.used_at(w.slot, line);
    if (sums_inputs_) sum_inputs(w, x.x);
    return in_order(w, scaled(smelt::product(x, w.raw, w.type, w.layout), w.scale));
  }
  Tensor product(const Activations& x, const std::string& name, Tensor chosen, Line line = Line::current()) const {
    const AtLine at(line);
    const Entry& w = find(name);
    slots_.used_at(w.slot, line);
    if (sums_inputs_) sum_inputs(w, x.x, chosen);
    const Tensor y = smelt::product(x, gather(w.raw, chosen), w.type, w.layout);
    return w.scale.ref() ? scaled(y, unsqueeze(gather(w.scale, chosen), chosen.rank())) : y;
  }

  // Whether most bytes of the matrices are of formats whose blocks are longer than a group that shares a scale.
  bool have_superblocks() const { return superblock_bytes_ > 0; }

  // All values: f32 [rows..., k]. Of what is split, vectors only.
  Tensor operator()(const std::string& name, Line line = Line::current()) const {
    const AtLine at(line);
    const Entry& w = find(name);
    return in_order(w, dequantize(w.raw, w.type, w.layout));
  }
  // Those of the chosen rows of the slowest axis, read in place: f32 shape(chosen) + [rows[1:]...,
  // k].
  Tensor rows(const std::string& name, Tensor chosen, Line line = Line::current()) const {
    const AtLine at(line);
    const Entry& w = find(name);
    slots_.used_at(w.slot, line);
    return dequantize(gather(w.raw, chosen), w.type, w.layout);
  }

 private:
  struct Entry {
    std::string name;
    int slot;
    int64_t matrices;  // in the stack
    GgufType type;
    WeightLayout layout;
    Tensor raw;
    Tensor scale;   // f32 [1], or one for each matrix of a stack (name_of_scale); none: 1
    int split = 0;  // TensorShape::split, where the layout does not do it
  };

  Tensor scale_of(const GgufFile& file, const std::string& prefix, const TensorShape& shape) const;
  static Tensor in_order(const Entry& w, Tensor x);
  static Tensor scaled(Tensor y, Tensor scale) { return scale.ref() ? y * scale : y; }
  const Entry& find(const std::string& name) const;
  // ModelShape::sums_inputs. x [T, k] or [T, matrices, k]; where some of the stack are chosen as for product().
  void sum_inputs(const Entry& w, Tensor x) const;
  void sum_inputs(const Entry& w, Tensor x, Tensor chosen) const;

  Slots& slots_;
  bool sums_inputs_;
  int64_t superblock_bytes_ = 0;  // more than in other blocks
  std::vector<Entry> list_;
};

// What the functions of a block share. T tokens, H heads, D = hidden, S positions of the context.
struct Block {
  const Hyperparameters& model;
  const ModelShape& shape;
  Slots& slots;
  const Weights& weights;

  // How numbers of tokens lie that products read; tokens are along `axis`.
  ActivationLayout layout(int axis = 0) const { return {.rows = shape.tokens_side_by_side, .axis = axis}; }

  // As many heads as are computed for `heads` that read the same keys: whole ones for a unit, if it then has less than
  // twice as many. The ones behind are the last head once more.
  int64_t heads_computed(int64_t heads) const {
    const int64_t n = shape.heads_together, all = (heads + n - 1) / n * n;
    const bool is_by_unit = shape.quantise && shape.cache_type == DType::U8 && !shape.many_tokens;
    return is_by_unit && all <= 2 * heads ? all : heads;
  }

  // How the bytes of a cache lie, of which `heads` read the same keys: see byte_cache.h. `widths`: of keys and values.
  // For a unit only if heads_computed() fills it up, in every plan alike: all read and write the same cache.
  CacheOrder cache_order(int64_t heads, std::initializer_list<int64_t> widths) const {
    const bool are_whole = std::all_of(widths.begin(), widths.end(), [](int64_t n) { return n % kFragmentWidth == 0; });
    return shape.has_fragments && 2 * heads >= kFragmentGroups && are_whole ? CacheOrder::Fragments : CacheOrder::Lanes;
  }

  // How queries lie, whose `heads` that read the same keys are along `axis`. Tokens that are not of one prompt have
  // keys of their own: there heads are the columns of a unit. As many lie side by side as both have whole numbers of.
  ActivationLayout layout_of_queries(int axis, int64_t heads) const {
    if (shape.many_tokens) return layout();
    return {.rows = std::gcd(heads, shape.heads_together), .axis = axis, .is_of_bytes = true};
  }

  ActivationBlocks blocks() const {
    if (!shape.many_tokens)
      return {.most = weights.have_superblocks() ? shape.superblock_token_block : shape.token_block};
    return shape.prompt_block ? ActivationBlocks{shape.prompt_block, true} : ActivationBlocks{};
  }

  // What products multiply weights with, under the policy of the plan.
  // `axis`: along which tokens are.
  Activations activations(Tensor x, int axis = 0) const {
    if (!shape.quantise) return {x, {}, {}};
    if (shape.halves && shape.many_tokens) return halve_activations(x, layout(axis));
    return has_halves() ? halves_of_batch(x, axis) : quantise_activations(x, layout(axis), blocks());
  }

  // Whether the products of a batch are made of halves.
  bool has_halves() const { return shape.quantise && !shape.many_tokens && shape.product_tasks > 0; }

  Activations halves_of_batch(Tensor x, int axis) const {
    Activations halves = halve_activations(x, layout(axis));
    halves.tasks = shape.product_tasks;
    return halves;
  }

  // The same of experts, of which each has few tokens of a batch.
  Activations expert_activations(Tensor x, int axis = 0) const {
    return has_halves() ? quantise_activations(x, layout(axis), blocks()) : activations(x, axis);
  }

  // Products of few tokens are bound by memory: matrices that read the same activations share a kernel. Those of many
  // tokens are bound by arithmetic, and registers have no room for the sums of a second matrix: a kernel for each.
  Tensor apart(Tensor x, Line line = Line::current()) const { return shape.many_tokens ? place(x, line) : x; }

  // What a product leaves in memory for others: of a prompt in halves, if these are what it is multiplied with.
  Tensor kept(Tensor x, Line line = Line::current()) const {
    return shape.halves ? cast(place(cast(x, DType::BF16), line), DType::F32) : apart(x, line);
  }

  // Whether an attention multiplies halves with bytes of `heads` heads' common keys: in a prompt, and in a batch whose
  // heads fill a unit.
  bool attends_by_halves(int64_t heads) const {
    const bool fill_unit = shape.cache_type == DType::U8 && heads_computed(heads) % shape.heads_together == 0;
    return shape.attention_halves || (shape.halves_of_batch && fill_unit);
  }

  // What the weights of such heads become where values are bytes: see softmax_average_of_bytes().
  int64_t weighted_bytes(int64_t heads) const {
    return attends_by_halves(heads) ? kHalvesTimesScale : kBytesTimesScale;
  }

  // What an attention gives, in a prompt of halves with a place of its own: its tiles then go over all chunks by
  // themselves (schedule/fold_chunks.h), and partial results never reach memory.
  Tensor averaged(Tensor x, Line line = Line::current()) const { return shape.attention_halves ? kept(x, line) : x; }

  // The product of a few tokens is as fast as its matrix comes from memory, and some processors bring few streams ahead
  // of time. There matrices are read one after the other where each worker can compute for itself what is made of the
  // products. However many tokens there are: sums that share a kernel may be combined together, which shows in bits.
  Tensor streamed(Tensor x, Line line = Line::current()) const {
    const AtLine at(line);
    return shape.few_streams && !shape.many_tokens && x.size(-1) <= model.hidden ? place(x) : x;
  }

  // The product of a batch by the unit has all of its tokens: what is made of each of its rows is a kernel behind it.
  Tensor by_unit(Tensor x, Line line = Line::current()) const {
    return !shape.many_tokens && shape.tokens_side_by_side > 1 ? place(x, line) : x;
  }

  // A product of a few tokens whose operands are there before those of what it is added to: made with a place of its
  // own it runs beside the kernels in between, if there are any, and nobody waits for it in the end.
  Tensor ahead(Tensor x, Line line = Line::current()) const { return shape.many_tokens ? x : place_ahead(x, line); }
};

}  // namespace smelt
