// Where the threads of a block wait for each other.
#include "codegen/place_barriers.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "codegen/program_eval.h"
#include "support/program_builder.h"

using namespace smelt;
using namespace smelt::test;

namespace {

constexpr int kThreads = 64;

// Each thread stores its number on chip; then each adds to an element twice, its own or another thread's; then the
// results go to memory in the opposite order. Nests begin at barriers.
Program updates_of(bool are_own) {
  ProgramBuilder p("updates", 1, 4 * kThreads, kThreads);
  const int thread = p.thread_index(), four = p.integer(4), last = p.integer(4 * (kThreads - 1));
  const int own = p.mul(thread, four), other = p.op(Op::Sub, {last, own}), number = p.cast(thread, DType::I32);
  const int scratch = p.scratch(0), out = p.buffer(0);
  p.store(scratch, own, number);
  p.barrier();
  for (int i = 0; i < 2; ++i) {
    const int before = p.load(DType::I32, 1, scratch, are_own ? own : other);
    p.store(scratch, own, p.add2(before, number));
  }
  p.barrier();
  p.store(out, own, p.load(DType::I32, 1, scratch, other));
  Program program = p.program();
  place_barriers(program);
  return program;
}

int64_t barriers(const Program& program) {
  return std::count_if(program.code.begin(), program.code.end(),
                       [](const Instruction& x) { return x.kind == Inst::Barrier; });
}

std::vector<int32_t> results(const Program& program) {
  std::vector<int32_t> words(kThreads, -1);
  std::vector<ByteSpan> buffers{std::as_writable_bytes(std::span(words))};
  const Status status = evaluate(program, buffers, {}, 0, 1);
  REQUIRE_MESSAGE(status.ok(), (status ? "" : status.error().message));
  return words;
}

}  // namespace

TEST_CASE("a thread that updates its own elements waits only between nests") {
  const Program program = updates_of(true);
  CHECK(barriers(program) == 2);
  const std::vector<int32_t> words = results(program);
  CHECK(words.front() == 3 * (kThreads - 1));
  CHECK(words.back() == 0);
}

TEST_CASE("threads that read what others of their nest write wait each time") {
  const Program program = updates_of(false);
  CHECK(barriers(program) == 5);
  // 63 - t + t, then the same of all, + t.
  const std::vector<int32_t> words = results(program);
  CHECK(words.front() == 2 * (kThreads - 1));
  CHECK(words.back() == kThreads - 1);
}
