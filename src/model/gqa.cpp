#include "model/gqa.h"

#include <cmath>

#include "model/byte_cache.h"
#include "model/sinks.h"

namespace smelt {
namespace {

// Parts of the cache: a row holds the heads one after another. Bytes lie in the orders of byte_cache.h, with a scale
// for the row of each head.
constexpr char kKeys[] = "cache keys", kValues[] = "cache values", kKeyScales[] = "cache key scales",
               kValueScales[] = "cache value scales";

constexpr char kTemperature[] = "temperature";  // a table by position

// x times a matrix of heads, with its bias: [T, heads, width].
Tensor heads_of(Block& b, const Activations& x, const std::string& name, bool has_bias, int64_t heads, int64_t width) {
  const Tensor product = b.weights.product(x, name + ".weight");
  return reshape(has_bias ? product + b.weights(name + ".bias") : product, {b.shape.tokens, heads, width});
}

// Rows from `begin` on of the product with a matrix of all heads, [T, rows]: [T, heads, width].
Tensor heads_within(const Block& b, Tensor product, int64_t begin, int64_t heads, int64_t width) {
  return reshape(slice(product, 1, begin, heads * width), {b.shape.tokens, heads, width});
}

// Queries, keys and values before norms and rotation.
struct Projected {
  Tensor q, key, value;  // [T, H or KV, n]
  Tensor gate;           // [T, H, n], where there are gates
};

// Queries and, behind each, its gate.
Projected project_gated(Block& b, const GqaParameters& m, const Activations& x) {
  const Tensor both = heads_of(b, x, "attn_q", m.has_bias, m.heads, 2 * m.key_width);
  return {
      .q = slice(both, 2, 0, m.key_width), .key = {}, .value = {}, .gate = slice(both, 2, m.key_width, m.key_width)};
}

Projected project(Block& b, const GqaParameters& m, const Activations& x) {
  const int64_t q_rows = m.heads * m.key_width, key_rows = m.kv_heads * m.key_width;
  if (m.is_fused) {
    const Tensor all = place(b.weights.product(x, "attn_qkv.weight"));
    return {heads_within(b, all, 0, m.heads, m.key_width),
            heads_within(b, all, q_rows, m.kv_heads, m.key_width),
            heads_within(b, all, q_rows + key_rows, m.kv_heads, m.value_width),
            {}};
  }
  const auto heads = [&](const char* name, int64_t n, int64_t width) {
    return heads_of(b, x, name, m.has_bias, n, width);
  };
  Projected out;
  if (m.is_gated)
    out = project_gated(b, m, x);
  else
    out.q = heads("attn_q", m.heads, m.key_width);
  out.key = heads("attn_k", m.kv_heads, m.key_width);
  out.value = heads("attn_v", m.kv_heads, m.value_width);
  return out;
}

// Queries or keys: normalised where the model does so, then rotated.
Tensor placed(Block& b, const GqaParameters& m, Tensor heads, const std::string& norm, const Positions& at) {
  const auto normed = [&] {
    if (!m.norms_span_heads) return rms_norm(heads, b.weights(norm), b.model.epsilon);
    const Tensor row = reshape(heads, {heads.dim(0), heads.size(1) * heads.size(2)});
    return reshape(rms_norm(row, b.weights(norm), b.model.epsilon), {heads.dim(0), heads.dim(1), heads.dim(2)});
  };
  const Tensor x = m.has_norms ? normed() : heads;
  return rotate(x, at.angles, m.split() ? RopeOrder::Halves : m.order, m.rope.width);
}

// Queries [T, H, n] at their temperature.
Tensor warmed(Block& b, const GqaParameters& m, Tensor q, const Positions& at) {
  if (m.temperature == 0) return q;
  const int slot = b.slots.add({.kind = Bound::PositionTable, .name = kTemperature});
  const Tensor of_position = gather(given_param(slot, DType::F32, {b.shape.context, 1}, kTemperature), at.of_token);
  return q * (unsqueeze(of_position, 2) + 1.0);
}

// What attention sees of keys or values: f32 [T, KV, S, n], and for bytes what these were made of.
struct Heads {
  Tensor x;
  Tensor q;      // keys: u8, 128 stands for 0; values: i8
  Tensor scale;  // f32 [T, KV, S]
};

struct Context {
  Refs written;  // the parts of the cache
  Heads keys, values;
};

// Rows of a part of the cache [rows, KV n]: [T, KV, S, n].
Tensor seen(Tensor cache, const Positions& at, int64_t kv_heads) {
  const Tensor rows = gather(cache, at.rows);
  return permute(reshape(rows, {rows.dim(0), rows.dim(1), kv_heads, rows.size(2) / kv_heads}), {0, 2, 1, 3});
}

// Leaves keys and values [T, KV, n] in the cache.
Context append_floats(Block& b, const GqaParameters& m, Tensor key, Tensor value, const Positions& at) {
  const DType type = b.shape.cache_type;
  Context context;
  const auto append = [&](const char* name, Tensor x) {
    const int64_t width = m.kv_heads * x.size(2);
    const Tensor row = cast(reshape(x, {b.shape.tokens, width}), type);
    const Tensor cache = write_rows(cache_part(b, at, name, type, width), at.row, 0, row);
    context.written.push_back(cache.ref());
    return Heads{cast(seen(cache, at, m.kv_heads), DType::F32), {}, {}};
  };
  context.keys = append(kKeys, key);
  context.values = append(kValues, value);
  return context;
}

Context append_bytes(Block& b, const GqaParameters& m, Tensor key, Tensor value, const Positions& at) {
  const int64_t n = at.cache_rows, keys_wide = m.kv_heads * m.key_width, values_wide = m.kv_heads * m.value_width;
  const CacheOrder order = b.cache_order(m.heads_per_key(), {m.key_width, m.value_width});
  const ByteRows k = to_bytes(key), v = to_bytes(value);
  Context context;
  const auto part = [&](const char* name) { return b.slots.add({.kind = Bound::Cache, .name = name}); };
  const auto flat = [&](Tensor x, int64_t width) { return reshape(x, {b.shape.tokens, width}); };
  const auto written = [&](Tensor cache) {
    context.written.push_back(cache.ref());
    return cache;
  };
  const auto scales = [&](const char* name, const ByteRows& x) {  // [T, KV, S]
    const Tensor cache = written(write_scales(scale_buffer(part(name), n, m.kv_heads, name), at.row, x.scale));
    return permute(gather(scales_of(cache, m.kv_heads), at.rows), {0, 2, 1});
  };
  const Tensor keys = written(
      write_keys(key_buffer(part(kKeys), n, keys_wide, kKeys), at.row, 0, keys_wide, flat(k.q, keys_wide), order));
  const Tensor values = written(write_values(value_buffer(part(kValues), n, values_wide, kValues), at.row, values_wide,
                                             flat(v.q, values_wide), order));
  context.keys = {{}, seen(keys_of(keys, keys_wide, order), at, m.kv_heads), scales(kKeyScales, k)};
  context.values = {{}, seen(values_of(values, values_wide, order), at, m.kv_heads), scales(kValueScales, v)};
  return context;
}

// q [T, KV, G, n] -> [T, KV, G, S]
Tensor scores_of(Block& b, Tensor q, const Heads& keys) {
  if (keys.x.ref()) return sum(unsqueeze(q, 3) * unsqueeze(keys.x, 2), -1);
  return scores_of_bytes(b, q, unsqueeze(keys.q, 2), unsqueeze(keys.scale, 2));
}

// The mean of the values, weighted by exp(score). score [T, KV, G, S] -> [T, KV, G, n]
Tensor average_of(const Block& b, int64_t heads, Tensor score, const Heads& values) {
  const Tensor scores = unsqueeze(score, 4);
  if (values.x.ref()) return softmax_average(scores, unsqueeze(values.x, 2), 3);
  const Tensor scale = unsqueeze(unsqueeze(values.scale, 2), 4);  // [T, KV, 1, S, 1]
  return softmax_average_of_bytes(scores, unsqueeze(values.q, 2), scale, 3, b.weighted_bytes(heads));
}

// [1, KV, G, 1]: one for each head.
Tensor sinks_of(const Block& b, const GqaParameters& m) {
  return reshape(b.weights("attn_sinks.weight"), {1, m.kv_heads, m.heads_per_key(), 1});
}

double usual_scale(const GqaParameters& m) {
  return m.rope.attention_scale() / std::sqrt(static_cast<double>(m.key_width));
}

void check_rotated_part(Keys& keys, const GqaParameters& m) {
  if (m.rope.width > m.key_width)
    keys.refuse("rope.dimension_count", std::to_string(m.rope.width) + " of the " + std::to_string(m.key_width) +
                                            " values of a head; there cannot be more than all of them");
}

}  // namespace

int GqaParameters::split() const {
  const bool is_apart = !is_fused && !is_gated && key_width % rope.width == 0;
  return order == RopeOrder::Pairs && is_apart ? static_cast<int>(rope.width) : 0;
}

GqaParameters read_gqa(Keys& keys, const Hyperparameters& model, const GqaTraits& traits) {
  GqaParameters m{.heads = keys.integer("attention.head_count", 1, kMostHeads)};
  m.kv_heads = keys.integer_or("attention.head_count_kv", m.heads, 1, kMostHeads);
  if (m.heads % m.kv_heads != 0)
    keys.refuse("attention.head_count_kv",
                std::to_string(m.kv_heads) + " does not divide " + std::to_string(m.heads) + " heads");
  const auto width = [&](const char* key) {
    const int64_t n = keys.integer_or(key, std::max<int64_t>(1, model.hidden / m.heads), 1, kMostWidth);
    if (n % 4 != 0) keys.refuse(key, std::to_string(n) + " is no multiple of 4");
    return n;
  };
  m.key_width = width("attention.key_length");
  m.value_width = width("attention.value_length");
  m.order = traits.order;
  m.rope = read_rope(keys, read_rope_width(keys, m.key_width), model.context);
  check_rotated_part(keys, m);
  const auto has = [&](const char* tensor) { return keys.file().find(layer_prefix(0) + tensor) != nullptr; };
  m.is_fused = traits.is_fused;
  m.is_gated = traits.is_gated;
  if (m.is_gated && m.value_width != m.key_width)
    keys.refuse("attention.value_length", std::to_string(m.value_width) + " where heads with a gate have " +
                                              std::to_string(m.key_width) + " values (attention.key_length)");
  m.has_bias = traits.needs_bias || has("attn_q.bias");
  m.has_norms = traits.needs_norms || has("attn_q_norm.weight");
  m.has_sinks = m.has_output_bias = traits.needs_sinks;
  m.norms_span_heads = traits.norms_span_heads;
  m.softmax_scale = keys.real_or("attention.scale", 0, 0, 1e6);  // 0: the usual one
  if (m.softmax_scale == 0) m.softmax_scale = usual_scale(m);
  return m;
}

void write_gqa(KeyWriter& out, const GqaParameters& m) {
  out.number("attention.head_count", m.heads);
  out.number("attention.head_count_kv", m.kv_heads);
  out.number("attention.key_length", m.key_width);
  out.number("attention.value_length", m.value_width);
  if (m.softmax_scale != 0 && m.softmax_scale != usual_scale(m)) out.real("attention.scale", m.softmax_scale);
  if (m.temperature != 0) out.real("attention.temperature_scale", m.temperature);
  write_rope(out, m.rope);
}

std::vector<TensorShape> gqa_tensors(const GqaParameters& m, int64_t hidden) {
  std::vector<TensorShape> list;
  const auto add = [&](const std::string& name, int64_t rows, int split = 0) {
    list.push_back({.name = name + ".weight", .rows = {rows}, .k = hidden, .split = split});
    if (m.has_bias) list.push_back({.name = name + ".bias", .k = rows, .split = split});
  };
  const auto add_norm = [&](const std::string& name, int64_t heads) {
    const int64_t k = m.key_width * (m.norms_span_heads ? heads : 1);
    if (m.has_norms) list.push_back({.name = name + ".weight", .k = k, .split = m.split()});
  };
  const int64_t q_rows = m.heads * m.key_width, key_rows = m.kv_heads * m.key_width,
                value_rows = m.kv_heads * m.value_width;
  if (m.is_fused) {
    add("attn_qkv", q_rows + key_rows + value_rows);
  } else {
    add("attn_q", m.is_gated ? 2 * q_rows : q_rows, m.split());
    add("attn_k", key_rows, m.split());
    add("attn_v", value_rows);
  }
  add_norm("attn_q_norm", m.heads);
  add_norm("attn_k_norm", m.kv_heads);
  if (m.has_sinks) list.push_back({"attn_sinks.weight", {}, m.heads});
  list.push_back({"attn_output.weight", {hidden}, m.heads * m.value_width});
  if (m.has_output_bias) list.push_back({"attn_output.bias", {}, hidden});
  return list;
}

std::vector<PositionTable> gqa_tables(const GqaParameters& m) {
  std::vector<PositionTable> tables = rope_tables(m.rope, m.key_width, m.tables);
  constexpr double kRounding = 1e-9;  // of p / span, where that is a whole number
  if (m.temperature != 0)
    tables.push_back({.name = kTemperature,
                      .width = 1,
                      .frequencies = {1 / static_cast<double>(m.temperature_span)},
                      .magnitude = m.temperature,
                      .rotated = 1,
                      .curve = [](double spans) { return std::log1p(std::floor(spans + kRounding)); }});
  return tables;
}

std::vector<CachePart> gqa_cache(const GqaParameters& m, DType type) {
  const int64_t keys = m.kv_heads * m.key_width, values = m.kv_heads * m.value_width;
  const int64_t scales = m.kv_heads * static_cast<int64_t>(sizeof(float));
  if (type != DType::U8) return {{kKeys, keys * size_of(type)}, {kValues, values * size_of(type)}};
  return {{kKeys, keys, 0}, {kValues, values, 0}, {kKeyScales, scales, m.kv_heads}, {kValueScales, scales, m.kv_heads}};
}

Attended grouped_query_attention(Block& b, const GqaParameters& m, Tensor normed) {
  const Activations x = b.activations(normed);
  const Positions at = positions(b, m.key_width, m.tables, m.window);
  const Projected in = project(b, m, x);
  const Tensor q = warmed(b, m, placed(b, m, in.q, "attn_q_norm.weight", at), at);
  const Tensor key = placed(b, m, in.key, "attn_k_norm.weight", at), value = in.value;
  const bool bytes = b.shape.cache_type == DType::U8;
  const Context context = bytes ? append_bytes(b, m, key, value, at) : append_floats(b, m, key, value, at);
  const Tensor grouped = reshape(q, {b.shape.tokens, m.kv_heads, m.heads_per_key(), m.key_width});
  const Tensor score = causal(scores_of(b, grouped, context.keys) * m.softmax_scale, at);
  Tensor average = average_of(b, m.heads_per_key(), score, context.values);
  if (m.has_sinks) average = with_sinks(average, score, sinks_of(b, m));
  average = b.averaged(slice(average, 2, 0, m.heads_per_key()));
  Tensor row = reshape(average, {b.shape.tokens, m.heads * m.value_width});
  if (m.is_gated) row = row * sigmoid(reshape(in.gate, {b.shape.tokens, m.heads * m.value_width}));
  const Tensor out = b.weights.product(b.activations(row), "attn_output.weight");
  return {m.has_output_bias ? out + b.weights("attn_output.bias") : out, context.written};
}

}  // namespace smelt
