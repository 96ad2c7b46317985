#include "graph/matrix_sum.h"

#include "graph/scalar_math.h"

namespace smelt {

int64_t matrix_sum(const MatrixShape& shape, int64_t sum, std::span<const uint32_t> a, std::span<const uint32_t> b) {
  for (size_t k = 0; k < a.size(); ++k) sum = (shape.a_is_signed ? dot4(sum, b[k], a[k]) : dot4(sum, a[k], b[k])).i;
  return sum;
}

double sum_of_halves(double sum, std::span<const uint32_t> a, std::span<const uint32_t> b) {
  const auto half = [](uint32_t word, int shift) { return from_bits(word >> shift & 0xFFFF, DType::BF16).f; };
  for (size_t i = 0; i < a.size(); ++i)
    for (int shift : {0, 16}) sum += half(a[i], shift) * half(b[i], shift);
  return sum;
}

}  // namespace smelt
