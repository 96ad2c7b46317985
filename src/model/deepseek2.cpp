#include "model/deepseek2.h"

#include <limits>

#include "base/ensure.h"
#include "graph/rules_algebra.h"
#include "model/byte_cache.h"
#include "model/dequant.h"

namespace smelt {
namespace {

// x * factor, as a constant where x is one: shapes are compared as they stand.
Dim times(Dim x, int64_t factor) {
  const auto value = const_int(x.ref);
  return value ? Dim(*value * factor) : Dim(x.ref * factor);
}

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
  // The first line stays.
  void used_at(int slot, Line line) {
    std::string& at = list_[static_cast<size_t>(slot)].line;
    if (at.empty()) at = to_text(line);
  }
  Ref output(Bound kind, Tensor x) { return smelt::output(add(kind), x); }
  Segment finish(Refs roots) && { return {sink(std::move(roots)), std::move(list_)}; }

 private:
  std::vector<SlotBinding> list_;
};

// The weights of a segment by name. Their slots come first, in the order of the list.
class Weights {
 public:
  Weights(const GgufFile& file, const std::string& prefix, const std::vector<TensorShape>& shapes,
          Slots& slots, const ModelShape& wanted)
      : slots_(slots) {
    for (const TensorShape& shape : shapes) {
      const GgufTensor* tensor = file.find(prefix + shape.name);
      ENSURE(tensor,
             prefix + shape.name + " is missing: the hyper-parameters are those of another file");
      SlotBinding binding{
          .kind = Bound::Weight, .name = shape.name, .share_of_read = shape.share_of_read};
      if (wanted.interleave > 1 && !shape.rows.empty() && !is_plain(tensor->type)) {
        binding.role = role_of(shape, tensor->type, wanted.quantise);
        binding.layout = layout_of(binding.role, tensor->type, shape.rows.back(), wanted);
      }
      const WeightLayout layout = binding.layout;
      const int slot = slots.add(std::move(binding));
      std::vector<Dim> rows(shape.rows.begin(), shape.rows.end());
      list_.push_back(
          {shape.name, slot, tensor->type, layout,
           raw_weight(slot, tensor->type, std::move(rows), shape.k, shape.name, layout)});
    }
  }

  // x [..., k] times the transposed matrix, and the same with the chosen of a stack of matrices: see product().
  Tensor product(const Activations& x, const std::string& name, Line line = Line::current()) const {
    const AtLine at(line);
    const Entry& w = find(name);
    slots_.used_at(w.slot, line);
    return smelt::product(x, w.raw, w.type, w.layout);
  }
  Tensor product(const Activations& x, const std::string& name, Tensor chosen,
                 Line line = Line::current()) const {
    const AtLine at(line);
    const Entry& w = find(name);
    slots_.used_at(w.slot, line);
    return smelt::product(x, gather(w.raw, chosen), w.type, w.layout);
  }

  // All values: f32 [rows..., k].
  Tensor operator()(const std::string& name, Line line = Line::current()) const {
    const AtLine at(line);
    const Entry& w = find(name);
    return dequantize(w.raw, w.type, w.layout);
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
    GgufType type;
    WeightLayout layout;
    Tensor raw;
  };

  static WeightLayout layout_of(const std::string& role, GgufType type, int64_t rows,
                                const ModelShape& wanted) {
    const auto chosen = wanted.layouts.find(role);
    return chosen != wanted.layouts.end() && fits(chosen->second, type, rows)
               ? chosen->second
               : default_layout(type, rows, wanted.interleave);
  }

  const Entry& find(const std::string& name) const {
    for (const Entry& entry : list_)
      if (entry.name == name) return entry;
    ENSURE(false, name + " is not a tensor of this segment");
  }

  Slots& slots_;
  std::vector<Entry> list_;
};

// What the functions of a block share. T tokens, H heads, L = kv_lora, D = hidden, S positions of
// the context.
struct Block {
  const Hyperparameters& model;
  const ModelShape& shape;
  Slots& slots;
  const Weights& weights;

  // What products multiply weights with, under the policy of the plan.
  Activations activations(Tensor x) const {
    return shape.quantise ? quantise_activations(x) : Activations{x, {}, {}};
  }

  // A few tokens at a time wait for the weights, and matrices that read the same activations share a kernel. Many
  // tokens keep the arithmetic busy, and the sums of a second matrix find no registers: it gets a kernel of its own.
  Tensor apart(Tensor x, Line line = Line::current()) const {
    return const_int(shape.tokens.ref) ? x : place(x, line);
  }

