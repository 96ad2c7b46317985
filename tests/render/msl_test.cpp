// Programs as text in the Metal Shading Language. What that text computes, tests/engine/metal_test.cpp says.
#include "render/msl.h"

#include <doctest/doctest.h>

#include "codegen/known_multiples.h"
#include "render/simd_reductions.h"
#include "render/wide_loads.h"
#include "support/golden.h"
#include "support/program_builder.h"

using namespace smelt;
using namespace smelt::test;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

int butterfly(ProgramBuilder& p, int x, Op op, std::vector<int64_t> steps) {
  for (int64_t bits : steps) x = p.op(op, {x, p.shuffle(x, bits)});
  return x;
}

// out[row] = sum over k of weight[row, k] * x[k], rows of 128 halves, each by a warp
Program half_rows() {
  ProgramBuilder p("half_rows", 3, 0, 64);
  const int out = p.buffer(0), weight = p.buffer(1), x = p.buffer(2), thread = p.thread_index(), part = p.part();
  const int lane = p.op(Op::Mod, {thread, p.integer(32)}), warp = p.op(Op::Div, {thread, p.integer(32)});
  const int rows = p.mul(part, p.integer(2)), row = p.add2(rows, warp);
  const int row_at = p.mul(row, p.integer(256)), lane_at = p.mul(lane, p.integer(8)), at = p.add2(row_at, lane_at);
  const int x_at = p.mul(lane, p.integer(16));
  int sum = p.real(0);
  for (int64_t k = 0; k < 4; ++k) {
    const int w_offset = p.add2(at, p.integer(2 * k)), x_offset = p.add2(x_at, p.integer(4 * k));
    const int w = p.cast(p.load(DType::F16, 1, weight, w_offset), DType::F32);
    sum = p.op(Op::Fma, {w, p.load(DType::F32, 1, x, x_offset), sum});
  }
  const int all = butterfly(p, sum, Op::Add, {16, 8, 4, 2, 1}), first = p.op(Op::Eq, {lane, p.integer(0)});
  const int out_at = p.mul(row, p.integer(4));
  p.store_if(first, out, out_at, all);
  return p.program();
}

// 4 bytes at `offset` of a buffer, as a word
std::string word_at(int64_t stride, int64_t offset) {
  ProgramBuilder p("word", 2, 0, 32);
  const int in = p.buffer(0), out = p.buffer(1), thread = p.thread_index();
  const int strided = p.mul(thread, p.integer(stride)), at = p.add2(strided, p.integer(offset));
  const int word = p.load(DType::U32, 1, in, at), to = p.mul(thread, p.integer(4));
  p.store(out, to, word);
  return render_msl(p.program());
}

std::vector<WideLoad> loads_of(const Program& program, int64_t most_bytes) {
  std::vector<WideLoad> found;
  const std::vector<WideLoad> all = wide_loads(program, known_multiples(program), most_bytes);
  for (size_t i = 0; i < all.size(); ++i)
    if (program.code[i].kind == Inst::Load) found.push_back(all[i]);
  return found;
}

}  // namespace

TEST_CASE("rows of halves times a vector, as a kernel for Metal") {
  CHECK_GOLDEN(render_msl(half_rows()), "render/half_rows.metal");
}

TEST_CASE("neighbours are loaded together as far as addresses are aligned, and an instruction is wide") {
  const std::vector<WideLoad> loads = loads_of(half_rows(), 16);
  REQUIRE(loads.size() == 8);
  for (size_t i = 0; i < loads.size(); ++i) {
    CHECK(loads[i].count == 4);
    CHECK(loads[i].element == static_cast<int>(i) / 2);
    CHECK(loads[i].first == loads[i % 2].first);
  }
  for (size_t i = 0; i < loads.size(); ++i) CHECK(loads_of(half_rows(), 8)[i].count == (i % 2 ? 2 : 4));
}

TEST_CASE("what is stored between two loads keeps them apart") {
  ProgramBuilder p("between", 1, 0, 32);
  const int buffer = p.buffer(0), zero = p.integer(0), four = p.integer(4), eight = p.integer(8);
  const int a = p.load(DType::F32, 1, buffer, zero);
  p.store(buffer, eight, a);
  p.store(buffer, eight, p.load(DType::F32, 1, buffer, four));
  for (const WideLoad& load : loads_of(p.program(), 16)) CHECK(load.count == 1);
}

