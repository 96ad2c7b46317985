#include "safetensors/tensor_rows.h"

#include <cmath>
#include <cstring>

#include "graph/scalar_math.h"

namespace smelt {
namespace {

// All elements of these types have whole bytes.
size_t bytes_of_element(GgufType type) { return info_of(type).bytes; }

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  text.replace(text.find(from), from.size(), to);
  return text;
}

std::string sizes(const std::vector<uint64_t>& dims) {
  std::string text;
  for (size_t i = dims.size(); i-- > 0;) text += (text.empty() ? "[" : ", ") + std::to_string(dims[i]);
  return text + "]";
}

// Places of `head_bytes` for each value head, from `begin` on.
void take_turns(std::string& bytes, uint64_t begin, uint64_t head_bytes, const NetHeads& heads) {
  const uint64_t each = heads.values / heads.keys;
  const std::string before = bytes.substr(begin, heads.values * head_bytes);
  for (uint64_t head = 0; head < heads.values; ++head) {
    const uint64_t key = head / each, to = head % each * heads.keys + key;
    bytes.replace(begin + to * head_bytes, head_bytes, before, head * head_bytes, head_bytes);
  }
}

}  // namespace

Status take_turns(MadeTensor& t, const NetHeads& heads) {
  const auto is = [&](std::string_view name) { return t.name.ends_with(name); };
  const uint64_t element = bytes_of_element(t.type), inner = heads.values * heads.width,
                 keys = 2 * heads.keys * heads.width, row_bytes = t.dims[0] * element;
  const auto fits = [&](uint64_t axis, uint64_t size) { return t.dims.size() > axis && t.dims[axis] == size; };
  const auto wrong = [&] {
    return safetensors_error(t.name, sizes(t.dims) + " does not go with the heads of delta nets in config.json");
  };
  if (is("attn_qkv.weight") || is("ssm_conv1d.weight")) {
    if (!fits(1, keys + inner)) return wrong();
    take_turns(t.bytes, keys * row_bytes, heads.width * row_bytes, heads);
  } else if (is("attn_gate.weight")) {
    if (!fits(1, inner)) return wrong();
    take_turns(t.bytes, 0, heads.width * row_bytes, heads);
  } else if (is("ssm_beta.weight") || is("ssm_alpha.weight")) {
    if (!fits(1, heads.values)) return wrong();
    take_turns(t.bytes, 0, row_bytes, heads);
  } else if (is("ssm_dt.bias") || is("ssm_a")) {
    if (!fits(0, heads.values)) return wrong();
    take_turns(t.bytes, 0, element, heads);
  } else if (is("ssm_out.weight")) {
    if (!fits(0, inner) || t.dims.size() != 2) return wrong();
    for (uint64_t row = 0; row < t.dims[1]; ++row) take_turns(t.bytes, row * row_bytes, heads.width * element, heads);
  }
  return {};
}

std::string with_pairs(const StoredTensor& t, int64_t heads) {
  const uint64_t rows = t.dims.size() > 1 ? t.dims[1] : t.dims[0], row_bytes = t.data.size() / rows,
                 width = rows / static_cast<uint64_t>(heads);
  std::string out(t.data.size(), '\0');
  for (uint64_t row = 0; row < rows; ++row) {
    const uint64_t head = row / width, inside = row % width, half = inside * 2 / width, pair = inside % (width / 2);
    std::memcpy(out.data() + (head * width + pair * 2 + half) * row_bytes, t.data.data() + row * row_bytes, row_bytes);
  }
  return out;
}

