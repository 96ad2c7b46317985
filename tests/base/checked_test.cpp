#include "base/checked.h"

#include <doctest/doctest.h>

using namespace smelt;

TEST_CASE("sizes that fit are ordinary numbers") {
  CHECK((Checked(3) * 4 + 5 - 17).get() == 0);
  CHECK((Checked(UINT64_MAX) + 0).value() == UINT64_MAX);
  CHECK(Checked(33).aligned_to(32).value() == 64);
  CHECK(Checked(64).aligned_to(32).value() == 64);
  CHECK(Checked(0).aligned_to(8).value() == 0);
  CHECK(Checked(96).divided_exactly_by(32).value() == 3);
}

TEST_CASE("a wrap in any step makes the result invalid") {
  const uint64_t big = uint64_t{1} << 63;
  CHECK(!(Checked(UINT64_MAX) + 1).ok());
  CHECK(!(Checked(0) - 1).ok());
  CHECK(!(Checked(big) * 2).ok());
  CHECK(!Checked(UINT64_MAX).aligned_to(32).ok());
  CHECK(!((Checked(big) * 2) * 0).ok());
  CHECK(!(5 - (Checked(big) + big)).ok());
  CHECK(!(Checked(UINT64_MAX) + 1).within(UINT64_MAX));
}

TEST_CASE("division with a remainder, by zero or alignment to no power of two is invalid") {
  CHECK(!Checked(33).divided_exactly_by(32).ok());
  CHECK(!Checked(33).divided_exactly_by(0).ok());
  CHECK(!Checked(33).aligned_to(24).ok());
  CHECK(!Checked(33).aligned_to(0).ok());
}

TEST_CASE("within includes the limit") {
  CHECK(Checked(7).within(7));
  CHECK(!Checked(8).within(7));
}