TEST_CASE("a word whose address is less aligned is made of parts") {
  CHECK(contains(word_at(4, 0), "*(device const uint*)(in0 + "));
  CHECK(contains(word_at(18, 0), "as_type<uint>(ushort2(*(device const packed_ushort2*)(in0 + "));
  CHECK(contains(word_at(4, 1), "as_type<uint>(uchar4(*(device const packed_uchar4*)(in0 + "));
}

TEST_CASE("what one thread of a SIMD group has goes to all") {
  ProgramBuilder p("item", 1, 0, 32);
  const int buffer = p.buffer(0), at = p.mul(p.thread_index(), p.integer(4)), x = p.load(DType::F32, 1, buffer, at);
  p.store(buffer, at, p.add({.kind = Inst::WarpItem, .dtype = DType::F32, .src = {x}, .arg = {.i = 5}}));
  CHECK(contains(render_msl(p.program()), "simd_shuffle(v"));
}

TEST_CASE("sums and maxima over a whole SIMD group have a word of their own, others go step by step") {
  for (Op op : {Op::Add, Op::Max}) {
    ProgramBuilder p("all", 1, 0, 32);
    const int buffer = p.buffer(0), at = p.mul(p.thread_index(), p.integer(4)), x = p.load(DType::F32, 1, buffer, at);
    p.store(buffer, at, butterfly(p, x, op, {16, 8, 4, 2, 1}));
    CHECK(contains(render_msl(p.program()), op == Op::Max ? "simd_max(v" : "simd_sum(v"));
    CHECK(!contains(render_msl(p.program()), "simd_shuffle_xor"));
  }
  for (const std::vector<int64_t>& steps : {std::vector<int64_t>{8, 4, 2, 1}, {16, 8, 4, 2}, {16, 8, 2, 4, 1}}) {
    ProgramBuilder p("some", 1, 0, 32);
    const int buffer = p.buffer(0), at = p.mul(p.thread_index(), p.integer(4)), x = p.load(DType::F32, 1, buffer, at);
    p.store(buffer, at, butterfly(p, x, Op::Add, steps));
    CHECK(contains(render_msl(p.program()), "simd_shuffle_xor(v"));
    CHECK(!contains(render_msl(p.program()), "simd_sum"));
  }
}

TEST_CASE("a step that others need too is no part of a sum over a SIMD group") {
  ProgramBuilder p("needed", 1, 0, 32);
  const int buffer = p.buffer(0), at = p.mul(p.thread_index(), p.integer(4)), x = p.load(DType::F32, 1, buffer, at);
  const int half = butterfly(p, x, Op::Add, {16, 8}), all = butterfly(p, half, Op::Add, {4, 2, 1});
  p.store(buffer, at, p.add2(half, all));
  for (const SimdReduction& r : simd_reductions(p.program()).results) CHECK(r.value == -1);
}

TEST_CASE("a loop of the first threads is run by all where they wait in it, and the others touch nothing") {
  for (bool waits : {false, true}) {
    ProgramBuilder p("some", 1, 256, 64);
    const int buffer = p.buffer(0), scratch = p.scratch(0), thread = p.thread_index();
    const int at = p.mul(thread, p.integer(4)), zero = p.integer(0), end = p.integer(4);
    const int loop = p.add({.kind = Inst::Loop, .dtype = DType::I64, .src = {zero, end}, .arg = {.i = 32}});
    const int x = p.load(DType::F32, 1, buffer, at);
    p.store(scratch, at, x);
    if (waits) p.add({.kind = Inst::Barrier, .arg = {.i = 32}});
    p.end(loop);
    const std::string text = render_msl(p.program());
    CHECK(contains(text, waits ? "\n  for (" : "\n  if (thread < 32) for ("));
    CHECK(contains(text, "threadgroup_barrier(") == waits);
    CHECK(contains(text, "thread < 32 ? *(device const float*)") == waits);
    CHECK(contains(text, "if (thread < 32) *(threadgroup float*)") == waits);
  }
}
