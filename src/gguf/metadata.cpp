#include "gguf/metadata.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/printable.h"
#include "gguf/reader.h"

namespace smelt {
namespace {

struct KindInfo {
  std::string_view name;
  uint64_t bytes;
};

// In the order of GgufKind.
constexpr KindInfo kKinds[] = {{"u8", 1},   {"i8", 1},     {"u16", 2},   {"i16", 2}, {"u32", 4}, {"i32", 4}, {"f32", 4},
                               {"bool", 1}, {"string", 0}, {"array", 0}, {"u64", 8}, {"i64", 8}, {"f64", 8}};

constexpr std::string_view kConvertAgain = "; convert the model again";

std::string quoted_kind(const GgufValue& value) {
  return value.is_array ? "an array of " + std::string(name_of(value.kind))
                        : "of type " + std::string(name_of(value.kind));
}

Error wrong_kind(const GgufValue& value, std::string_view expected) {
  return gguf_error(value.key,
                    "is " + quoted_kind(value) + ", expected " + std::string(expected) + std::string(kConvertAgain));
}

Error out_of_range(std::string_view key, const std::string& number, const std::string& range) {
  return gguf_error(key, "value " + number + " is not in the range " + range + std::string(kConvertAgain));
}

// An integer of any kind: every value of u64 and i64.
struct Integer {
  bool negative;
  uint64_t magnitude;  // the value itself, or minus it

