#include "model/block_writer.h"

#include <string>

#include "base/ensure.h"
#include "graph/scalar_math.h"
#include "model/dequant.h"

namespace smelt {

uint16_t half_bits(float x) { return static_cast<uint16_t>(to_bits({.f = x}, DType::F16)); }
float as_half(float x) { return static_cast<float>(from_bits(half_bits(x), DType::F16).f); }

float BlockWriter::half(std::string_view name, float x) const {
  const uint16_t bits = half_bits(x);
  std::memcpy(at_ + offset_of(name), &bits, sizeof bits);
  return as_half(x);
}

int BlockWriter::offset_of(std::string_view name) const {
  for (const BlockField& field : block_fields(type_))
    if (field.name == name) return field.offset;
  ENSURE(false, "no such field in " + std::string(name_of(type_)));
}

void put_fields(std::span<const uint8_t> q, int bits, int shift, size_t n, uint8_t* to) {
  const size_t each = 8 / static_cast<size_t>(bits), mask = (size_t{1} << bits) - 1;
  for (size_t i = 0; i < q.size(); ++i) {
    const size_t run = i / (each * n), inside = i % (each * n);
    to[run * n + inside % n] |=
        static_cast<uint8_t>((q[i] >> shift & mask) << (inside / n * static_cast<size_t>(bits)));
  }
}

void put_bits(std::span<const uint8_t> q, int shift, uint8_t* to) {
  for (size_t i = 0; i < q.size(); ++i) to[i / 8] |= static_cast<uint8_t>((q[i] >> shift & 1) << (i % 8));
}

}  // namespace smelt
