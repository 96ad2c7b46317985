#include "text/charsmap.h"

#include <bit>
#include <cstring>

#include "text/utf8.h"

namespace smelt {
namespace {

static_assert(std::endian::native == std::endian::little, "the table is read as it lies in the file");

// The fields of a unit.
uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
bool is_for(uint32_t unit, uint8_t byte) { return (unit & ((1u << 31) | 0xFF)) == byte; }
bool has_value(uint32_t unit) { return unit & (1u << 8); }
uint32_t value_of(uint32_t unit) { return unit & ((1u << 31) - 1); }

}  // namespace

std::optional<Charsmap> Charsmap::parse(std::string_view bytes) {
  if (bytes.empty()) return Charsmap();
  uint32_t size = 0;
  if (bytes.size() < sizeof size) return std::nullopt;
  std::memcpy(&size, bytes.data(), sizeof size);
  bytes.remove_prefix(sizeof size);
  if (size == 0 || size % sizeof(uint32_t) != 0 || size > bytes.size()) return std::nullopt;
  Charsmap map;
  map.units_.resize(size / sizeof(uint32_t));
  std::memcpy(map.units_.data(), bytes.data(), size);
  map.texts_ = bytes.substr(size);
  if (map.texts_.empty() || map.texts_.back() != '\0') return std::nullopt;
  return map;
}

Charsmap::Match Charsmap::longest_at(std::string_view text) const {
  Match found;
  if (units_.empty()) return found;
  size_t at = offset_of(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    at ^= byte;
    if (at >= units_.size() || !is_for(units_[at], byte)) break;
    const uint32_t unit = units_[at];
    at ^= offset_of(unit);
    if (!has_value(unit) || at >= units_.size()) continue;
    if (const uint32_t value = value_of(units_[at]); value < texts_.size()) found = {i + 1, value};
  }
  return found;
}

std::string Charsmap::applied_to(std::string_view text) const {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Match match = longest_at(text);
    const size_t length = match.length ? match.length : utf8_at(text, 0).length;
    if (match.length)
      out += texts_.c_str() + match.value;
    else
      out += text.substr(0, length);
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace smelt
