#include "graph/text.h"

#include <doctest/doctest.h>

#include <cmath>

#include "graph/tensor.h"

using namespace smelt;

namespace {

std::string error_of(std::string_view text) {
  auto result = parse(text);
  return result ? "" : result.error().message;
}

void check_round_trip(Ref root) {
  std::string text = print(root);
  CAPTURE(text);
  auto parsed = parse(text);
  REQUIRE_MESSAGE(parsed.ok(), (parsed.ok() ? "" : parsed.error().message));
  CHECK(*parsed == root);
  CHECK(print(*parsed) == text);
}

}  // namespace

TEST_CASE("a graph prints one node a line with constants in place") {
  Ref n = variable("n", 1, 64);
  Ref index = make(Op::Range, DType::I64, {n}, {.i = 3, .list = {0}}) * 18 + 2;
  CHECK(print(index) ==
        "%0 = var i64 list=[1, 64] name=\"n\"\n"
        "%1 = range i64 %0 i=3 list=[0]\n"
        "%2 = mul i64 %1 18\n"
        "%3 = add i64 %2 2\n");
}

TEST_CASE("shapes print constants and refer to variables") {
  Ref n = variable("n", 1, 64);
  Tensor x = param(2, DType::F16, {n, 4}, "x");
  CHECK(print((cast(x, DType::F32) * 0.5).ref())
            .starts_with("%0 = var i64 list=[1, 64] name=\"n\"\n"
                         "%1 = param f16 [%0, 4] i=2 name=\"x\"\n"
                         "%2 = cast f32 [%0, 4] %1\n"
                         "%3 = reshape f32 [1, 1] 0.5:f32\n"));
}

TEST_CASE("what is printed parses to the same node") {
  Ref n = variable("n", 1, 64);
  Tensor x = param(0, DType::F32, {n, 256}, "a \"name\" with \\ and \n"), w = param(1, DType::U8, {64, 8, 18}, "w");
  Tensor scale = cast(bitcast(slice(w, -1, 0, 2), DType::F16), DType::F32);
  Tensor nibble = cast(slice(w, -1, 2, 16) & 15, DType::F32) - 8.0;
  check_round_trip(linear(slice(x, 1, 0, 128), reshape(nibble * scale, {64, 128})).ref());
  check_round_trip(sink({output(4, softmax(x, 1)), write_rows(x, iota({Dim(n)}, 0), 0, x).ref()}));
  check_round_trip(top_k(permute(x, {1, 0}), 1).ref());
  check_round_trip(softmax_average(x, flip(x, 0), -1).ref());
  check_round_trip(lut(w, {1, -2, 3}, DType::I8).ref());
  check_round_trip(constant(7, DType::U8));
  check_round_trip(constant_f(-0.0));
  check_round_trip(constant_f(1e-300, DType::F64) * constant_f(1.0 / 3, DType::F64));
  check_round_trip(constant_f(INFINITY) + constant_f(-INFINITY));
  check_round_trip(constant(INT64_MIN) + constant(INT64_MAX));
}

TEST_CASE("comments, blank lines and any ids are read") {
  auto parsed = parse("# an expression\n\n %70 = range i64 8 list=[0] # r0\n%5 = add i64 %70 1\r\n");
  REQUIRE(parsed.ok());
  CHECK(to_infix(*parsed) == "r0 + 1");
}

TEST_CASE("errors name the line and what is wrong") {
  CHECK(error_of("") == "[ir] the text has no nodes; write one node a line, such as %0 = const i64 i=1");
  CHECK(error_of("%0 = const i64 i=1\n%1 = frob i64 %0") ==
        "[ir] line 2: 'frob' is not an op; they are listed in ops.def");
  CHECK(error_of("%0 = add i65 1 2") == "[ir] line 1: 'i65' is not a dtype; they are listed in dtypes.def");
  CHECK(error_of("%0 = add i64 1 %3") == "[ir] line 1: '%3' is not defined above");
  CHECK(error_of("%0 = add i64 1") == "[ir] line 1: add takes 2 sources, not 1");
  CHECK(error_of("%0 = neg i64 1\n%0 = neg i64 2") == "[ir] line 2: %0 is defined twice");
  CHECK(error_of("%0 = neg u8 256:u8") == "[ir] line 1: 256 does not fit u8");
  CHECK(error_of("%0 = neg i64 99999999999999999999") == "[ir] line 1: '99999999999999999999' is not an integer");
  CHECK(error_of("%0 = neg f32 x:f32") == "[ir] line 1: 'x' is not a number");
  CHECK(error_of("%0 = var i64 list=[1] name=\"n\"") == "[ir] line 1: var wants list=[min, max]");
  CHECK(error_of("%0 = param u8 [4, 2.5]") == "[ir] line 1: '2.5' is not an integer");
  CHECK(error_of("%0 = param u8 [4 2]") == "[ir] line 1: expected ']' before '2]'");
  CHECK(error_of("%0 = param u8 name=\"w") == "[ir] line 1: a name is not closed with \"");
  CHECK(error_of("%0 = param u8 size=3") == "[ir] line 1: 'size' is not a field; fields are i, f, list and name");
  CHECK(error_of("0 = neg i64 1") == "[ir] line 1: expected '%' before '0 = neg i64 1'");
}

TEST_CASE("a graph that is too deep is refused") {
  std::string text = "%0 = neg i64 1\n";
  for (int i = 1; i < 30000; ++i) text += "%" + std::to_string(i) + " = neg i64 %" + std::to_string(i - 1) + "\n";
  CHECK(error_of(text) == "[ir] line 20002: the graph is more than 20000 nodes deep");
}

TEST_CASE("infix shows a scalar expression on one line") {
  Ref i = make(Op::Range, DType::I64, {constant(8)}, {.i = 0, .list = {0}});
  Ref v = variable("v", 0, 9);
  CHECK(to_infix((i * 256 + v) / 4) == "(r0*256 + v)/4");
  CHECK(to_infix(i * (v + 1) - (i - v)) == "r0*(v + 1) - (r0 - v)");
  CHECK(to_infix(i + constant(-3)) == "r0 - 3");
  CHECK(to_infix(cast(i, DType::F32) * constant_f(0.5)) == "f32(r0)*0.5");
  CHECK(to_infix(where(binary(Op::Lt, i, v), i, v)) == "where(r0 < v, r0, v)");
}
