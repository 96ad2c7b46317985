// Watching rules fire (rewrite.h).
#include <doctest/doctest.h>

#include "graph/range_kind.h"
#include "graph/rewrite.h"
#include "graph/rules_algebra.h"
#include "graph/text.h"

using namespace smelt;

TEST_CASE("a watch sees every rule that fires, also where the result was known before") {
  const Ref i = make_range(output_range(0), constant(8), RangeKind::Loop);
  const Ref sum = i * 3 + 0;
  const Ref simple = simplify(sum);
  std::vector<std::string> seen;
  {
    RewriteWatch watch([&](const Rule& rule, Ref, Ref after) { seen.push_back(rule.name + " -> " + to_infix(after)); });
    CHECK(simplify(sum) == simple);
    CHECK(seen.size() >= 1);
    const size_t once = seen.size();
    CHECK(simplify(sum) == simple);
    CHECK(seen.size() == once);  // known within the watch
    watch.forget();
    CHECK(simplify(sum) == simple);
    CHECK(seen.size() == 2 * once);
  }
  const size_t before = seen.size();
  CHECK(simplify(i * 5 + 0) == simplify(i * 5));
  CHECK(seen.size() == before);
}
