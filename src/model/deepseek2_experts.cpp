#include "model/deepseek2_experts.h"

#include "graph/rules_algebra.h"

namespace smelt::deepseek2 {
namespace {

// w_down (silu(w_gate x) * w_up x). x [T, D].
Tensor gated_network(Block& b, const Activations& x, const std::string& suffix) {
  const Tensor gate = b.streamed(b.apart(b.weights.product(x, "ffn_gate" + suffix)));
  const Tensor up = b.streamed(b.weights.product(x, "ffn_up" + suffix));
  return b.weights.product(b.activations(silu(gate) * up), "ffn_down" + suffix);
}

struct Choice {
  Tensor experts;  // i32 [T, K]
  Tensor weights;  // f32 [T, K]
};

// The bias acts on the choice only; the weights come from the scores themselves.
Choice route(Block& b, Tensor x) {
  const Hyperparameters& m = b.model;
  const Tensor logits = linear(x, b.weights("ffn_gate_inp.weight"));  // [T, E]
  const Tensor score = m.routing == Routing::Sigmoid ? sigmoid(logits) : softmax(logits, -1);
  const Tensor chosen = top_k(m.selection_bias ? score + b.weights("exp_probs_b.bias") : score,
                              static_cast<int>(m.experts_used));
  const Tensor index =
      iota({b.shape.tokens, m.experts_used}, 0) * double(m.experts) + cast(chosen, DType::I64);
  Tensor w = gather(reshape(score, {times(b.shape.tokens, m.experts)}), index);  // [T, K]
  if (m.normalise_weights) w = w / unsqueeze(sum(w, -1) + 1e-20, 1);
  return {chosen, w * m.weights_scale};
}

// sum over the chosen experts e of weight_e * down_e (silu(gate_e x) * up_e x): the expert is part
// of the load address. For few tokens: each reads the weights of its experts for itself.
Tensor experts_by_token(Block& b, const Activations& x, const Choice& choice) {
  const auto per_expert = [](Tensor v) { return v.ref() ? unsqueeze(v, 1) : v; };  // [T, 1, ...]
  const Activations in{per_expert(x.x), per_expert(x.q), per_expert(x.scale)};
  const Tensor gate =
      b.streamed(b.weights.product(in, "ffn_gate_exps.weight", choice.experts));  // [T, K, width]
  const Tensor up = b.streamed(b.weights.product(in, "ffn_up_exps.weight", choice.experts));
  const Activations inner = b.activations(silu(gate) * up);
  const Tensor down =
      b.weights.product(inner, "ffn_down_exps.weight", choice.experts);  // [T, K, D]
  return sum(down * unsqueeze(choice.weights, 2), 1);                    // [T, D]
}

// For many tokens: the pairs (token, choice) in tiles of kTile places, all pairs of a tile of one
// expert, so that a weight that was read and unpacked serves a whole tile. N tiles, P = T K pairs.
// Every place is computed, and the last tile of an expert is half empty in the mean: four places cost
// a half of the unpacking that eight share, which runs beside the dots, and waste half as many.
constexpr int64_t kTile = 4;

struct Tiles {
  Tensor expert;    // i32 [N]
  Tensor is_used;   // bool [N]: false for the tiles left over at the end
  Tensor token;     // i32 [N, kTile]: token 0 in places left over at the end of an expert
  Tensor place_of;  // i32 [T, K]: the place of each pair, in 0 .. N kTile - 1
};

// Counting sort. Every index is a sum of comparisons, which run in lanes; P is some hundreds.
Tiles sort_by_expert(const Block& b, Tensor chosen) {
  const int64_t n_experts = b.model.experts, per_token = b.model.experts_used;
  const Dim pairs = simplify(b.shape.tokens.ref * per_token);
  const Dim tiles = simplify(pairs.ref / kTile + n_experts), places = simplify(tiles.ref * kTile);
  auto index = [](Dim n) { return cast(iota({n}, 0), DType::I32); };
  auto column = [](Tensor x) { return unsqueeze(x, 1); };
  auto count = [](Tensor condition) { return sum(cast(condition, DType::I32), -1); };

  const Tensor expert = reshape(chosen, {pairs}), pair = index(pairs), e = index(n_experts);
  const Tensor n_pairs = count(equal(column(e), expert));                               // [E]
  const Tensor n_tiles = (n_pairs + double(kTile - 1)) / double(kTile);                 // [E]
  const Tensor first = sum(cast(less(e, column(e)), DType::I32) * n_tiles, -1);         // [E]
  const Tensor rank = count(equal(expert, column(expert)) & less(pair, column(pair)));  // [P]
  const Tensor place_of = gather(first, expert) * double(kTile) + rank;                 // [P]
  const Tensor is_here = equal(place_of, column(index(places)));     // [N kTile, P]
  const Tensor pair_at = sum(cast(is_here, DType::I32) * pair, -1);  // [N kTile]
  const Tensor tile = index(tiles);
  return {
      .expert = count(less(first, column(tile) + 1.0)) - 1.0,
      .is_used = less(tile, sum(n_tiles, 0)),
      .token = reshape(pair_at / double(per_token), {tiles, kTile}),
      .place_of = reshape(place_of, {b.shape.tokens, per_token}),
  };
}

Tensor experts_by_tile(Block& b, const Activations& x, const Choice& choice) {
  const Tiles tiles = sort_by_expert(b, choice.experts);
  const Tensor expert = unsqueeze(tiles.expert, 1);  // [N, 1]: for all places of a tile
  const Tensor is_used = unsqueeze(unsqueeze(tiles.is_used, 1), 1);
  // [N, kTile, k] -> [N, kTile, n] by the matrix of the tile's expert; tiles not used cost nothing.
  auto product = [&](const Activations& in, const char* name) {
    return where(is_used, b.weights.product(in, name, expert), scalar(0));
  };
  const Activations in = rows_of(x, tiles.token);                    // [N, kTile, D]
  const Tensor gate = b.apart(product(in, "ffn_gate_exps.weight"));  // [N, kTile, width]
  const Tensor up = product(in, "ffn_up_exps.weight");
  const Tensor down = product(b.activations(silu(gate) * up), "ffn_down_exps.weight");
  const Dim places = simplify(down.dim(0) * kTile);
  const Tensor of_pair = gather(reshape(down, {places, down.dim(2)}), tiles.place_of);  // [T, K, D]
  return sum(of_pair * unsqueeze(choice.weights, 2), 1);                                // [T, D]
}

Tensor experts(Block& b, const Activations& x, const Choice& choice) {
  const bool few = const_int(b.shape.tokens.ref).has_value();
  return few ? experts_by_token(b, x, choice) : experts_by_tile(b, x, choice);
}

}  // namespace

Tensor feed_forward(Block& b, Tensor normed, bool is_moe) {
  const Activations x = b.activations(normed);
  if (!is_moe) return gated_network(b, x, ".weight");
  const Tensor routed = experts(b, x, route(b, normed));
  if (!b.model.shared_width) return routed;
  return routed + b.streamed(gated_network(b, x, "_shexp.weight"));
}

}  // namespace smelt::deepseek2