std::string as_f32(const StoredTensor& t, float offset) {
  std::string out;
  const size_t size = bytes_of_element(t.type);
  for (size_t at = 0; at < t.data.size(); at += size) {
    float value;
    if (t.type == GgufType::F32) {
      std::memcpy(&value, t.data.data() + at, sizeof value);
    } else {
      uint16_t bits;
      std::memcpy(&bits, t.data.data() + at, sizeof bits);
      value = static_cast<float>(from_bits(bits, t.type == GgufType::BF16 ? DType::BF16 : DType::F16).f);
    }
    value += offset;
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return out;
}

std::string decay_rates(const StoredTensor& logarithms) {
  std::string floats = as_f32(logarithms, 0);
  for (size_t at = 0; at < floats.size(); at += sizeof(float)) {
    float value;
    std::memcpy(&value, floats.data() + at, sizeof value);
    value = -std::exp(value);
    std::memcpy(floats.data() + at, &value, sizeof value);
  }
  return floats;
}

Result<MadeTensor> stacked(const std::string& name, const std::vector<StoredTensor>& pieces) {
  const StoredTensor& first = pieces.front();
  MadeTensor out{name, first.dims, first.type, {}};
  out.dims.push_back(pieces.size());
  out.bytes.reserve(first.data.size() * pieces.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    const StoredTensor& piece = pieces[i];
    if (piece.data.empty()) return safetensors_error(name, "expert " + std::to_string(i) + " is missing");
    if (piece.dims != first.dims || piece.type != first.type || first.dims.size() != 2)
      return safetensors_error(piece.name, sizes(piece.dims) + " where another expert has " + sizes(first.dims) +
                                               ", or of another type, or no matrix");
    out.bytes.append(reinterpret_cast<const char*>(piece.data.data()), piece.data.size());
  }
  return out;
}

Result<std::vector<MadeTensor>> keys_and_values(const std::string& name, const StoredTensor& both, int64_t heads,
                                                int64_t key_rows, int64_t value_rows) {
  const auto n = static_cast<uint64_t>(heads), keys = static_cast<uint64_t>(key_rows),
             values = static_cast<uint64_t>(value_rows), rows = n * (keys + values);
  if (both.dims.size() != 2 || both.dims[1] != rows)
    return safetensors_error(both.name, sizes(both.dims) + " where " + std::to_string(rows) +
                                            " rows were expected (num_attention_heads, qk_nope_head_dim, v_head_dim)");
  const uint64_t k = both.dims[0], element = bytes_of_element(both.type), row_bytes = k * element;
  MadeTensor key{
      replaced(name, "attn_kv_b", "attn_k_b"), {keys, k, n}, both.type, std::string(n * keys * row_bytes, 0)},
      value{replaced(name, "attn_kv_b", "attn_v_b"), {k, values, n}, both.type, {}};
  const auto* bytes = reinterpret_cast<const char*>(both.data.data());
  for (uint64_t head = 0; head < n; ++head) {
    const char* from = bytes + head * (keys + values) * row_bytes;
    for (uint64_t row = 0; row < keys; ++row)
      for (uint64_t column = 0; column < k; ++column)
        std::memcpy(key.bytes.data() + ((head * k + column) * keys + row) * element,
                    from + row * row_bytes + column * element, element);
    value.bytes.append(from + keys * row_bytes, values * row_bytes);
  }
  return std::vector<MadeTensor>{std::move(key), std::move(value)};
}

Result<MadeTensor> mxfp4_blocks(const std::string& name, const StoredTensor& blocks, const StoredTensor& scales) {
  constexpr uint64_t kHalf = 16;
  const bool have_shapes = blocks.dims.size() == 4 && scales.dims.size() == 3 && blocks.dims[0] == kHalf;
  if (!have_shapes || !std::equal(scales.dims.begin(), scales.dims.end(), blocks.dims.begin() + 1) ||
      blocks.type != GgufType::I8 || scales.type != GgufType::I8)
    return safetensors_error(blocks.name.empty() ? name : blocks.name,
                             "its blocks and scales do not go together; fetch the model again");
  MadeTensor out{name, {2 * kHalf * scales.dims[0], scales.dims[1], scales.dims[2]}, GgufType::MXFP4, {}};
  out.bytes.reserve(blocks.data.size() + scales.data.size());
  const auto nibble = [](std::byte byte, uint64_t i) { return std::to_integer<int>(byte) >> (i % 2 * 4) & 15; };
  for (size_t block = 0; block < scales.data.size(); ++block) {
    const std::span<const std::byte> pairs = blocks.data.subspan(block * kHalf, kHalf);
    out.bytes += static_cast<char>(scales.data[block]);
    for (uint64_t i = 0; i < kHalf; ++i)  // of elements i and i + 16
      out.bytes += static_cast<char>(nibble(pairs[i / 2], i) | nibble(pairs[kHalf / 2 + i / 2], i) << 4);
  }
  return out;
}

Result<std::vector<MadeTensor>> gate_then_up(const std::string& name, const StoredTensor& both) {
  if (both.dims.size() != 3 || both.dims[1] % 2 != 0)
    return safetensors_error(both.name, sizes(both.dims) + " where rows of two kinds were expected for each expert");
  const size_t half = both.data.size() / both.dims[2] / 2;
  std::vector<MadeTensor> out;
  for (const size_t which : {0, 1}) {
    MadeTensor part{replaced(name, "ffn_gate_up", which ? "ffn_up" : "ffn_gate"), both.dims, both.type, {}};
    part.dims[1] /= 2;
    part.bytes.reserve(both.data.size() / 2);
    for (size_t at = which * half; at < both.data.size(); at += 2 * half)
      part.bytes.append(reinterpret_cast<const char*>(both.data.data()) + at, half);
    out.push_back(std::move(part));
  }
  return out;
}

Result<std::vector<MadeTensor>> gate_and_up(const MadeTensor& both) {
  const bool has_rows = both.dims.size() == 3;
  const uint64_t k = has_rows ? both.dims[0] : 1, rows = both.dims[has_rows ? 1 : 0],
                 row_bytes = k / info_of(both.type).elements * info_of(both.type).bytes;
  if (rows % 2 != 0) return safetensors_error(both.name, std::to_string(rows) + " rows of two kinds by turns");
  std::vector<MadeTensor> out;
  for (const uint64_t which : {0, 1}) {
    MadeTensor part{replaced(both.name, "ffn_gate_up", which ? "ffn_up" : "ffn_gate"), both.dims, both.type, {}};
    part.dims[has_rows ? 1 : 0] = rows / 2;
    part.bytes.reserve(both.bytes.size() / 2);
    for (uint64_t at = which * row_bytes; at < both.bytes.size(); at += 2 * row_bytes)
      part.bytes.append(both.bytes, at, row_bytes);
    out.push_back(std::move(part));
  }
  return out;
}

}  // namespace smelt
