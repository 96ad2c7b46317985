// What a thread has stored on chip and reads again itself stays in its registers.
#include "codegen/keep_in_registers.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "codegen/instruction_views.h"
#include "codegen/place_barriers.h"
#include "codegen/program_eval.h"
#include "codegen/program_verify.h"
#include "support/judge.h"
#include "support/program_builder.h"
#include "support/small_graphs.h"

using namespace smelt;
using namespace smelt::test;
using namespace smelt::testing;

namespace {

constexpr int kThreads = 64;

int64_t count(const Program& program, Inst kind) {
  return std::count_if(program.code.begin(), program.code.end(), [&](const Instruction& x) { return x.kind == kind; });
}

// Loads of, and stores to, on-chip memory.
int64_t on_chip(const Program& program, Inst kind) {
  return std::count_if(program.code.begin(), program.code.end(), [&](const Instruction& x) {
    return x.kind == kind && program.code[static_cast<size_t>(AccessView(x).pointer)].kind == Inst::Scratch;
  });
}

Program finished(ProgramBuilder& p) {
  Program program = p.program();
  keep_in_registers(program);
  place_barriers(program);
  REQUIRE(problem_of(program) == "");
  return program;
}

std::vector<int32_t> results(const Program& program, int words = kThreads) {
  std::vector<int32_t> out(static_cast<size_t>(words), -1);
  std::vector<ByteSpan> buffers{std::as_writable_bytes(std::span(out))};
  const Status status = evaluate(program, buffers, {}, 0, 1);
  REQUIRE_MESSAGE(status.ok(), (status ? "" : status.error().message));
  return out;
}

// Each thread stores its number on chip, and a nest stores what it reads at `offset_of` of the thread to memory.
template <typename OffsetOf>
Program reads_at(OffsetOf offset_of) {
  ProgramBuilder p("reads", 1, 4 * kThreads, kThreads);
  p.barrier();
  const int thread = p.thread_index(), own = p.mul(thread, p.integer(4)), scratch = p.scratch(0);
  p.store(scratch, own, p.cast(thread, DType::I32));
  p.barrier();
  const int again = p.thread_index();
  p.store(p.buffer(0), p.mul(again, p.integer(4)), p.load(DType::I32, 1, scratch, offset_of(p, again)));
  return finished(p);
}

}  // namespace

TEST_CASE("a thread that reads what it has stored keeps it, however the offset is written") {
  // thread / 8 * 32 + thread % 8 * 4 is thread * 4.
  const Program program = reads_at([](ProgramBuilder& p, int thread) {
    const int row = p.mul(p.op(Op::Div, {thread, p.integer(8)}), p.integer(32));
    return p.add2(row, p.mul(p.op(Op::Mod, {thread, p.integer(8)}), p.integer(4)));
  });
  CHECK(on_chip(program, Inst::Load) == 0);
  CHECK(on_chip(program, Inst::Store) == 0);
  CHECK(count(program, Inst::Barrier) == 0);
  CHECK(results(program)[kThreads - 1] == kThreads - 1);
}

TEST_CASE("what another thread has stored is read on chip, behind a barrier") {
  const Program program = reads_at([](ProgramBuilder& p, int thread) {
    return p.mul(p.op(Op::Sub, {p.integer(kThreads - 1), thread}), p.integer(4));
  });
  CHECK(on_chip(program, Inst::Load) == 1);
  CHECK(on_chip(program, Inst::Store) == 1);
  CHECK(count(program, Inst::Barrier) == 1);
  CHECK(results(program)[0] == kThreads - 1);
}

TEST_CASE("a value that one of several threads has stored is that of all of them") {
  ProgramBuilder p("shared", 1, 4 * kThreads, kThreads);
  p.barrier();
  const int thread = p.thread_index(), eight = p.integer(8), row = p.op(Op::Div, {thread, eight});
  const int scratch = p.scratch(0), first = p.op(Op::Eq, {thread, p.mul(row, eight)});
  p.store_if(first, scratch, p.mul(row, p.integer(4)), p.cast(row, DType::I32));
  p.barrier();
  const int value = p.load(DType::I32, 1, scratch, p.mul(p.op(Op::Div, {thread, eight}), p.integer(4)));
  p.store(p.buffer(0), p.mul(thread, p.integer(4)), value);
  const Program program = finished(p);
  CHECK(on_chip(program, Inst::Load) == 0);
  CHECK(results(program)[kThreads - 1] == kThreads / 8 - 1);
}

