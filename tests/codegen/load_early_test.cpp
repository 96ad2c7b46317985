// What a thread loads while the launch before still runs.
#include "codegen/load_early.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "codegen/instruction_views.h"
#include "codegen/program_verify.h"
#include "support/judge.h"
#include "support/program_builder.h"
#include "support/small_graphs.h"

using namespace smelt;
using namespace smelt::test;
using namespace smelt::testing;

namespace {

constexpr int kThreads = 64;

int64_t loads_before_wait(const Program& program) {
  const auto await = std::find_if(program.code.begin(), program.code.end(),
                                  [](const Instruction& x) { return x.kind == Inst::Await; });
  REQUIRE(await != program.code.end());
  return std::count_if(program.code.begin(), await, [](const Instruction& x) { return x.kind == Inst::Load; });
}

int given(ProgramBuilder& p, int index) { return p.add({.kind = Inst::Buffer, .arg = {.i = index, .list = {1}}}); }

Program moved(ProgramBuilder& p) {
  Program program = p.program();
  load_early(program);
  REQUIRE(problem_of(program) == "");
  return program;
}

}  // namespace

TEST_CASE("weights of a norm are loaded in front of the wait for the launch before, what it stores behind") {
  const Machine blocks{.parallelism = Parallelism::Threads, .block_threads = 256, .warp_threads = kWarp};
  Machine overlaps = blocks;
  overlaps.overlaps_launches = 1;
  const Tensor weights = given_param(1, DType::F32, {256}, "weights");
  const JudgedKernel kernel = kernel_of(sink({output(2, rms_norm(input(0, {1, 256}), weights))}), {}, 0, overlaps);
  CHECK(loads_before_wait(program_of(kernel, {{local("o1", 256)}}, overlaps)) == 1);
  CHECK(problem_with(kernel, {{local("o1", 256)}}, overlaps) == "");
}

TEST_CASE("a load goes ahead if all blocks may do it: not by the number of a task, nor under a condition from memory") {
  const auto loads = [](bool is_of_task, bool is_of_memory, int64_t threads) {
    ProgramBuilder p("loads", 3, 0, kThreads);
    p.add({.kind = Inst::Await});
    const int thread = p.thread_index(), own = p.mul(thread, p.integer(4)), written = p.buffer(0);
    const int end = is_of_memory ? p.cast(p.load(DType::I32, 1, written, p.integer(0)), DType::I64)
                                 : p.cast(p.op(Op::Lt, {p.part(), p.integer(2)}), DType::I64);
    const int zero = p.integer(0);
    const int loop =
        p.add({.kind = Inst::Loop, .dtype = DType::I64, .src = {zero, end}, .arg = {.i = threads, .list = {0, 1}}});
    const int at = is_of_task ? p.add2(own, p.mul(p.part(), p.integer(4 * kThreads))) : own;
    p.store(p.buffer(2), own, p.load(DType::F32, 1, given(p, 1), at));
    p.end(loop);
    return loads_before_wait(moved(p));
  };
  CHECK(loads(false, false, 0) == 1);
  CHECK(loads(true, false, 0) == 0);
  CHECK(loads(false, true, 0) == 0);
  CHECK(loads(false, false, 32) == 0);  // the address may be outside for the other threads
}

TEST_CASE("no more goes ahead than a thread has registers for") {
  ProgramBuilder p("many", 2, 0, kThreads);
  p.add({.kind = Inst::Await});
  const int own = p.mul(p.thread_index(), p.integer(4)), weights = given(p, 0), out = p.buffer(1);
  for (int i = 0; i < 40; ++i) {
    const int at = p.add2(own, p.integer(i * 4 * kThreads));
    p.store(out, at, p.load(DType::F32, 1, weights, at));
  }
  CHECK(loads_before_wait(moved(p)) == 16);
}

TEST_CASE("a load behind a barrier goes to where its loop begins") {
  ProgramBuilder p("behind", 2, 0, kThreads);
  p.add({.kind = Inst::Await});
  const int thread = p.thread_index(), weights = given(p, 0), out = p.buffer(1);
  const int loop = p.loop(4);
  p.barrier();
  const int at = p.mul(p.add2(thread, p.mul(loop, p.integer(kThreads))), p.integer(4));
  p.store(out, at, p.load(DType::F32, 1, weights, at));
  p.end(loop);
  const Program program = moved(p);
  const auto find = [&](Inst kind) {
    return std::find_if(program.code.begin(), program.code.end(), [&](const Instruction& x) { return x.kind == kind; });
  };
  CHECK(find(Inst::Load) < find(Inst::Barrier));
  CHECK(find(Inst::Loop) < find(Inst::Load));
}
