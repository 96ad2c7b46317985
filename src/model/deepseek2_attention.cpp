#include "model/deepseek2_attention.h"

#include <limits>

#include "model/byte_cache.h"

namespace smelt::deepseek2 {
namespace {

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

}  // namespace

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
  return {b.weights.product(b.activations(row), "attn_output.weight"), cache.written()};
}

}  // namespace smelt::deepseek2
