#include "grammar/numbers.h"

#include <algorithm>
#include <cctype>
#include <compare>
#include <map>

namespace smelt {
namespace {

constexpr int kDigits = 16;      // written before and behind the point, where bounds ask for no more
constexpr int kMostDigits = 60;  // of a bound
constexpr int64_t kGreatestMultiple = 10'000;

// Digits of numbers that are not negative, from the first to the last. A prefix is `low` or `high` while it is that of
// the bound; `rest` is its remainder by the multiple.
struct Prefix {
  int place;  // of the digit that comes next, as in Decimal::digit; behind the point -1, -2, ...
  bool low, high;
  int64_t rest;
  bool behind_point;
  auto operator<=>(const Prefix&) const = default;
};

class Magnitudes {
 public:
  // 0 <= least; most: none is without bound.
  Magnitudes(Regular& out, const NumberBounds& b, Decimal least, bool above, std::optional<Decimal> most, bool below)
      : out_(out), bounds_(b), least_(std::move(least)), most_(std::move(most)), above_(above), below_(below) {
    behind_ = kDigits;
    if (bounds_.multiple_of) {
      const Decimal& m = *bounds_.multiple_of;
      behind_ = static_cast<int>(m.digits.size()) - m.whole;
      for (char c : m.digits) multiple_ = multiple_ * 10 + (c - '0');
    } else {
      behind_ = std::max({behind_, places_behind(least_), most_ ? places_behind(*most_) : 0});
    }
    if (bounds_.is_integer) behind_ = 0;
  }

  Status add(int from) {
    if (bounds_.multiple_of && (multiple_ <= 0 || multiple_ > kGreatestMultiple))
      return Error{"multipleOf is 0 or has more digits than 10000"};
    // An integer that is a multiple of 0.5 is one of 1: the places that are not written count as zeros.
    scale_ =
        bounds_.multiple_of ? static_cast<int>(bounds_.multiple_of->digits.size()) - bounds_.multiple_of->whole : 0;
    const int longest = most_ ? whole_digits(*most_) : std::max(kDigits, whole_digits(least_));
    for (int digits = whole_digits(least_); digits <= longest; ++digits) {
      const Prefix first{digits - 1, digits == whole_digits(least_), most_ && digits == whole_digits(*most_), 0, false};
      const int begin = out_.add_state();
      out_.skip(from, begin);
      SMELT_CHECK(digits_from(begin, first, digits > 1));
    }
    return {};
  }

 private:
  static int places_behind(const Decimal& d) { return static_cast<int>(d.digits.size()) - d.whole; }

  // At least one: zero is written "0".
  static int whole_digits(const Decimal& d) {
    int digits = d.whole;
    while (digits > 1 && d.digit(digits - 1) == '0') --digits;
    return std::max(1, digits);
  }

  bool can_end(const Prefix& p) const {
    if (p.low && (above_ || !rest_is_zero(least_, p.place))) return false;
    if (p.high && below_ && rest_is_zero(*most_, p.place)) return false;
    if (!bounds_.multiple_of) return true;
    int64_t value = p.rest;
    for (int i = 0; i < scale_ - std::max(0, -1 - p.place); ++i) value = value * 10 % multiple_;
    return value == 0;
  }

  static bool rest_is_zero(const Decimal& d, int place) {
    for (int p = place; p >= -places_behind(d); --p)
      if (d.digit(p) != '0') return false;
    return true;
  }

  Status digits_from(int begin, const Prefix& first, bool no_leading_zero) {
    std::map<Prefix, int> states{{first, begin}};
    std::vector<Prefix> open{first};
    const auto state_of = [&](const Prefix& p) {
      const auto [it, is_new] = states.try_emplace(p, out_.states);
      if (is_new) out_.add_state(), open.push_back(p);
      return it->second;
    };
    while (!open.empty()) {
      const Prefix p = open.back();
      open.pop_back();
      const int state = states.at(p);
      if (out_.states > kMostPositions) return Error{"the bounds of a number need too many states"};
      const bool is_number = p.place < (p.behind_point ? -1 : 0);  // at least one digit behind the point
      if (is_number && can_end(p)) out_.ends.push_back(state);
      if (p.place == -1 && !p.behind_point && behind_ > 0) {
        Prefix next = p;
        next.behind_point = true;
        out_.connect(state, Codepoints::one('.'), state_of(next));
      }
      if (p.place == -1 && !p.behind_point) continue;
      if (-p.place > behind_) continue;
      for (char d = p.place == first.place && no_leading_zero ? '1' : '0'; d <= '9'; ++d) {
        if (p.low && d < least_.digit(p.place)) continue;
        if (p.high && d > most_->digit(p.place)) continue;
        Prefix next{p.place - 1, p.low && d == least_.digit(p.place), p.high && d == most_->digit(p.place), 0,
                    p.behind_point};
        if (bounds_.multiple_of) next.rest = (p.rest * 10 + (d - '0')) % multiple_;
        out_.connect(state, Codepoints::one(static_cast<uint32_t>(d)), state_of(next));
      }
    }
    return {};
  }

