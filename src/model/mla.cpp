#include "model/mla.h"

#include <cmath>

#include "graph/operands.h"
#include "model/byte_cache.h"

namespace smelt {
namespace {

// Parts of the cache; bytes are kept in two orders, see byte_cache.h.
constexpr char kRows[] = "cache",       // latent and key; bytes: in the order of keys
    kValues[] = "cache values",         // of bytes: the latents in the order of values
    kScales[] = "cache scales",         // of bytes: of the latents, f32
    kKeyScales[] = "cache key scales";  // of bytes: of the keys, f32

// [T, H, nope + rope]
Tensor queries(Block& b, const MlaParameters& m, const Activations& x) {
  Tensor q;
  if (m.q_lora) {
    const Tensor low = b.weights.product(x, "attn_q_a.weight");  // [T, q_lora]
    const Tensor normed = rms_norm(low, b.weights("attn_q_a_norm.weight"), b.model.epsilon);
    q = b.weights.product(b.activations(normed), "attn_q_b.weight");
  } else {
    q = b.weights.product(x, "attn_q.weight");
  }
  return reshape(b.shape.halves ? b.kept(q) : q, {b.shape.tokens, m.heads, m.key_width()});
}

// A part of what is left of heads. Where readers add up parts of sums, each of them has its own.
Tensor part_of_heads(Tensor q, int64_t begin, int64_t n) {
  const Ref row = q.ref()->op == Op::Reshape ? operand_of(q.ref()) : q.ref();
  if (row->op != Op::ReduceSum || operand_of(row)->op != Op::Place) return slice(q, 2, begin, n);
  const Tensor parts(operand_of(row));
  return sum(slice(reshape(parts, {parts.dim(0), q.dim(0), q.dim(1), q.dim(2)}), 3, begin, n), 0);
}

// The matrices between latents and heads, as the absorbed form wants them.
struct Latent {
  Tensor keys;    // [H, L, nope]
  Tensor values;  // [H, v_head, L]
};

Latent latent_weights(Block& b, const MlaParameters& m) {
  if (!m.fused_kv_b) return {b.weights("attn_k_b.weight"), b.weights("attn_v_b.weight")};
  const Tensor both = reshape(b.weights("attn_kv_b.weight"), {m.heads, m.nope + m.v_head, m.kv_lora});
  return {permute(slice(both, 1, 0, m.nope), {0, 2, 1}), slice(both, 1, m.nope, m.v_head)};
}

// Of the first elements of heads. Where whole heads have the same blocks, these are made: tasks that make heads can go
// on with them. q [T, H, nope + rope]
Activations activations_of_nope(Block& b, const MlaParameters& m, Tensor q) {
  const int64_t most = b.blocks().most, block = activation_block(m.nope, most);
  const bool has_same = block != 0 && block == activation_block(m.key_width(), most);
  return has_same && b.shape.quantise && !b.shape.many_tokens && !b.has_halves()
             ? first_of(b.activations(q), m.nope)
             : b.activations(part_of_heads(q, 0, m.nope));
}

// [T, H, nope + rope] -> [T, H, L] and [T, H, L] -> [T, H, v_head], each head by its own matrix.
Tensor times_keys(Block& b, const MlaParameters& m, Tensor q) {
  if (!m.fused_kv_b) return b.weights.product(activations_of_nope(b, m, q), "attn_k_b.weight");
  return sum(unsqueeze(slice(q, 2, 0, m.nope), 2) * latent_weights(b, m).keys, -1);
}
Tensor times_values(Block& b, const MlaParameters& m, Tensor x) {
  if (!m.fused_kv_b) return b.weights.product(b.activations(x), "attn_v_b.weight");
  return sum(unsqueeze(x, 2) * latent_weights(b, m).values, -1);
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

CacheOrder cache_order(const Block& b, const MlaParameters& m) {
  return b.cache_order(m.heads, {m.kv_lora, m.rope.width});
}

Cache append_bytes(Block& b, const MlaParameters& m, Tensor latent, Tensor key, const Positions& at) {
  const int64_t n = at.cache_rows, width = m.cache_width(), lora = m.kv_lora;
  const ByteRows l = to_bytes(latent), k = to_bytes(key);
  const auto part = [&](const char* name) { return b.slots.add({.kind = Bound::Cache, .name = name}); };
  const Tensor keys = key_buffer(part(kRows), n, width, "cache");
  const Tensor values = value_buffer(part(kValues), n, lora, "values");
  const auto scales = [&](const char* name, const ByteRows& x) {
    return write_rows(cache_part(b, at, name, DType::F32, 1), at.row, 0, unsqueeze(x.scale, 1));
  };
  const CacheOrder order = cache_order(b, m);
  return {.rows = write_keys(write_keys(keys, at.row, 0, width, l.q, order), at.row, lora, width, k.q, order),
          .values = write_values(values, at.row, lora, l.q, order),
          .scales = scales(kScales, l),
          .key_scales = scales(kKeyScales, k)};
}

// The weight of the latents' norm. It is no part of what the cache holds, but of the queries and of the averages: a
// sum over columns may take it on either side, and rows that a few of its large values do not stretch keep more of
// their bits in halves or bytes.
Tensor latent_scale(Block& b) { return b.weights("attn_kv_a_norm.weight"); }

// Leaves the row of each token in the cache: normalised latent, then rotated key.
Cache append_to_cache(Block& b, const MlaParameters& m, const Activations& x, const Positions& at) {
  const DType type = b.shape.cache_type;
  const Tensor row = b.weights.product(x, "attn_kv_a_mqa.weight");  // [T, L + rope]
  const Tensor latent = normalised(slice(row, 1, 0, m.kv_lora), b.model.epsilon);
  const Tensor key =
      squeeze(rotate(unsqueeze(slice(row, 1, m.kv_lora, m.rope.width), 1), at.angles, RopeOrder::Pairs), 1);
  if (type == DType::U8) return append_bytes(b, m, latent, key, at);
  const Tensor cache = cache_part(b, at, kRows, type, m.cache_width());
  const Tensor first = write_rows(cache, at.row, 0, cast(latent, type));
  return {.rows = write_rows(first, at.row, m.kv_lora, cast(key, type)), .values = {}, .scales = {}, .key_scales = {}};
}

// A part of the cache rows that attention sees.
struct Rows {
  Tensor x;      // f32 [T, S, n]
  Tensor q;      // u8 [T, S, n], q - 128 times
  Tensor scale;  // f32 [T, S]: for bytes
};

// What attention sees of the context: a view of the cache.
struct Context {
  Rows latent;   // n = L
  Rows key;      // n = rope, shared by all heads
  Tensor value;  // i8 [T, S, L]: for bytes, values are these times the scales of the latents
};

Context read_cache(const Block& b, const MlaParameters& m, const Cache& cache, const Positions& at) {
  const auto f32 = [](Tensor x) { return cast(x, DType::F32); };
  if (!cache.scales.ref()) {
    const Tensor rows = f32(gather(cache.rows, at.rows));
    return {{slice(rows, -1, 0, m.kv_lora), {}, {}}, {slice(rows, -1, m.kv_lora, m.rope.width), {}, {}}, {}};
  }
  const CacheOrder order = cache_order(b, m);
  const Tensor rows = gather(keys_of(cache.rows, m.cache_width(), order), at.rows);
  const auto part = [&](int64_t begin, int64_t n, Tensor scales) {
    const Tensor q = slice(rows, -1, begin, n);
    const Tensor scale = gather(reshape(scales, {at.cache_rows}), at.rows);
    return Rows{(f32(q) - kKeyZero) * unsqueeze(scale, scale.rank()), q, scale};
  };
  return {part(0, m.kv_lora, cache.scales), part(m.kv_lora, m.rope.width, cache.key_scales),
          gather(values_of(cache.values, m.kv_lora, order), at.rows)};
}

// x [T, H, n] over rows of the cache: [T, H, S].
Tensor scores_of(Block& b, Tensor x, const Rows& y) {
  if (!y.q.ref()) return sum(unsqueeze(x, 2) * unsqueeze(y.x, 1), -1);
  return scores_of_bytes(b, x, unsqueeze(y.q, 1), unsqueeze(y.scale, 1));
}

// The mean of the latents, weighted by exp(score). score [T, H, S] -> [T, H, L]
Tensor average_of_latents(const Block& b, int64_t heads, Tensor score, const Context& context) {
  const Tensor scores = unsqueeze(score, 3);
  if (!context.value.ref()) return softmax_average(scores, unsqueeze(context.latent.x, 1), 2);
  const Tensor scale = unsqueeze(unsqueeze(context.latent.scale, 1), 3);  // [T, 1, S, 1]
  return softmax_average_of_bytes(scores, unsqueeze(context.value, 1), scale, 2, b.weighted_bytes(heads));
}

// Queries move into the latent space; all heads share the cache row as key and its latent as value.
// -> [T, H, v_head]
Tensor absorbed_attention(Block& b, const MlaParameters& m, Tensor q, Tensor q_rope, const Context& context,
                          const Positions& at) {
  const Tensor product = times_keys(b, m, q) * latent_scale(b);
  const Tensor q_latent = b.attends_by_halves(m.heads) ? product : b.by_unit(product);              // [T, H, L]
  const Tensor score = scores_of(b, q_latent, context.latent) + scores_of(b, q_rope, context.key);  // [T, H, S]
  const Tensor masked = causal(score * m.softmax_scale, at);
  const Tensor average = slice(average_of_latents(b, m.heads, masked, context), 1, 0, m.heads);
  return times_values(b, m, b.averaged(average * latent_scale(b)));
}

}  // namespace

MlaParameters read_mla(Keys& keys, int64_t context, bool swaps_widths) {
  MlaParameters m{.heads = keys.integer("attention.head_count", 1, kMostHeads)};
  const int64_t kv_heads = keys.integer_or("attention.head_count_kv", 1, 1, kMostHeads);
  if (kv_heads != 1 && kv_heads != m.heads)
    keys.refuse("attention.head_count_kv",
                std::to_string(kv_heads) + " is neither 1 nor the number of heads, " + std::to_string(m.heads));
  m.q_lora = keys.integer_or("attention.q_lora_rank", 0, 0, kMostWidth);
  m.kv_lora = keys.integer("attention.kv_lora_rank", 1, kMostWidth);
  m.fused_kv_b = !keys.file().find("blk.0.attn_k_b.weight") && keys.file().find("blk.0.attn_kv_b.weight");
  m.rope = read_rope(keys, read_rope_width(keys), context);

  // Widths of a head. key_length is the cache row's where the _mla keys are present, except in files that swap the two;
  // older files have no _mla keys.
  std::string_view key = "attention.key_length", value = "attention.value_length";
  const bool has_both = keys.has("attention.key_length_mla");
  const bool is_swapped =
      has_both && swaps_widths && keys.integer("attention.key_length_mla", 1, kMostWidth) == m.cache_width();
  if (has_both && !is_swapped) key = "attention.key_length_mla";
  if (keys.has("attention.value_length_mla") && !is_swapped) value = "attention.value_length_mla";
  const int64_t head_width = keys.integer(key, 1, kMostWidth);
  m.v_head = keys.integer(value, 1, kMostWidth);
  m.nope = head_width - m.rope.width;
  if (m.nope < 1)
    keys.refuse(key, std::to_string(head_width) + " leaves nothing beside " + keys.name("rope.dimension_count") + " " +
                         std::to_string(m.rope.width));
  m.softmax_scale = m.rope.attention_scale() / std::sqrt(static_cast<double>(m.key_width()));
  return m;
}

void write_mla(KeyWriter& out, const MlaParameters& m) {
  out.number("attention.head_count", m.heads);
  out.number("attention.head_count_kv", 1);
  if (m.q_lora) out.number("attention.q_lora_rank", m.q_lora);
  out.number("attention.kv_lora_rank", m.kv_lora);
  out.number("attention.key_length", m.cache_width());
  out.number("attention.value_length", m.kv_lora);
  out.number("attention.key_length_mla", m.key_width());
  out.number("attention.value_length_mla", m.v_head);
  write_rope(out, m.rope);
}

std::vector<TensorShape> mla_tensors(const MlaParameters& m, int64_t hidden) {
  std::vector<TensorShape> list;
  auto add = [&](const char* name, std::vector<int64_t> rows, int64_t k) {
    list.push_back({name, std::move(rows), k});
  };
  const int64_t queries = m.heads * m.key_width();
  if (m.q_lora) {
    add("attn_q_a.weight", {m.q_lora}, hidden);
    add("attn_q_a_norm.weight", {}, m.q_lora);
    add("attn_q_b.weight", {queries}, m.q_lora);
  } else {
    add("attn_q.weight", {queries}, hidden);
  }
  add("attn_kv_a_mqa.weight", {m.cache_width()}, hidden);
  add("attn_kv_a_norm.weight", {}, m.kv_lora);
  if (m.fused_kv_b) {
    add("attn_kv_b.weight", {m.heads * (m.nope + m.v_head)}, m.kv_lora);
  } else {
    add("attn_k_b.weight", {m.heads, m.kv_lora}, m.nope);
    add("attn_v_b.weight", {m.heads, m.v_head}, m.kv_lora);
  }
  add("attn_output.weight", {hidden}, m.heads * m.v_head);
  return list;
}

std::vector<CachePart> mla_cache(const MlaParameters& m, DType type) {
  if (type != DType::U8) return {{kRows, m.cache_width() * size_of(type)}};
  const auto scale = static_cast<int64_t>(sizeof(float));
  return {{kRows, m.cache_width(), 0}, {kValues, m.kv_lora, 0}, {kScales, scale}, {kKeyScales, scale}};
}

Attended latent_attention(Block& b, const MlaParameters& m, Tensor normed) {
  const Activations x = b.activations(normed);
  const Positions at = positions(b, m.rope.width);
  const Tensor q = queries(b, m, x);
  const Tensor q_rope = rotate(part_of_heads(q, m.nope, m.rope.width), at.angles, RopeOrder::Pairs);
  const Cache cache = append_to_cache(b, m, x, at);
  const Context context = read_cache(b, m, cache, at);
  const Tensor heads = absorbed_attention(b, m, q, q_rope, context, at);
  const Tensor row = reshape(heads, {b.shape.tokens, m.heads * m.v_head});
  return {b.weights.product(b.activations(row), "attn_output.weight"), cache.written()};
}

}  // namespace smelt
