// Checked: a size, count or offset that came from outside. Arithmetic that would wrap makes it
// invalid, and it stays so through all further arithmetic, so that one test at the end covers a
// whole formula:
//   Checked end = Checked(offset) + Checked(rows) * row_bytes;
//   if (!end.within(file_bytes)) return gguf_error(...);
#pragma once

#include <bit>
#include <cstdint>
#include <optional>

#include "base/ensure.h"

namespace smelt {

class Checked {
 public:
  constexpr Checked(uint64_t value) : value_(value) {}

  constexpr bool ok() const { return ok_; }
  constexpr bool within(uint64_t limit) const { return ok_ && value_ <= limit; }
  uint64_t value() const {  // REQUIRES: ok().
    ENSURE(ok_, "the value of a size that wrapped is used");
    return value_;
  }
  constexpr std::optional<uint64_t> get() const { return ok_ ? std::optional(value_) : std::nullopt; }

  friend constexpr Checked operator+(Checked a, Checked b) {
    uint64_t sum = 0;
    bool wraps = __builtin_add_overflow(a.value_, b.value_, &sum);
    return {sum, a.ok_ && b.ok_ && !wraps};
  }
  friend constexpr Checked operator-(Checked a, Checked b) {
    return {a.value_ - b.value_, a.ok_ && b.ok_ && a.value_ >= b.value_};
  }
  friend constexpr Checked operator*(Checked a, Checked b) {
    uint64_t product = 0;
    bool wraps = __builtin_mul_overflow(a.value_, b.value_, &product);
    return {product, a.ok_ && b.ok_ && !wraps};
  }
  // Exact division: a remainder, or division by zero, is as invalid as a wrap.
  constexpr Checked divided_exactly_by(Checked divisor) const {
    if (!ok_ || !divisor.ok_ || divisor.value_ == 0 || value_ % divisor.value_ != 0) return {0, false};
    return {value_ / divisor.value_, true};
  }
  // The next multiple of `alignment`, which must be a power of two.
  constexpr Checked aligned_to(uint64_t alignment) const {
    if (!std::has_single_bit(alignment)) return {0, false};
    Checked end = *this + (alignment - 1);
    return {end.value_ & ~(alignment - 1), end.ok_};
  }

 private:
  constexpr Checked(uint64_t value, bool ok) : value_(ok ? value : 0), ok_(ok) {}

  uint64_t value_ = 0;
  bool ok_ = true;
};

}  // namespace smelt
