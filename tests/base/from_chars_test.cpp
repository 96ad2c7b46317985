#include "base/from_chars.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>

using namespace smelt;

namespace {

// Both ways to read a text: they give the same number, or refuse it alike, and stop at the same place.
void check_alike(const std::string& text) {
  CAPTURE(text);
  const char *begin = text.data(), *end = begin + text.size();
  double by_library = 7, by_c = 7;
  const auto expected = std::from_chars(begin, end, by_library), got = float_by_strtod(begin, end, by_c);
  CHECK(got.ptr == expected.ptr);
  CHECK((got.ec == expected.ec));
  CHECK(std::isnan(by_c) == std::isnan(by_library));
  if (!std::isnan(by_library)) CHECK(std::bit_cast<uint64_t>(by_c) == std::bit_cast<uint64_t>(by_library));
}

}  // namespace

TEST_CASE("floats are read by the C library as std::from_chars() reads them") {
  for (const char* text : {"0",    "-0",     "1.5",      "-2.25e3",  "1e-3",   ".5",     "5.",   "",    "-",    "+1",
                           " 1",   "\t1",    "0x10",     "-0x1p3",   "1e",     "1e+",    "1e+2", "inf", "-inf", "nan",
                           "x",    "1,5",    "1 2",      "1e999",    "-1e999", "1e-999", "e5",   "--1", "0x",   "1.5f",
                           "12\n", "1e-310", "4.9e-324", "infinity", "i",      "n",      ".",    "-.",  "00012"})
    check_alike(text);
  std::mt19937_64 rng(3);
  for (int i = 0; i < 5000; ++i) {
    const auto number = std::bit_cast<double>(rng());
    char text[40];
    if (std::isfinite(number)) check_alike({text, std::to_chars(text, text + sizeof text, number).ptr});
  }
  for (int i = 0; i < 5000; ++i) {
    std::string text;
    for (uint64_t left = 1 + rng() % 8; left > 0; --left) text += "0123456789.eE+-xin "[rng() % 19];
    check_alike(text);
  }
}

TEST_CASE("integers and floats are read by one name") {
  int64_t whole = 0;
  float part = 0;
  const std::string text = "-12;0.75";
  const auto first = smelt::from_chars(text.data(), text.data() + text.size(), whole);
  CHECK(whole == -12);
  CHECK(*first.ptr == ';');
  CHECK((smelt::from_chars(first.ptr + 1, text.data() + text.size(), part).ec == std::errc()));
  CHECK(part == 0.75f);
}