  std::string text() const { return (negative ? "-" : "") + std::to_string(magnitude); }
  bool fits_i64() const { return magnitude <= uint64_t{INT64_MAX} + (negative ? 1 : 0); }
  int64_t as_i64() const { return static_cast<int64_t>(negative ? 0 - magnitude : magnitude); }
};

template <class T>
Integer integer_at(const std::byte* bytes) {
  const T value = load_number<T>(bytes);
  const bool negative = value < T{0};
  const uint64_t wide = static_cast<uint64_t>(value);
  return {negative, negative ? 0 - wide : wide};
}

std::optional<Integer> read_integer(GgufKind kind, const std::byte* bytes) {
  switch (kind) {
    case GgufKind::U8: return integer_at<uint8_t>(bytes);
    case GgufKind::I8: return integer_at<int8_t>(bytes);
    case GgufKind::U16: return integer_at<uint16_t>(bytes);
    case GgufKind::I16: return integer_at<int16_t>(bytes);
    case GgufKind::U32: return integer_at<uint32_t>(bytes);
    case GgufKind::I32: return integer_at<int32_t>(bytes);
    case GgufKind::U64: return integer_at<uint64_t>(bytes);
    case GgufKind::I64: return integer_at<int64_t>(bytes);
    case GgufKind::F32:
    case GgufKind::Bool:
    case GgufKind::String:
    case GgufKind::Array:
    case GgufKind::F64: break;
  }
  return std::nullopt;
}

std::optional<double> read_float(GgufKind kind, const std::byte* bytes) {
  if (kind == GgufKind::F32) return load_number<float>(bytes);
  if (kind == GgufKind::F64) return load_number<double>(bytes);
  return std::nullopt;
}

}  // namespace

std::string_view name_of(GgufKind kind) { return kKinds[static_cast<uint32_t>(kind)].name; }
uint64_t size_of(GgufKind kind) { return kKinds[static_cast<uint32_t>(kind)].bytes; }

Error gguf_error(std::string_view where, std::string_view what) {
  return Error{"[gguf] " + printable(where) + ": " + std::string(what)};
}

Result<GgufMetadata> GgufMetadata::make(std::vector<GgufValue> values) {
  GgufMetadata result;
  result.values_ = std::move(values);
  result.by_key_.resize(result.values_.size());
  std::iota(result.by_key_.begin(), result.by_key_.end(), 0u);
  const auto key = [&](uint32_t i) { return result.values_[i].key; };
  std::sort(result.by_key_.begin(), result.by_key_.end(), [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
  const auto twice = std::adjacent_find(result.by_key_.begin(), result.by_key_.end(),
                                        [&](uint32_t a, uint32_t b) { return key(a) == key(b); });
  if (twice != result.by_key_.end()) {
    return gguf_error(key(*twice), "the key appears twice; the file is damaged, convert the model again");
  }
  return result;
}

const GgufValue* GgufMetadata::find(std::string_view key) const {
  const auto found = std::lower_bound(by_key_.begin(), by_key_.end(), key,
                                      [&](uint32_t i, std::string_view k) { return values_[i].key < k; });
  return found != by_key_.end() && values_[*found].key == key ? &values_[*found] : nullptr;
}

Result<const GgufValue*> GgufMetadata::scalar(std::string_view key, std::string_view expected) const {
  const GgufValue* value = find(key);
  if (!value) return gguf_error(key, "missing, expected " + std::string(expected) + std::string(kConvertAgain));
  if (value->is_array) return wrong_kind(*value, expected);
  return value;
}

Result<const GgufValue*> GgufMetadata::array(std::string_view key, std::string_view expected) const {
  const GgufValue* value = find(key);
  if (!value) return gguf_error(key, "missing, expected " + std::string(expected) + std::string(kConvertAgain));
  if (!value->is_array) return wrong_kind(*value, expected);
  return value;
}

Result<uint64_t> GgufMetadata::u64(std::string_view key, GgufRange range) const {
  SMELT_TRY(value, scalar(key, "an integer"));
  const auto number = read_integer(value->kind, value->bytes.data());
  if (!number) return wrong_kind(*value, "an integer");
  if (number->negative || number->magnitude < range.min || number->magnitude > range.max) {
    return out_of_range(key, number->text(), std::to_string(range.min) + " to " + std::to_string(range.max));
  }
  return number->magnitude;
}

Result<int64_t> GgufMetadata::i64(std::string_view key) const {
  SMELT_TRY(value, scalar(key, "an integer"));
  const auto number = read_integer(value->kind, value->bytes.data());
  if (!number) return wrong_kind(*value, "an integer");
  if (!number->fits_i64()) return out_of_range(key, number->text(), "of 64-bit signed integers");
  return number->as_i64();
}

Result<double> GgufMetadata::f64(std::string_view key) const {
  SMELT_TRY(value, scalar(key, "a floating-point number"));
  const auto number = read_float(value->kind, value->bytes.data());
  if (!number) return wrong_kind(*value, "a floating-point number");
  if (!std::isfinite(*number)) return out_of_range(key, std::to_string(*number), "of finite numbers");
  return *number;
}

Result<bool> GgufMetadata::boolean(std::string_view key) const {
  SMELT_TRY(value, scalar(key, "a bool"));
  if (value->kind != GgufKind::Bool) return wrong_kind(*value, "a bool");
  return load_number<uint8_t>(value->bytes.data()) != 0;
}

Result<std::string_view> GgufMetadata::string(std::string_view key) const {
  SMELT_TRY(value, scalar(key, "a string"));
  if (value->kind != GgufKind::String) return wrong_kind(*value, "a string");
  return as_text(value->bytes.subspan(sizeof(uint64_t)));
}

Result<std::vector<std::string_view>> GgufMetadata::strings(std::string_view key) const {
  SMELT_TRY(value, array(key, "an array of string"));
  if (value->kind != GgufKind::String) return wrong_kind(*value, "an array of string");
  std::vector<std::string_view> result;
  result.reserve(value->count);
  const std::byte* at = value->bytes.data();
  for (uint64_t i = 0; i < value->count; ++i) {  // all lengths were checked when the file was opened
    const uint64_t size = load_number<uint64_t>(at);
    result.push_back(as_text({at + sizeof size, size}));
    at += sizeof size + size;
  }
  return result;
}

Result<std::vector<int64_t>> GgufMetadata::integers(std::string_view key) const {
  SMELT_TRY(value, array(key, "an array of integers"));
  std::vector<int64_t> result;
  if (value->count > 0 && !read_integer(value->kind, value->bytes.data()))
    return wrong_kind(*value, "an array of integers");
  result.reserve(value->count);
  for (uint64_t i = 0; i < value->count; ++i) {
    const auto number = read_integer(value->kind, value->bytes.data() + i * size_of(value->kind));
    if (!number->fits_i64()) return out_of_range(key, number->text(), "of 64-bit signed integers");
    result.push_back(number->as_i64());
  }
  return result;
}

Result<std::vector<double>> GgufMetadata::floats(std::string_view key) const {
  SMELT_TRY(value, array(key, "an array of floating-point numbers"));
  std::vector<double> result;
  if (value->count > 0 && !read_float(value->kind, value->bytes.data())) {
    return wrong_kind(*value, "an array of floating-point numbers");
  }
  result.reserve(value->count);
  for (uint64_t i = 0; i < value->count; ++i) {
    result.push_back(*read_float(value->kind, value->bytes.data() + i * size_of(value->kind)));
  }
  return result;
}

}  // namespace smelt
