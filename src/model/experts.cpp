#include "model/experts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "graph/rules_algebra.h"

namespace smelt {
namespace {

// 0.5 x (1 + tanh(u)) = x sigmoid(2 u) for u = sqrt(2 / pi) (x + 0.044715 x^3): Hendrycks and Gimpel, arXiv 1606.08415.
Tensor gelu_tanh(Tensor x) {
  const double scale = 2 * std::sqrt(2 / M_PI);
  return x * sigmoid(x * (x * x * (scale * 0.044715) + scale));
}

constexpr double kSwigluSlope = 1.702, kSwigluLimit = 7;

Tensor opened(Activation activation, Tensor gate, Tensor up) {
  switch (activation) {
    case Activation::Silu: return silu(gate) * up;
    case Activation::GeluTanh: return gelu_tanh(gate) * up;
    case Activation::ClampedSwiglu: break;
  }
  const Tensor most = scalar(kSwigluLimit), g = minimum(gate, most), u = maximum(minimum(up, most), -most);
  return g * sigmoid(g * kSwigluSlope) * (u + 1.0);
}

struct Choice {
  Tensor experts;  // i32 [T, K]
  Tensor weights;  // f32 [T, K]
};

// Scores of the experts outside the best groups of each token are out of the choice. score [T, E]
Tensor within_best_groups(Block& b, const ExpertParameters& m, Tensor score) {
  if (m.groups == 1) return score;
  const int64_t size = m.count / m.groups;
  const Dim n_groups = times(b.shape.tokens, m.groups);
  const Tensor grouped = reshape(score, {b.shape.tokens, m.groups, size});
  const Tensor best_two =
      cast(top_k(reshape(score, {n_groups, size}), 2), DType::I64) + iota({n_groups, 2}, 0) * double(size);  // [T G, 2]
  const Tensor of_group = sum(gather(reshape(score, {times(b.shape.tokens, m.count)}), best_two), -1);       // [T G]
  const Tensor chosen = top_k(reshape(of_group, {b.shape.tokens, m.groups}), static_cast<int>(m.groups_used));
  const Tensor group = unsqueeze(cast(iota({m.groups}, 0), DType::I32), 1);           // [G, 1]
  const Tensor hits = sum(cast(equal(unsqueeze(chosen, 1), group), DType::I32), -1);  // [T, G]
  const Tensor is_in = unsqueeze(less(scalar(0, DType::I32), hits), 2);
  const Tensor out = scalar(std::numeric_limits<float>::lowest());
  return reshape(where(is_in, grouped, out), {b.shape.tokens, m.count});
}

// The bias acts on the choice only; the weights come from the scores themselves.
Choice route(Block& b, const ExpertParameters& m, Tensor x) {
  const Tensor product = linear(x, b.weights("ffn_gate_inp.weight"));  // [T, E]
  const Tensor logits = m.router_bias ? product + b.weights("ffn_gate_inp.bias") : product;
  const Tensor score = m.routing == Routing::Sigmoid ? sigmoid(logits) : softmax(logits, -1);
  const Tensor biased = m.selection_bias ? score + b.weights("exp_probs_b.bias") : score;
  const Tensor chosen = top_k(within_best_groups(b, m, biased), static_cast<int>(m.used));
  const Tensor index = iota({b.shape.tokens, m.used}, 0) * double(m.count) + cast(chosen, DType::I64);
  Tensor w = gather(reshape(score, {times(b.shape.tokens, m.count)}), index);  // [T, K]
  if (m.normalise_weights) w = w / unsqueeze(sum(w, -1) + 1e-20, 1);
  return {chosen, w * m.weights_scale};
}

// x times the matrices of experts, with their biases. `expert` is i32 [a, b], x [a or 1, b or 1, k].
Tensor expert_product(Block& b, const ExpertParameters& m, const Activations& x, const std::string& name, Tensor expert,
                      Line line = Line::current()) {
  const Tensor product = b.weights.product(x, name + ".weight", expert, line);
  return m.has_bias ? product + b.weights.rows(name + ".bias", expert, line) : product;
}

// sum over the chosen experts e of weight_e * down_e (silu(gate_e x) * up_e x): the expert is part
// of the load address. For few tokens: each reads the weights of its experts for itself.
Tensor experts_by_token(Block& b, const ExpertParameters& m, const Activations& x, const Choice& choice) {
  const auto per_expert = [](Tensor v) { return v.ref() ? unsqueeze(v, 1) : v; };  // [T, 1, ...]
  const Activations in{per_expert(x.x), per_expert(x.q), per_expert(x.scale), per_expert(x.sums)};
  const Tensor gate = b.streamed(expert_product(b, m, in, "ffn_gate_exps", choice.experts));  // [T, K, width]
  const Tensor up = b.streamed(expert_product(b, m, in, "ffn_up_exps", choice.experts));
  const Activations inner = b.expert_activations(opened(m.activation, gate, up));
  const Tensor down = expert_product(b, m, inner, "ffn_down_exps", choice.experts);  // [T, K, D]
  return sum(down * unsqueeze(choice.weights, 2), 1);                                // [T, D]
}

// For several tokens: the pairs (token, choice) sorted by expert, in tiles of some places, all pairs of a tile of one
// expert, so that a weight that was read serves all pairs that want it. N tiles, P = T K pairs.
struct Tiles {
  Tensor expert;    // i32 [N]
  Tensor is_used;   // bool [N]: false for the tiles left over at the end; absent if none can be
  Tensor token;     // i32 [N, places]: token 0 in places left over at the end of an expert
  Tensor place_of;  // i32 [T, K]: the place of each pair, in 0 .. N places - 1
};

// As many share what weights become in wide blocks, if that is to pay: with 64 tokens an expert of 64 has four of them.
constexpr int64_t kPlacesOfWide = 16;

// Of few: an expert has few pairs, and these wait for its weights alone, which the caches keep from one to the next.
constexpr int64_t kPlacesOfFew = 1;

Tensor column(Tensor x) { return unsqueeze(x, x.rank()); }
Tensor index(Dim n) { return cast(iota({n}, 0), DType::I32); }
Tensor number(Tensor condition) { return cast(condition, DType::I32); }
Tensor count(Tensor condition) { return sum(number(condition), -1); }

// The pairs of each expert, in the order in which they come: how many there are, and which place a pair has.
struct Ranks {
  Tensor n_pairs;  // i32 [E]
  Tensor rank;     // i32 [P]
};

// Every index is a sum of comparisons, which run in lanes.
Ranks ranks_of_few(Tensor expert, int64_t n_experts) {
  const Tensor pair = index(expert.dim(0));
  return {count(equal(column(index(n_experts)), expert)),
          count(equal(expert, column(expert)) & less(pair, column(pair)))};
}

// Many pairs are counted in blocks, so that no pair is compared with all of them.
class Blocks {
 public:
  Blocks(Tensor expert, int64_t n_experts, int64_t size)
      : pairs_(expert.dim(0)),
        size_(size),
        n_blocks_(simplify(expert.dim(0) / size)),
        expert_(reshape(expert, {n_blocks_, size})),
        counts_(count(equal(unsqueeze(expert_, 0), column(column(index(n_experts)))))),
        before_(sum(number(less(index(n_blocks_), column(index(n_blocks_)))) * unsqueeze(counts_, 1), -1)),
        within_(count(equal(unsqueeze(expert_, 1), column(expert_)) & less(index(size), column(index(size))))) {}

