// Sums and maxima over a warp that an NVIDIA GPU makes by one instruction.
#include "render/warp_reductions.h"

#include <doctest/doctest.h>

#include <string>

#include "codegen/program_verify.h"
#include "render/nvptx.h"
#include "runtime/llvm/ptx.h"
#include "support/program_builder.h"

using namespace smelt;
using namespace smelt::test;

namespace {

enum class Values : uint8_t { Any, Magnitudes };

// Each thread stores what all of its warp have, in five steps.
Program over_warp(DType dtype, Op op, Values values, bool waits) {
  ProgramBuilder p("over_warp", 1, 0, kWarp);
  const int buffer = p.buffer(0), at = p.mul(p.thread_index(), p.integer(4));
  if (waits) p.add({.kind = Inst::Await});
  int x = p.load(dtype, 1, buffer, at);
  if (values == Values::Magnitudes) x = p.op(Op::Max, {x, p.op(Op::Neg, {x})});
  for (int64_t bits = kWarp / 2; bits > 0; bits /= 2)
    x = p.op(op, {x, p.add({.kind = Inst::Shuffle, .dtype = dtype, .src = {x}, .arg = {.i = bits}})});
  p.store(buffer, at, x);
  return p.program();
}

std::string ptx_of(const Program& program) {
  const Source source{
      .text = render_nvptx(program), .entry = program.name, .shape = {.buffers = 1, .threads = 32, .tasks = 1}};
  return compile_ptx(source, "sm_90a");
}

bool is_one(const std::string& ptx, const std::string& instruction) {
  return ptx.find(instruction) != std::string::npos && ptx.find("shfl") == std::string::npos;
}

}  // namespace

TEST_CASE("a warp combines integers, and floats that have no sign, by one instruction") {
  CHECK(is_one(ptx_of(over_warp(DType::I32, Op::Add, Values::Any, true)), "redux.sync.add.s32"));
  CHECK(is_one(ptx_of(over_warp(DType::I32, Op::Max, Values::Any, true)), "redux.sync.max.s32"));
  CHECK(is_one(ptx_of(over_warp(DType::F32, Op::Max, Values::Magnitudes, true)), "redux.sync.max.u32"));
}

TEST_CASE("other floats go step by step, and all where a launch does not wait, as on older GPUs") {
  CHECK(ptx_of(over_warp(DType::F32, Op::Max, Values::Any, true)).find("redux") == std::string::npos);
  CHECK(ptx_of(over_warp(DType::F32, Op::Add, Values::Magnitudes, true)).find("redux") == std::string::npos);
  CHECK(ptx_of(over_warp(DType::I32, Op::Add, Values::Any, false)).find("redux") == std::string::npos);
}

TEST_CASE("what one thread of a warp has goes to all by one instruction") {
  ProgramBuilder p("item", 1, 0, kWarp);
  const int buffer = p.buffer(0), at = p.mul(p.thread_index(), p.integer(4)), x = p.load(DType::F32, 1, buffer, at);
  p.store(buffer, at, p.add({.kind = Inst::WarpItem, .dtype = DType::F32, .src = {x}, .arg = {.i = 5}}));
  CHECK(problem_of(p.program()) == "");
  CHECK(ptx_of(p.program()).find("shfl.sync.idx.b32") != std::string::npos);
}