  Regular& out_;
  const NumberBounds& bounds_;
  Decimal least_;
  std::optional<Decimal> most_;
  bool above_, below_;
  int behind_ = 0, scale_ = 0;
  int64_t multiple_ = 0;
};

// a < b, of numbers that are not negative.
bool is_less(const Decimal& a, const Decimal& b) {
  const int behind = std::max(static_cast<int>(a.digits.size()) - a.whole, static_cast<int>(b.digits.size()) - b.whole);
  for (int place = std::max(a.whole, b.whole); place >= -behind; --place)
    if (a.digit(place) != b.digit(place)) return a.digit(place) < b.digit(place);
  return false;
}

Decimal magnitude(Decimal d) {
  d.is_negative = false;
  return d;
}

Regular any_number(bool is_integer) {
  const auto language = read_regex(
      is_integer ? "-?(0|[1-9][0-9]{0,15})" : "-?(0|[1-9][0-9]{0,15})(\\.[0-9]{1,16})?([eE][-+]?[0-9]{1,2})?", false);
  return *language;
}

}  // namespace

std::optional<Decimal> Decimal::from(std::string_view text) {
  Decimal d;
  size_t pos = 0;
  if (text.starts_with('-')) d.is_negative = true, ++pos;
  bool behind = false;
  for (; pos < text.size() && (text[pos] == '.' || std::isdigit(static_cast<unsigned char>(text[pos]))); ++pos) {
    if (text[pos] == '.') {
      behind = true;
    } else {
      d.digits += text[pos];
      if (!behind) ++d.whole;
    }
  }
  int exponent = 0;
  if (pos < text.size() && (text[pos] | 32) == 'e') exponent = std::atoi(std::string(text.substr(pos + 1)).c_str());
  if (std::abs(exponent) > kMostDigits || d.digits.size() > kMostDigits) return std::nullopt;
  d.whole += exponent;
  if (d.whole < 0) d.digits.insert(0, static_cast<size_t>(-d.whole), '0'), d.whole = 0;
  if (static_cast<size_t>(d.whole) > d.digits.size())
    d.digits.append(static_cast<size_t>(d.whole) - d.digits.size(), '0');
  while (static_cast<int>(d.digits.size()) > d.whole && d.digits.back() == '0') d.digits.pop_back();
  return d;
}

bool Decimal::is_zero() const {
  return std::all_of(digits.begin(), digits.end(), [](char c) { return c == '0'; });
}

char Decimal::digit(int place) const {
  const int index = whole - 1 - place;
  return index < 0 || index >= static_cast<int>(digits.size()) ? '0' : digits[static_cast<size_t>(index)];
}

Result<Regular> number_language(const NumberBounds& bounds) {
  if (!bounds.least && !bounds.most && !bounds.multiple_of) return any_number(bounds.is_integer);
  Regular out;
  const Decimal zero = *Decimal::from("0");
  const bool least_is_below = !bounds.least || (bounds.least->is_negative && !bounds.least->is_zero());
  const bool most_is_below = bounds.most && bounds.most->is_negative && !bounds.most->is_zero();
  if (!most_is_below) {  // from the greater of least and 0 on
    const Decimal low = least_is_below ? zero : magnitude(*bounds.least);
    const bool above = !least_is_below && bounds.above_least;
    const std::optional<Decimal> high = bounds.most ? std::optional(magnitude(*bounds.most)) : std::nullopt;
    if (!high || !is_less(*high, low)) SMELT_CHECK(Magnitudes(out, bounds, low, above, high, bounds.below_most).add(0));
  }
  if (least_is_below) {  // below 0: magnitudes between those of the bounds
    const Decimal low = most_is_below ? magnitude(*bounds.most) : zero;
    const bool above = most_is_below ? bounds.below_most : true;
    const std::optional<Decimal> high = bounds.least ? std::optional(magnitude(*bounds.least)) : std::nullopt;
    const int minus = out.add_state();
    out.connect(0, Codepoints::one('-'), minus);
    if (!high || !is_less(*high, low))
      SMELT_CHECK(Magnitudes(out, bounds, low, above, high, bounds.above_least).add(minus));
  }
  return out;
}

}  // namespace smelt
