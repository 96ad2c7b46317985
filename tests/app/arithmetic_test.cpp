// What is told of arithmetic and of threads that share a core.
#include "app/arithmetic.h"

#include <doctest/doctest.h>

#include "app/bench_rooflines.h"

using namespace smelt;

namespace {

ArithmeticSeen seen(int threads, std::vector<double> rates, double one = 115e9) {
  ArithmeticSeen s{.threads = threads};
  for (double rate : rates) s.add(one, rate);
  return s;
}

}  // namespace

TEST_CASE("arithmetic is told as a rate and as times that of one thread, both as they changed") {
  CHECK(arithmetic_text(seen(2, {228e9})) == "arithmetic reaches 228 GFLOP/s in f32 (2.0 times one thread)");
  CHECK(arithmetic_text(seen(2, {228e9, 118e9})) ==
        "arithmetic reaches 118 to 228 GFLOP/s in f32 (1.0 to 2.0 times one thread)");
  CHECK(arithmetic_text(seen(1, {115e9})) == "arithmetic reaches 115 GFLOP/s in f32");
  CHECK(arithmetic_text({.threads = 2, .least = 228e9, .most = 228e9}) ==
        "arithmetic reaches 228 GFLOP/s in f32");  // a profile from before one thread was measured
  CHECK(arithmetic_text({}) == "arithmetic was not measured");
  ArithmeticSeen all = seen(1, {115e9});
  all.bytes = 230e9;
  all.unit = 2e12;
  CHECK(arithmetic_text(all) ==
        "arithmetic reaches 115 GFLOP/s in f32, 230 GOP/s in int8, 2000 GOP/s in the matrix unit");
}

TEST_CASE("threads that reach clearly less than a core each seem to share one") {
  CHECK(sharing_note(seen(2, {118e9}), 2) ==
        "2 threads reach 1.0 times the arithmetic of one: they seem to share a core; figures of "
        "this run do not compare with others\n");
  CHECK(sharing_note(seen(2, {228e9, 118e9}), 2) ==
        "2 threads reach 1.0 times the arithmetic of one at times: they seem to share a core then; "
        "figures of this run do not compare with others\n");
  CHECK(sharing_note(seen(8, {500e9}), 8)
            .starts_with("8 threads reach 4.3 times the arithmetic of one: some seem to share a core"));
  CHECK(sharing_note(seen(2, {180e9}), 2).empty());  // cores may be slower together
  CHECK(sharing_note(seen(4, {228e9}), 2).starts_with("4 threads take turns on 2 cores"));
  CHECK(sharing_note(seen(1, {115e9}), 2).empty());
  CHECK(sharing_note({}, 2).empty());
}

TEST_CASE("what was seen by two is seen by both together") {
  ArithmeticSeen both = seen(2, {200e9}, 110e9);
  both.add(seen(2, {118e9, 228e9}, 115e9));
  CHECK(both.one_thread == 115e9);
  CHECK(both.least == 118e9);
  CHECK(both.most == 228e9);
  both.add(ArithmeticSeen{});
  CHECK(both.least == 118e9);
}

TEST_CASE("rooflines of a number of threads are bytes and operations a second") {
  Rooflines rooflines;
  rooflines.measure(1);
  CHECK(rooflines.of(1) > 0);
  CHECK(rooflines.arithmetic(1).one_thread > 0);
  CHECK(rooflines.arithmetic(1).least > 0);
  CHECK(rooflines.arithmetic(1).threads == 1);
  // A product of bytes is less work than one of floats, where there are instructions for either.
  const double bytes = rooflines.arithmetic(1).bytes;
  CHECK((bytes == 0 || bytes > rooflines.arithmetic(1).one_thread));
}
