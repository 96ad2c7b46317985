// Reader: takes values off the front of bytes from outside. Every take is bounded; nothing when too
// few bytes are left.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace smelt {

static_assert(std::endian::native == std::endian::little, "GGUF is read as it lies in memory");

// The number at `bytes`, which need not be aligned. REQUIRES: sizeof(T) readable bytes.
template <class T>
  requires std::is_arithmetic_v<T>
T load_number(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t position() const { return position_; }
  uint64_t left() const { return bytes_.size() - position_; }

  std::optional<std::span<const std::byte>> take_bytes(uint64_t count) {
    if (count > left()) return std::nullopt;
    auto taken = bytes_.subspan(position_, count);
    position_ += count;
    return taken;
  }

  template <class T>
  std::optional<T> take() {
    auto taken = take_bytes(sizeof(T));
    if (!taken) return std::nullopt;
    return load_number<T>(taken->data());
  }

  // What was taken since `start`.
  std::span<const std::byte> since(uint64_t start) const { return bytes_.subspan(start, position_ - start); }

 private:
  std::span<const std::byte> bytes_;
  uint64_t position_ = 0;
};

}  // namespace smelt
