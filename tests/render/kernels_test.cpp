// Whole programs: loops, accumulators, workers, gathers, tables, scratch memory.
#include <doctest/doctest.h>

#include <numeric>
#include <random>

#include "support/program_builder.h"
#include "support/run_program.h"

using namespace smelt;
using namespace smelt::test;

namespace {

std::vector<float> random_floats(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> distribution(-1, 1);
  std::vector<float> floats(count);
  for (float& x : floats) x = distribution(random);
  return floats;
}

void check_close(const Bytes& got, const Bytes& expected, double tolerance) {
  std::vector<float> a = values_of<float>(got), b = values_of<float>(expected);
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(tolerance));
}

// out = a * 2 + b, 16 lanes, blocks divided among the workers.
Program scaled_sum() {
  ProgramBuilder p("scaled_sum", 3);
  int blocks = p.symbol("blocks"), part = p.part(), parts = p.parts();
  int begin = p.op(Op::Div, {p.mul(blocks, part), parts});
  int end = p.op(Op::Div, {p.mul(blocks, p.add2(part, p.integer(1))), parts});
  int loop = p.loop(begin, end), offset = p.mul(loop, p.integer(64));
  int a = p.load(DType::F32, 16, p.buffer(0), offset), b = p.load(DType::F32, 16, p.buffer(1), offset);
  p.store(p.buffer(2), offset, p.add2(p.mul(a, p.real(2)), b));
  p.end(loop);
  return p.program();
}

// out[0] = sum of a * b over blocks of `lanes`.
Program dot(int lanes, int64_t blocks) {
  ProgramBuilder p("dot", 3);
  int acc = p.acc(p.real(0), lanes), loop = p.loop(blocks), offset = p.mul(loop, p.integer(4 * lanes));
  int a = p.load(DType::F32, lanes, p.buffer(0), offset), b = p.load(DType::F32, lanes, p.buffer(1), offset);
  p.set(acc, p.add2(p.get(acc), p.mul(a, b)));
  p.end(loop);
  p.store(p.buffer(2), p.integer(0), p.lane_reduce(Op::ReduceSum, p.get(acc)));
  return p.program();
}

}  // namespace

TEST_CASE("an elementwise kernel gives the same for any number of workers") {
  Buffers buffers{bytes_of(random_floats(160, 1)), bytes_of(random_floats(160, 2)), Bytes(640)};
  Buffers one = compiled(scaled_sum(), buffers, {10});
  for (int64_t parts : {2, 3, 16}) CHECK((compiled(scaled_sum(), buffers, {10}, parts) == one));
  check_close(one[2], evaluated(scaled_sum(), buffers, {10}, 3)[2], 1e-6);
}

TEST_CASE("a dot product adds its lanes, whatever their number") {
  for (int lanes : {1, 2, 3, 8, 12, 16, 32}) {
    CAPTURE(lanes);
    Buffers buffers{bytes_of(random_floats(static_cast<size_t>(lanes) * 9, 3)),
                    bytes_of(random_floats(static_cast<size_t>(lanes) * 9, 4)), Bytes(4)};
    for (const CpuTarget& target : runnable_targets())
      check_close(compiled(dot(lanes, 9), buffers, {}, 1, target)[2], evaluated(dot(lanes, 9), buffers)[2], 1e-5);
  }
}

TEST_CASE("the greatest lane is found") {
  ProgramBuilder p("greatest", 2);
  p.store(p.buffer(1), p.integer(0), p.lane_reduce(Op::ReduceMax, p.load(DType::I32, 12, p.buffer(0), p.integer(0))));
  Buffers buffers{bytes_of<int32_t>({-5, -2, -9, -3, -8, -7, -6, -4, -11, -12, -1, -10}), Bytes(4)};
  CHECK(values_of<int32_t>(compiled(p.program(), buffers)[1])[0] == -1);
  CHECK(values_of<int32_t>(evaluated(p.program(), buffers)[1])[0] == -1);
}

TEST_CASE("a vector of offsets gathers and scatters, at any alignment") {
  ProgramBuilder p("gather", 3);
  int index = p.load(DType::I32, 16, p.buffer(0), p.integer(0));
  int offset = p.add2(p.mul(p.cast(index, DType::I64), p.integer(4)), p.integer(1));
  int row = p.load(DType::F32, 16, p.buffer(1), offset);
  int reversed = p.mul(p.op(Op::Sub, {p.integer(15), p.lane_index(DType::I64, 16)}), p.integer(4));
  p.store(p.buffer(2), reversed, row);
  std::vector<int32_t> order{7, 7, 0, 31, 2, 5, 9, 30, 11, 12, 13, 1, 3, 4, 6, 8};
  Bytes table(1);
  for (std::byte x : bytes_of(random_floats(32, 5))) table.push_back(x);
  Buffers buffers{bytes_of(order), table, Bytes(64)};
  for (const CpuTarget& target : runnable_targets())
    CHECK((compiled(p.program(), buffers, {}, 1, target) == evaluated(p.program(), buffers)));
}