  // The product of a few tokens is as fast as its matrix comes from memory, and processors bring few streams ahead of
  // time. So matrices are read one after the other where each worker can compute for itself what is made of the
  // products.
  Tensor streamed(Tensor x, Line line = Line::current()) const {
    const AtLine at(line);
    const auto tokens = const_int(shape.tokens.ref);
    return tokens && *tokens * x.size(-1) <= model.hidden ? place(x) : x;
  }
};

// Rows of length 1 in the mean of squares.
Tensor normalised(Tensor x, double epsilon, Line line = Line::current()) {
  const AtLine at(line);
  const Tensor mean = sum(x * x, -1) * (1.0 / x.size(-1));
  return x * unsqueeze(scalar(1) / sqrt(mean + epsilon), mean.rank());
}

Tensor rms_norm(Tensor x, Tensor w, double epsilon, Line line = Line::current()) {
  const AtLine at(line);
  return normalised(x, epsilon) * w;
}

// --- positions

struct Positions {
  Tensor of_token;  // i64 [T]
  Tensor row;       // i64 [T]: the cache row of each token
  Tensor context;   // i64 [S]: 0, 1, 2 ...
  Tensor rows;      // i64 [1, S] or [T, S]: their cache rows, in the sequence of a token
  Tensor cos, sin;  // f32 [T, rope / 2]
};

Positions positions(Block& b) {
  const ModelShape& s = b.shape;
  auto i64 = [](Tensor x) { return cast(x, DType::I64); };
  const Dim sequences = s.one_sequence ? Dim(1) : s.tokens;
  const Tensor position = i64(b.slots.input(Bound::Positions, DType::I32, {s.tokens}, "positions"));
  const Tensor table = i64(b.slots.input(Bound::Tables, DType::I32, {sequences}, "tables"));
  const Tensor pages = b.slots.input(Bound::Pages, DType::I32, {s.page_entries}, "pages");
  auto cache_row = [&](Tensor table, Tensor position) {
    return i64(gather(pages, table + position / double(kPageSize))) * double(kPageSize) +
           position % kPageSize;
  };
  const Tensor context = iota({times(s.chunks, kChunkSize)}, 0);
  const std::vector<Dim> table_shape = {s.context, b.model.rope / 2};
  return {
      .of_token = position,
      .row = cache_row(table, position),
      .context = context,
      .rows = cache_row(unsqueeze(table, 1), context),
      .cos = gather(b.slots.input(Bound::RopeCos, DType::F32, table_shape, "cos"), position),
      .sin = gather(b.slots.input(Bound::RopeSin, DType::F32, table_shape, "sin"), position),
  };
}

// Rotates each pair (x[2i], x[2i+1]) by the angle of its position. x [T, heads, rope].
Tensor rotate(Tensor x, const Positions& at) {
  const Tensor pairs = reshape(x, {x.dim(0), x.dim(1), x.size(2) / 2, 2});
  // -1, 1: the second half of a pair is subtracted from the first.
  const Tensor sign = cast(iota({2}, 0), DType::F32) * 2.0 - 1.0;
  // [T, rope / 2] -> [T, 1, rope / 2, 1]
  auto per_pair = [](Tensor table) { return unsqueeze(unsqueeze(table, 1), 3); };
  const Tensor turned = pairs * per_pair(at.cos) + flip(pairs, 3) * (per_pair(at.sin) * sign);
  return reshape(turned, {x.dim(0), x.dim(1), x.dim(2)});
}

// --- latent attention

// [T, H, nope + rope]
Tensor queries(Block& b, const Activations& x) {
  const Hyperparameters& m = b.model;
  Tensor q;
  if (m.q_lora) {
    const Tensor low = b.weights.product(x, "attn_q_a.weight");  // [T, q_lora]
    const Tensor normed = rms_norm(low, b.weights("attn_q_a_norm.weight"), m.epsilon);
    q = b.weights.product(b.activations(normed), "attn_q_b.weight");
  } else {
    q = b.weights.product(x, "attn_q.weight");
  }
  return reshape(q, {b.shape.tokens, m.heads, m.nope + m.rope});
}

// The matrices between latents and heads, as the absorbed form wants them.
struct Latent {
  Tensor keys;    // [H, L, nope]
  Tensor values;  // [H, v_head, L]
};

Latent latent_weights(Block& b) {
  const Hyperparameters& m = b.model;
  if (!m.fused_kv_b) return {b.weights("attn_k_b.weight"), b.weights("attn_v_b.weight")};
  const Tensor both =
      reshape(b.weights("attn_kv_b.weight"), {m.heads, m.nope + m.v_head, m.kv_lora});
  return {permute(slice(both, 1, 0, m.nope), {0, 2, 1}), slice(both, 1, m.nope, m.v_head)};
}

// [T, H, nope] -> [T, H, L] and [T, H, L] -> [T, H, v_head], each head by its own matrix.
Tensor times_keys(Block& b, Tensor x) {
  if (!b.model.fused_kv_b) return b.weights.product(b.activations(x), "attn_k_b.weight");
  return sum(unsqueeze(x, 2) * latent_weights(b).keys, -1);
}
Tensor times_values(Block& b, Tensor x) {
  if (!b.model.fused_kv_b) return b.weights.product(b.activations(x), "attn_v_b.weight");
  return sum(unsqueeze(x, 2) * latent_weights(b).values, -1);
}

// The cache of a layer after this step. Bytes are kept in two orders, see byte_cache.h.
struct Cache {
  Tensor rows;                // cache_type [cache_rows, L + rope]; bytes: a buffer of keys
  Tensor values;              // of bytes: a buffer of the latents
  Tensor scales, key_scales;  // of bytes: f32 [cache_rows, 1]

