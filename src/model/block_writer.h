// A block of a format under construction, and how integers lie in its bytes (the other way round:
// model/block_groups.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "gguf/types.h"

namespace smelt {

uint16_t half_bits(float x);
float as_half(float x);

// Its fields by name.
class BlockWriter {
 public:
  BlockWriter(GgufType type, std::byte* at) : type_(type), at_(at) { std::memset(at, 0, info_of(type).bytes); }
  uint8_t* operator[](std::string_view name) const { return reinterpret_cast<uint8_t*>(at_ + offset_of(name)); }
  // Returns the number that was stored.
  float half(std::string_view name, float x) const;

 private:
  int offset_of(std::string_view name) const;

  GgufType type_;
  std::byte* at_;
};

// Fields of `bits` bits, those of q shifted to the right: byte b of a run of n has those of elements b, n + b,
// 2 n + b ...
void put_fields(std::span<const uint8_t> q, int bits, int shift, size_t n, uint8_t* to);
void put_bits(std::span<const uint8_t> q, int shift, uint8_t* to);

}  // namespace smelt