TEST_CASE("tables are looked up by byte shuffles and by loads") {
  std::vector<int64_t> kvalues{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  std::vector<int64_t> bytes{200, 1, 255, 4}, wide{70000, -70000, 3, 5, 9}, large(200);
  std::iota(large.begin(), large.end(), -100);
  struct Case {
    std::vector<int64_t> table;
    DType dtype;
  };
  std::vector<Case> cases{{kvalues, DType::I8}, {kvalues, DType::F32}, {kvalues, DType::I32}, {bytes, DType::U8},
                          {bytes, DType::F32},  {wide, DType::I32},    {wide, DType::F32},    {large, DType::I16}};
  for (const Case& c : cases)
    for (int lanes : {1, 4, 16, 32, 48, 64, 96}) {
      ProgramBuilder p("table", 2);
      p.store(p.buffer(1), p.integer(0), p.lut(p.load(DType::U8, lanes, p.buffer(0), p.integer(0)), c.table, c.dtype));
      std::vector<uint8_t> index(static_cast<size_t>(lanes));
      for (size_t i = 0; i < index.size(); ++i) index[i] = static_cast<uint8_t>((i * 7 + 3) % c.table.size());
      Buffers buffers{bytes_of(index), Bytes(index.size() * static_cast<size_t>(size_of(c.dtype)))};
      CAPTURE(lanes);
      CAPTURE(c.table.size());
      CAPTURE(name_of(c.dtype));
      CHECK((compiled(p.program(), buffers) == evaluated(p.program(), buffers)));
      if (lanes == 32)
        for (const CpuTarget& target : runnable_targets())
          CHECK((compiled(p.program(), buffers, {}, 1, target) == evaluated(p.program(), buffers)));
    }
}

TEST_CASE("scratch memory carries values between two loops") {
  ProgramBuilder p("two_loops", 2, 16 + 64 * 4);
  int first = p.loop(4), at = p.mul(first, p.integer(64));
  int x = p.load(DType::F32, 16, p.buffer(0), at);
  p.store(p.scratch(16), at, p.mul(x, x));
  p.end(first);
  int second = p.loop(64), from = p.mul(p.op(Op::Sub, {p.integer(63), second}), p.integer(4));
  p.store(p.buffer(1), p.mul(second, p.integer(4)), p.load(DType::F32, 1, p.scratch(16), from));
  p.end(second);
  Buffers buffers{bytes_of(random_floats(64, 6)), Bytes(256)};
  CHECK((compiled(p.program(), buffers) == evaluated(p.program(), buffers, {}, 1, {.round_f32 = true})));
}

TEST_CASE("loops nest, may be empty, and accumulators begin anew in each round") {
  ProgramBuilder p("nested", 1);
  int n = p.symbol("n"), zero = p.integer(0), total = p.acc(zero, 1);
  int i = p.loop(zero, n), row = p.acc(zero, 1);
  int j = p.loop(zero, i);
  p.set(row, p.add2(p.get(row), j));
  p.end(j);
  p.set(total, p.add2(p.get(total), p.get(row)));
  p.end(i);
  p.store(p.buffer(0), zero, p.get(total));
  for (auto [count, sum] : {std::pair{0, 0}, {-3, 0}, {1, 0}, {5, 10}}) {
    Buffers buffers{Bytes(8)};
    CHECK(values_of<int64_t>(compiled(p.program(), buffers, {count})[0])[0] == sum);
    CHECK(values_of<int64_t>(evaluated(p.program(), buffers, {count})[0])[0] == sum);
  }
}

TEST_CASE("a buffer that is written may be read again") {
  ProgramBuilder p("in_place", 1);
  int buffer = p.buffer(0), loop = p.loop(7), here = p.mul(loop, p.integer(4));
  int next = p.add2(here, p.integer(4));
  p.store(buffer, next, p.add2(p.load(DType::I32, 1, buffer, here), p.load(DType::I32, 1, buffer, next)));
  p.end(loop);
  Buffers buffers{bytes_of<int32_t>({1, 1, 1, 1, 1, 1, 1, 1})};
  CHECK((values_of<int32_t>(compiled(p.program(), buffers)[0]) == std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8}));
  CHECK((compiled(p.program(), buffers) == evaluated(p.program(), buffers)));
}

TEST_CASE("programs compile for machines that are not here, and call nothing there") {
  ProgramBuilder p("elsewhere", 2);
  int in = p.buffer(0), out = p.buffer(1), zero = p.integer(0);
  int q = p.op(Op::And, {p.load(DType::U8, 32, in, zero), p.integer(15, DType::U8)});
  int x = p.mul(p.lut(q, {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}, DType::F32), p.real(0.5));
  int d = p.cast(p.load(DType::F16, 1, in, p.integer(32)), DType::F32);
  int y = p.op(Op::Log2, {p.op(Op::Exp2, {p.op(Op::Max, {p.mul(x, d), p.cast(q, DType::F32)})})});
  p.store(out, zero, p.cast(p.op(Op::Floor, {p.op(Op::Sqrt, {y})}), DType::BF16));
  p.store(out, p.integer(64), p.cast(p.lane_reduce(Op::ReduceSum, y), DType::F16));
  REQUIRE(problem_of(p.program()) == "");
  for (const char* name : {"aarch64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "sapphirerapids", "znver4"}) {
    CAPTURE(name);
    CpuTarget target = named_target(name).take();
    CHECK(compile_object({render_llvm(p.program(), machine_of(target)), "elsewhere"}, "elsewhere", target).size() > 0);
  }
}