  Refs written() const {
    if (!scales.ref()) return {rows.ref()};
    return {rows.ref(), values.ref(), scales.ref(), key_scales.ref()};
  }
};

Cache append_bytes(Block& b, Tensor latent, Tensor key, Tensor row) {
  const int64_t n = b.shape.cache_rows, width = b.model.cache_width(), lora = b.model.kv_lora;
  const ByteRows l = to_bytes(latent), k = to_bytes(key);
  const Tensor keys = key_buffer(b.slots.add(Bound::Cache), n, width, "cache");
  const Tensor values = value_buffer(b.slots.add(Bound::CacheValues), n, lora, "values");
  const auto scales = [&](Bound kind, const char* name, const ByteRows& x) {
    return write_rows(b.slots.input(kind, DType::F32, {n, 1}, name), row, 0, unsqueeze(x.scale, 1));
  };
  return {.rows = write_keys(write_keys(keys, row, 0, width, l.q), row, lora, width, k.q),
          .values = write_values(values, row, lora, l.q),
          .scales = scales(Bound::CacheScales, "scales", l),
          .key_scales = scales(Bound::CacheKeyScales, "key scales", k)};
}

// The weight of the latents' norm. It is no part of what the cache holds, but of the queries and of the averages: a
// sum over columns may take it on either side, and rows that a few of its large values do not stretch keep more of
// their bits in halves or bytes.
Tensor latent_scale(Block& b) { return b.weights("attn_kv_a_norm.weight"); }

// Leaves the row of each token in the cache: normalised latent, then rotated key.
Cache append_to_cache(Block& b, const Activations& x, const Positions& at) {
  const Hyperparameters& m = b.model;
  const DType type = b.shape.cache_type;
  const Tensor row = b.weights.product(x, "attn_kv_a_mqa.weight");  // [T, L + rope]
  const Tensor latent = normalised(slice(row, 1, 0, m.kv_lora), m.epsilon);
  const Tensor key = squeeze(rotate(unsqueeze(slice(row, 1, m.kv_lora, m.rope), 1), at), 1);
  if (type == DType::U8) return append_bytes(b, latent, key, at.row);
  const Tensor cache =
      b.slots.input(Bound::Cache, type, {b.shape.cache_rows, m.cache_width()}, "cache");
  const Tensor first = write_rows(cache, at.row, 0, cast(latent, type));
  return {.rows = write_rows(first, at.row, m.kv_lora, cast(key, type)),
          .values = {},
          .scales = {},
          .key_scales = {}};
}

// A part of the cache rows that attention sees.
struct Rows {
  Tensor x;      // f32 [1 or T, S, n]
  Tensor q;      // u8 [1 or T, S, n], q - 128 times
  Tensor scale;  // f32 [1 or T, S]: for bytes
};

// What attention sees of the context: a view of the cache.
struct Context {
  Rows latent;   // n = L
  Rows key;      // n = rope, shared by all heads
  Tensor value;  // i8 [1 or T, S, L]: for bytes, values are these times the scales of the latents
};

Context read_cache(Block& b, const Cache& cache, const Positions& at) {
  const Hyperparameters& m = b.model;
  const auto f32 = [](Tensor x) { return cast(x, DType::F32); };
  if (!cache.scales.ref()) {
    const Tensor rows = f32(gather(cache.rows, at.rows));
    return {
        {slice(rows, -1, 0, m.kv_lora), {}, {}}, {slice(rows, -1, m.kv_lora, m.rope), {}, {}}, {}};
  }
  const Tensor rows = gather(keys_of(cache.rows, m.cache_width()), at.rows);
  const auto part = [&](int64_t begin, int64_t n, Tensor scales) {
    const Tensor q = slice(rows, -1, begin, n);
    const Tensor scale = gather(reshape(scales, {b.shape.cache_rows}), at.rows);
    return Rows{(f32(q) - kKeyZero) * unsqueeze(scale, scale.rank()), q, scale};
  };
  return {part(0, m.kv_lora, cache.scales), part(m.kv_lora, m.rope, cache.key_scales),
          gather(values_of(cache.values, m.kv_lora), at.rows)};
}

// sum over the last axis of x [T, H, n] and y [1 or T, 1 or S..., n]: [T, H, S].
Tensor scores_of(Tensor x, Tensor y) { return sum(unsqueeze(x, 2) * y, -1); }

// The same with rows of the cache. Bytes are multiplied with bytes: each row of x becomes 8-bit integers, too.
Tensor scores_of_rows(Tensor x, const Rows& y) {
  if (!y.q.ref()) return scores_of(x, unsqueeze(y.x, 1));
  const auto i32 = [](Tensor v) { return cast(v, DType::I32); };
  const ByteRows in = to_bytes(x);                     // [T, H, n], [T, H]
  const Tensor zeros = sum(i32(in.q), -1) * kKeyZero;  // [T, H]
  const Tensor products = sum(i32(unsqueeze(in.q, 2)) * i32(unsqueeze(y.q, 1)), -1);
  return cast(products - unsqueeze(zeros, 2), DType::F32) * unsqueeze(in.scale, 2) *
         unsqueeze(y.scale, 1);
}

// The mean of the latents, weighted by exp(score). score [T, H, S] -> [T, H, L]
Tensor average_of_latents(Tensor score, const Context& context) {
  const Tensor scores = unsqueeze(score, 3);
  if (!context.value.ref()) return softmax_average(scores, unsqueeze(context.latent.x, 1), 2);
  const Tensor scale = unsqueeze(unsqueeze(context.latent.scale, 1), 3);  // [1 or T, 1, S, 1]
  return softmax_average_of_bytes(scores, unsqueeze(context.value, 1), scale, 2);
}

// Positions above a token's own do not count. score [T, H, S].
Tensor causal(Tensor score, const Positions& at) {
  const Tensor later = less(unsqueeze(at.of_token, 1), unsqueeze(at.context, 0));  // [T, S]
  return where(unsqueeze(later, 1), scalar(std::numeric_limits<float>::lowest()), score);
}

// Queries move into the latent space; all heads share the cache row as key and its latent as value.
// -> [T, H, v_head]
Tensor absorbed_attention(Block& b, Tensor q_nope, Tensor q_rope, const Context& context,
                          const Positions& at) {
  const Tensor q_latent = times_keys(b, q_nope) * latent_scale(b);  // [T, H, L]
  const Tensor score =
      scores_of_rows(q_latent, context.latent) + scores_of_rows(q_rope, context.key);  // [T, H, S]
  const Tensor masked = causal(score * b.model.softmax_scale, at);
  return times_values(b, average_of_latents(masked, context) * latent_scale(b));
}

// Every head has its own keys and values, computed from the latents. -> [T, H, v_head]
Tensor expanded_attention(Block& b, Tensor q_nope, Tensor q_rope, const Context& context,
                          const Positions& at) {
  const Latent w = latent_weights(b);
  const Tensor latent =
      unsqueeze(unsqueeze(context.latent.x * latent_scale(b), 1), 3);  // [1 or T, 1, S, 1, L]
  const Tensor keys =
      sum(latent * unsqueeze(permute(w.keys, {0, 2, 1}), 1), -1);  // [1 or T, H, S, nope]
  const Tensor values = sum(latent * unsqueeze(w.values, 1), -1);  // [1 or T, H, S, v_head]
  const Tensor score = scores_of(q_nope, keys) + scores_of_rows(q_rope, context.key);  // [T, H, S]
  const Tensor masked = causal(score * b.model.softmax_scale, at);
  return softmax_average(unsqueeze(masked, 3), values, 2);
}

struct Attended {
  Tensor out;   // [T, D]
  Cache cache;  // with the rows of this step
};

Attended attention(Block& b, Tensor normed) {
  const Hyperparameters& m = b.model;
  const Activations x = b.activations(normed);
  const Positions at = positions(b);
  const Tensor q = queries(b, x);
  const Tensor q_nope = slice(q, 2, 0, m.nope);
  const Tensor q_rope = rotate(slice(q, 2, m.nope, m.rope), at);
  const Cache cache = append_to_cache(b, x, at);
  const Context context = read_cache(b, cache, at);
  const Tensor heads = b.shape.expand_attention
                           ? expanded_attention(b, q_nope, q_rope, context, at)
                           : absorbed_attention(b, q_nope, q_rope, context, at);
  const Tensor row = reshape(heads, {b.shape.tokens, m.heads * m.v_head});
  return {b.weights.product(b.activations(row), "attn_output.weight"), cache};
}

// --- feed-forward

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

Tensor feed_forward(Block& b, Tensor normed, bool is_moe) {
  const Activations x = b.activations(normed);
  if (!is_moe) return gated_network(b, x, ".weight");
  const Tensor routed = experts(b, x, route(b, normed));
  if (!b.model.shared_width) return routed;
  return routed + b.streamed(gated_network(b, x, "_shexp.weight"));
}

}  // namespace

