#include "graph/matrix_sum.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

namespace smelt {
namespace {

float flushed(float x) { return std::fabs(x) < FLT_MIN ? std::copysign(0.0f, x) : x; }

double half_of(const MatrixShape& shape, uint32_t word, int place) {
  return from_bits(word >> (16 * place) & 0xffff, shape.elements).f;
}

float normal_half(const MatrixShape& shape, uint32_t word, int place) {
  return flushed(static_cast<float>(half_of(shape, word, place)));
}

// A step: sums of even and of odd places, added up at its end.
float step_of(const MatrixShape& shape, float sum, std::span<const uint32_t> a, std::span<const uint32_t> b) {
  float parts[2] = {0, 0};
  for (size_t k = 0; k < a.size(); ++k)
    for (int place : {0, 1})
      parts[place] = flushed(std::fma(normal_half(shape, a[k], place), normal_half(shape, b[k], place), parts[place]));
  return flushed(flushed(sum) + flushed(parts[0] + parts[1]));
}

}  // namespace

Scalar matrix_sum(const MatrixShape& shape, Scalar sum, std::span<const uint32_t> a, std::span<const uint32_t> b) {
  if (shape.is_of_bytes()) {
    for (size_t k = 0; k < a.size(); ++k) sum = shape.a_is_signed ? dot4(sum.i, b[k], a[k]) : dot4(sum.i, a[k], b[k]);
    return sum;
  }
  if (shape.in_fragments) {
    for (size_t k = 0; k < a.size(); ++k)
      for (int place : {0, 1}) sum.f += half_of(shape, a[k], place) * half_of(shape, b[k], place);
    return {.f = round_to(sum.f, DType::F32)};
  }
  auto so_far = static_cast<float>(sum.f);
  constexpr size_t kWords = kHalvesOfStep / 2;
  for (size_t k = 0; k < a.size(); k += kWords) {
    const size_t words = std::min(kWords, a.size() - k);
    so_far = step_of(shape, so_far, a.subspan(k, words), b.subspan(k, words));
  }
  return {.f = so_far};
}

}  // namespace smelt