  Ranks ranks() const {
    const Tensor block = index(pairs_) / double(size_);
    return {sum(counts_, -1), reshape(within_, {pairs_}) + before(reshape(expert_, {pairs_}), block)};
  }

  // The pair with this rank among those of an expert [N]; 0 where there is none. rank [N, places]
  Tensor pair_at(Tensor expert, Tensor rank) const {
    const Tensor begun = count(less(unsqueeze(gather(before_, expert), 1), column(rank) + 1.0));
    const Tensor block = maximum(begun - 1.0, scalar(0, DType::I32));  // the last one that begins with no higher rank
    const Tensor rest = rank - before(column(expert), block);
    const Tensor is_it =
        equal(gather(expert_, block), column(column(expert))) & equal(gather(within_, block), column(rest));
    return sum(number(is_it) * (column(block) * double(size_) + index(size_)), -1);
  }

 private:
  // Pairs of an expert in the blocks before one.
  Tensor before(Tensor expert, Tensor block) const {
    const Dim n = times(n_blocks_, before_.size(0));
    return gather(reshape(before_, {n}), expert * cast(Tensor(n_blocks_.ref), DType::I32) + block);
  }

  Dim pairs_;
  int64_t size_;
  Dim n_blocks_;
  Tensor expert_;  // i32 [blocks, size]
  Tensor counts_;  // i32 [E, blocks]: pairs of an expert in a block
  Tensor before_;  // i32 [E, blocks]: in those before it
  Tensor within_;  // i32 [blocks, size]: pairs of the same expert before a pair in its block
};

constexpr int64_t kMostOfBlock = 256;  // pairs

// 0: pairs are few, or in no blocks.
int64_t block_of_pairs(Dim pairs) {
  if (const_int(pairs.ref)) return 0;
  int64_t size = 1;
  while (size < kMostOfBlock && known_divisor(pairs.ref) % (2 * size) == 0) size *= 2;
  return size > 1 ? size : 0;
}

// Counting sort.
Tiles sort_by_expert(const Block& b, const ExpertParameters& m, Tensor chosen, int64_t n_places) {
  const int64_t n_experts = m.count, per_token = m.used;
  const Dim pairs = simplify(b.shape.tokens.ref * per_token);
  // An expert's last tile may have free places; there are never more tiles than pairs.
  const Dim with_free = simplify(pairs.ref / n_places + n_experts);
  const auto count_of_pairs = const_int(pairs.ref);
  const bool are_few = n_places == 1 || (count_of_pairs && *count_of_pairs <= *const_int(with_free.ref));
  const Dim tiles = are_few ? pairs : with_free;
  const Dim places = simplify(tiles.ref * n_places);

  const Tensor expert = reshape(chosen, {pairs}), e = index(n_experts);
  std::optional<Blocks> blocks;
  if (const int64_t size = block_of_pairs(pairs)) blocks.emplace(expert, n_experts, size);
  const Ranks of = blocks ? blocks->ranks() : ranks_of_few(expert, n_experts);
  const Tensor n_tiles = (of.n_pairs + double(n_places - 1)) / double(n_places);             // [E]
  const Tensor first = sum(number(less(e, column(e))) * n_tiles, -1);                        // [E]
  const Tensor place_of = gather(first, expert) * double(n_places) + of.rank;                // [P]
  const Tensor tile = index(tiles), of_tile = count(less(first, column(tile) + 1.0)) - 1.0;  // [N]
  const auto pair_at = [&] {                                                                 // [N, places]
    if (blocks) {
      const Tensor first_rank = (tile - gather(first, of_tile)) * double(n_places);
      return blocks->pair_at(of_tile, column(first_rank) + index(n_places));
    }
    const Tensor is_here = equal(place_of, column(index(places)));  // [N places, P]
    return reshape(sum(number(is_here) * index(pairs), -1), {tiles, n_places});
  };
  return {
      .expert = of_tile,
      .is_used = n_places == 1 ? Tensor() : less(tile, sum(n_tiles, 0)),
      .token = place(pair_at() / double(per_token)),
      .place_of = reshape(place_of, {b.shape.tokens, per_token}),
  };
}

Tensor experts_by_tile(Block& b, const ExpertParameters& m, const Activations& x, const Choice& choice,
                       int64_t n_places) {
  const Tiles tiles = sort_by_expert(b, m, choice.experts, n_places);
  const Tensor expert = unsqueeze(tiles.expert, 1);  // [N, 1]: for all places of a tile
  // [N, places, k] -> [N, places, n] by the matrix of the tile's expert; tiles not used cost nothing.
  auto product = [&](Activations in, const char* name, Line line = Line::current()) {
    in.wide = in.wide && n_places >= kPlacesOfWide;
    const Tensor all = expert_product(b, m, in, name, expert, line);
    return tiles.is_used.ref() ? where(unsqueeze(unsqueeze(tiles.is_used, 1), 1), all, scalar(0)) : all;
  };
  const Activations in = rows_of(x, tiles.token);                        // [N, places, D]
  const Tensor gate = b.streamed(b.kept(product(in, "ffn_gate_exps")));  // [N, places, width]
  const Tensor up = b.streamed(product(in, "ffn_up_exps"));
  const Tensor each = product(b.expert_activations(opened(m.activation, gate, up), 1), "ffn_down_exps"),
               down = b.shape.halves ? b.kept(each) : each;
  const Dim places = simplify(down.dim(0) * n_places);
  const Tensor of_pair = gather(reshape(down, {places, down.dim(2)}), tiles.place_of);  // [T, K, D]
  return sum(of_pair * unsqueeze(choice.weights, 2), 1);                                // [T, D]
}

// Whether so many of the pairs meet at an expert, if tokens choose at random, that sorting them is cheaper than reading
// weights again.
bool pays_to_sort(const ExpertParameters& m, int64_t tokens) {
  constexpr double kWorthSorting = 1.05;  // pairs for each expert that is read
  const auto count = static_cast<double>(m.count), used = static_cast<double>(m.used), n = static_cast<double>(tokens);
  const double distinct = count * (1 - std::pow(1 - used / count, n));
  return n * used > kWorthSorting * distinct;
}

// The same bits for each token, in whichever way.
Tensor routed_experts(Block& b, const ExpertParameters& m, const Activations& x, const Choice& choice) {
  if (b.shape.many_tokens) return experts_by_tile(b, m, x, choice, b.shape.expert_places);
  // For a unit, to which free places cost nothing.
  if (b.shape.tokens_side_by_side > 1) return experts_by_tile(b, m, x, choice, b.shape.tokens_side_by_side);
  if (pays_to_sort(m, *const_int(b.shape.tokens.ref))) return experts_by_tile(b, m, x, choice, kPlacesOfFew);
  return experts_by_token(b, m, x, choice);
}

void read_groups(Keys& keys, ExpertParameters& m) {
  m.groups = std::max<int64_t>(1, keys.integer_or("expert_group_count", 1, 0, m.count));
  m.groups_used = std::max<int64_t>(1, keys.integer_or("expert_group_used_count", m.groups, 0, m.groups));
  if (m.groups == 1) return;
  if (m.count % m.groups != 0 || m.count / m.groups < 2)
    keys.refuse("expert_group_count", std::to_string(m.groups) + " does not divide " + std::to_string(m.count) +
                                          " experts into groups of at least 2");
  if (m.count / m.groups * m.groups_used < m.used)
    keys.refuse("expert_group_used_count", std::to_string(m.groups_used) + " groups have fewer than the " +
                                               std::to_string(m.used) + " experts that are used");
}

}  // namespace

ExpertParameters read_experts(Keys& keys, int64_t first_layer, const ExpertTraits& traits) {
  ExpertParameters m{.count = keys.integer("expert_count", 1, 1 << 14)};
  m.used = keys.integer("expert_used_count", 1, m.count);
  m.width = keys.integer(traits.width_key, 1, kMostWidth);
  const int64_t shared = keys.integer_or("expert_shared_count", traits.has_shared_gate, 0, 1 << 10) * m.width;
  m.shared_width = keys.integer_or("expert_shared_feed_forward_length", shared, 0, kMostWidth);
  m.has_shared_gate = traits.has_shared_gate && m.shared_width > 0;
  m.selection_bias = keys.file().find(layer_prefix(first_layer) + "exp_probs_b.bias") != nullptr;
  m.routing = m.selection_bias ? Routing::Sigmoid : traits.routing;
  if (keys.has("expert_gating_func")) {
    const int64_t function = keys.integer("expert_gating_func", 0, 1 << 16);
    if (function != 1 && function != 2)
      keys.refuse("expert_gating_func",
                  std::to_string(function) + " is not supported; 1 (softmax) and 2 (sigmoid) are");
    m.routing = function == 2 ? Routing::Sigmoid : Routing::Softmax;
  }
  read_groups(keys, m);
  m.normalise_weights =
      keys.boolean_or("expert_weights_norm", traits.normalise_weights || m.routing == Routing::Sigmoid);
  m.weights_scale = keys.real_or("expert_weights_scale", 1, 1e-6, 1e6);
  m.router_bias = m.has_bias = traits.needs_bias;
  m.activation = traits.activation;
  return m;
}

void write_experts(KeyWriter& out, const ExpertParameters& m) {
  out.number("expert_count", m.count);
  out.number("expert_used_count", m.used);
  out.number("expert_feed_forward_length", m.width);
  out.number("expert_shared_count", m.shared_width / m.width);
  out.number("expert_shared_feed_forward_length", m.shared_width);
  out.number("expert_gating_func", m.routing == Routing::Sigmoid ? 2 : 1);
  out.number("expert_group_count", m.groups);
  out.number("expert_group_used_count", m.groups_used);
  out.flag("expert_weights_norm", m.normalise_weights);
  out.real("expert_weights_scale", m.weights_scale);
}

std::vector<TensorShape> network_tensors(const std::string& suffix, int64_t hidden, int64_t width) {
  return {{"ffn_gate" + suffix, {width}, hidden},
          {"ffn_up" + suffix, {width}, hidden},
          {"ffn_down" + suffix, {hidden}, width}};
}

std::vector<TensorShape> expert_tensors(const ExpertParameters& m, int64_t hidden) {
  std::vector<TensorShape> list = {{"ffn_gate_inp.weight", {m.count}, hidden}};
  if (m.router_bias) list.push_back({"ffn_gate_inp.bias", {}, m.count});
  if (m.selection_bias) list.push_back({"exp_probs_b.bias", {}, m.count});
  const double share = static_cast<double>(m.used) / static_cast<double>(m.count);
  for (TensorShape& t : network_tensors("_exps.weight", hidden, m.width)) {
    t.rows.insert(t.rows.begin(), m.count);
    t.share_of_read = share;
    list.push_back(std::move(t));
  }
  if (m.has_bias)
    for (const TensorShape& t : network_tensors("_exps.bias", hidden, m.width))
      list.push_back({t.name, {m.count}, t.rows[0], share});
  if (m.has_shared_gate) list.push_back({"ffn_gate_inp_shexp.weight", {}, hidden});
  if (m.shared_width)
    for (TensorShape& t : network_tensors("_shexp.weight", hidden, m.shared_width)) list.push_back(std::move(t));
  return list;
}

Tensor gated_network(Block& b, const Activations& x, const std::string& suffix, Activation activation) {
  const Tensor gate = b.streamed(b.kept(b.weights.product(x, "ffn_gate" + suffix)));
  const Tensor up = b.streamed(b.weights.product(x, "ffn_up" + suffix));
  return b.weights.product(b.activations(opened(activation, gate, up)), "ffn_down" + suffix);
}

Tensor fused_network(Block& b, const Activations& x, int64_t width, Activation activation) {
  const Tensor both = place(b.weights.product(x, "ffn_up.weight"));  // [T, 2 width]
  const Tensor inner = opened(activation, slice(both, 1, 0, width), slice(both, 1, width, width));
  return b.weights.product(b.activations(inner), "ffn_down.weight");
}

Tensor expert_network(Block& b, const ExpertParameters& m, Tensor normed) {
  const Activations x = b.expert_activations(normed);
  const Choice choice = route(b, m, normed);
  const Tensor routed = routed_experts(b, m, x, choice);
  if (!m.shared_width) return routed;
  const Tensor shared = b.ahead(gated_network(b, b.has_halves() ? b.activations(normed) : x, "_shexp.weight"));
  if (!m.has_shared_gate) return routed + shared;
  const Tensor gate = place(sigmoid(sum(normed * b.weights("ffn_gate_inp_shexp.weight"), -1)));  // [T]
  return routed + shared * unsqueeze(gate, 1);
}

}  // namespace smelt