Segment embed_segment(const GgufFile& file, const Hyperparameters& model, const ModelShape& shape) {
  Slots slots;
  const Weights weights(file, "", {embedding_tensor(model)}, slots, {});  // rows are looked up
  const Tensor tokens = slots.input(Bound::Tokens, DType::I32, {shape.tokens}, "tokens");
  const Tensor rows = weights.rows("token_embd.weight", tokens);  // [T, D]
  const Ref out = slots.output(Bound::HiddenOut, rows);
  return std::move(slots).finish({out});
}

Segment block_segment(const GgufFile& file, const Hyperparameters& model, const ModelShape& shape,
                      int64_t layer) {
  Slots slots;
  const Weights weights(file, layer_prefix(layer), layer_tensors(model, layer), slots, shape);
  Block b{model, shape, slots, weights};
  auto norm = [&](Tensor x, const char* name) { return rms_norm(x, weights(name), model.epsilon); };

  const Tensor x =
      slots.input(Bound::HiddenIn, DType::F32, {shape.tokens, model.hidden}, "hidden");  // [T, D]
  const Attended attended = attention(b, norm(x, "attn_norm.weight"));
  const Tensor h = x + attended.out;
  const Tensor y = h + feed_forward(b, norm(h, "ffn_norm.weight"), model.is_moe(layer));
  const Ref out = slots.output(Bound::HiddenOut, y);
  Refs roots{out};
  for (Ref written : attended.cache.written()) roots.push_back(written);
  return std::move(slots).finish(std::move(roots));
}