TEST_CASE("what a nest in between has stored over is not kept") {
  ProgramBuilder p("twice", 1, 4 * kThreads, kThreads);
  p.barrier();
  const int thread = p.thread_index(), own = p.mul(thread, p.integer(4)), scratch = p.scratch(0);
  const int opposite = p.mul(p.op(Op::Sub, {p.integer(kThreads - 1), thread}), p.integer(4));
  const int number = p.cast(thread, DType::I32);
  p.store(scratch, own, number);
  p.barrier();
  p.store(scratch, opposite, number);
  p.barrier();
  p.store(p.buffer(0), own, p.load(DType::I32, 1, scratch, own));
  const Program program = finished(p);
  CHECK(on_chip(program, Inst::Load) == 1);
  CHECK(results(program)[0] == kThreads - 1);
}

TEST_CASE("what a loop stores over is not kept from round to round") {
  ProgramBuilder p("rounds", 1, 4 * kThreads, kThreads);
  p.barrier();
  const int thread = p.thread_index(), own = p.mul(thread, p.integer(4)), scratch = p.scratch(0);
  p.store(scratch, own, p.cast(thread, DType::I32));
  const int loop = p.loop(3);
  p.barrier();
  const int more = p.add2(p.load(DType::I32, 1, scratch, own), p.integer(1, DType::I32));
  p.barrier();
  p.store(scratch, own, more);
  p.end(loop);
  p.barrier();
  p.store(p.buffer(0), own, p.load(DType::I32, 1, scratch, own));
  const Program program = finished(p);
  CHECK(results(program)[5] == 5 + 3);
}

TEST_CASE("nests that run under one condition share its loop, so that values can pass from one to the next") {
  const auto under = [](int64_t second) {
    ProgramBuilder p("conditions", 1, 4 * kThreads, kThreads);
    const int scratch = p.scratch(0), out = p.buffer(0), zero = p.integer(0);
    int loops[2];
    for (int i = 0; i < 2; ++i) {
      const int is_wanted = p.cast(p.op(Op::Lt, {p.part(), p.integer(i == 0 ? 1 : second)}), DType::I64);
      loops[i] = p.add({.kind = Inst::Loop, .dtype = DType::I64, .src = {zero, is_wanted}, .arg = {.list = {0, 1}}});
      p.barrier();
      const int thread = p.thread_index(), own = p.mul(thread, p.integer(4));
      if (i == 0) p.store(scratch, own, p.cast(thread, DType::I32));
      if (i == 1) p.store(out, own, p.load(DType::I32, 1, scratch, own));
      p.end(loops[i]);
    }
    return finished(p);
  };
  const Program same = under(1), other = under(2);
  CHECK(count(same, Inst::Loop) == 1);
  CHECK(on_chip(same, Inst::Load) == 0);
  CHECK(results(same)[7] == 7);
  CHECK(count(other, Inst::Loop) == 2);
  CHECK(on_chip(other, Inst::Load) == 1);
  CHECK(results(other)[7] == 7);
}

// A norm, the maximum of each block of 32 and its bytes: a block makes them in front of a product.
TEST_CASE("a block makes the bytes of normed activations with three waits") {
  const Machine blocks{.parallelism = Parallelism::Threads, .block_threads = 256, .warp_threads = kWarp};
  const Tensor x = reshape(rms_norm(input(0, {1, 1024}), input(1, {1024})), {1, 32, 32});
  const Tensor scale = max(maximum(x, -x), -1) * (1.0 / 127),
               bytes = cast(floor(x / unsqueeze(scale, -1) + 0.5), DType::I8);
  const Tensor sums =
      sum(cast(unsqueeze(bytes, 1), DType::I32) * cast(input(2, {1, 64, 32, 32}, DType::I8), DType::I32), -1);
  const JudgedKernel kernel = kernel_of(sink({output(3, sum(cast(sums, DType::F32) * unsqueeze(scale, 1), -1))}));
  REQUIRE(kernel.tree->src.size() == 4);
  const Program program = program_of(kernel, {}, blocks);
  const auto task_loop =
      std::find_if(program.code.begin(), program.code.end(), [](const Instruction& i) { return i.kind == Inst::Loop; });
  CHECK(std::count_if(program.code.begin(), task_loop, [](const Instruction& i) { return i.kind == Inst::Barrier; }) <=
        3);
  CHECK(problem_with(kernel, {}, blocks) == "");
}
