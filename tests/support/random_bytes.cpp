#include "support/random_bytes.h"

#include <cstring>

#include "graph/scalar_math.h"

namespace smelt::testing {

std::vector<std::byte> random_bytes(size_t bytes, DType dtype, std::mt19937_64& rng, int64_t rows) {
  std::vector<std::byte> out(bytes);
  const auto size = static_cast<size_t>(size_of(dtype));
  const auto first = static_cast<int64_t>(rng() % 64);
  for (size_t at = 0; at + size <= bytes; at += size) {
    const Scalar x = is_float(dtype) ? Scalar{.f = static_cast<double>(rng() >> 11) * 0x1p-52 - 1}
                     : size >= 4     ? Scalar{.i = (first + static_cast<int64_t>(at / size)) % rows}
                                     : Scalar{.i = static_cast<int64_t>(rng() & (size == 1 ? 0xbf : 0xbfbf))};
    const uint64_t bits = to_bits(x, dtype);
    std::memcpy(out.data() + at, &bits, size);
  }
  return out;
}

}  // namespace smelt::testing