Segment head_segment(const GgufFile& file, const Hyperparameters& model, const ModelShape& shape) {
  Slots slots;
  const Weights weights(file, "", head_tensors(model), slots, shape);
  const Tensor hidden =
      slots.input(Bound::HiddenIn, DType::F32, {shape.tokens, model.hidden}, "hidden");
  const Tensor wanted = slots.input(Bound::Rows, DType::I32, {shape.rows}, "rows");
  const Tensor x =
      rms_norm(gather(hidden, wanted), weights("output_norm.weight"), model.epsilon);  // [R, D]
  const Activations in = shape.quantise ? quantise_activations(x) : Activations{x, {}, {}};
  const Tensor logits = weights.product(in, head_tensors(model).back().name);
  const Ref out = slots.output(Bound::Logits, logits);
  return std::move(slots).finish({out});
}

bool expanding_is_cheaper(const Hyperparameters& m, int64_t tokens, int64_t keys) {
  const double absorbed = double(tokens) * double(keys) * double(2 * m.kv_lora + m.rope) +
                          double(tokens) * double(m.kv_lora) * double(m.nope + m.v_head);
  const double expanded = double(tokens) * double(keys) * double(m.nope + m.rope + m.v_head) +
                          double(keys) * double(m.kv_lora) * double(m.nope + m.v_head);
  return expanded < absorbed;
}

}  // namespace smelt
