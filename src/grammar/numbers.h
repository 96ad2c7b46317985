// Numbers within bounds, as JSON writes them: which digits may follow each other.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "grammar/regular.h"

namespace smelt {

// A decimal number, exactly: digits[0] is the first of the whole part, `whole` of them stand before the point.
struct Decimal {
  bool is_negative = false;
  std::string digits;
  int whole = 0;

  // From JSON's notation; nullopt if it has more than 60 digits written out.
  static std::optional<Decimal> from(std::string_view text);
  bool is_zero() const;
  char digit(int place) const;  // place -1 is the first behind the point, 0 the last before it; '0' outside
};

struct NumberBounds {
  bool is_integer = false;
  std::optional<Decimal> least, most;
  bool above_least = false, below_most = false;  // the bound itself is outside
  std::optional<Decimal> multiple_of;            // above 0
};

// Without any bound numbers have up to 16 digits before and behind the point, and an exponent of up to 2.
Result<Regular> number_language(const NumberBounds& bounds);

}  // namespace smelt
