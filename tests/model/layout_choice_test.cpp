// The names of layouts and roles, and the set that a search goes over.
#include "model/layout_choice.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace smelt;

TEST_CASE("a layout comes back from its name, and nothing else does") {
  for (const WeightLayout layout : {WeightLayout{}, WeightLayout{16}, WeightLayout{8, FieldOrder::File},
                                    WeightLayout{.interleave = 8, .piece = 16}})
    CHECK(parse_layout(to_string(layout)) == layout);
  CHECK(to_string({32}) == "rows32");
  CHECK(to_string({16, FieldOrder::File}) == "rows16/file-order");
  for (const char* text : {"", "rows", "rows1", "rows0", "rows-4", "rows16x", "rows99999", "File"})
    CHECK_FALSE(parse_layout(text).has_value());
}

TEST_CASE("a role is the same for all layers, and another one for another type or policy") {
  const TensorShape shape{"ffn_down_exps.weight", {64, 2048}, 1536};
  CHECK(role_of(shape, GgufType::Q4_0, true) == "ffn_down_exps.weight/Q4_0/64x2048x1536/q8");
  CHECK(role_of(shape, GgufType::Q4_K, true) != role_of(shape, GgufType::Q4_0, true));
  CHECK(role_of(shape, GgufType::Q4_0, false) != role_of(shape, GgufType::Q4_0, true));
}

TEST_CASE("layouts to try: all of them fit, the default is the first, none comes twice") {
  for (GgufType type : {GgufType::Q4_0, GgufType::Q6_K})
    for (int64_t rows : {64, 48, 24, 5})
      for (int lanes : {1, 4, 8, 16}) {
        const auto list = layouts_to_try(type, rows, lanes);
        REQUIRE_FALSE(list.empty());
        CHECK(list.front() == default_layout(type, rows, lanes));
        for (size_t i = 0; i < list.size(); ++i) {
          CHECK(fits(list[i], type, rows));
          CHECK(std::find(list.begin(), list.begin() + static_cast<int64_t>(i), list[i]) ==
                list.begin() + static_cast<int64_t>(i));
        }
      }
  // The fields of a block of Q4_0 lie in the order of use in the file.
  CHECK(layouts_to_try(GgufType::Q4_0, 64, 16).size() == 4);
  CHECK(layouts_to_try(GgufType::Q6_K, 64, 16).size() == 5);
  CHECK(layouts_to_try(GgufType::F32, 64, 16).size() == 1);
}
