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

namespace {

// Rounds of a ring of three slots: each thread sends its piece of a round two rounds ahead, and adds up the words of
// the opposite thread.
Program ring_of_copies(int64_t rounds) {
  constexpr int64_t kSlots = 3, kSlot = kCopyBytes * kThreads;
  ProgramBuilder p("ring", 2, kSlots * kSlot, kThreads);
  const int thread = p.thread_index(), piece = p.mul(thread, p.integer(kCopyBytes)), slot_bytes = p.integer(kSlot);
  const int opposite = p.op(Op::Sub, {p.integer(kSlot - kCopyBytes), piece});
  const int in = p.buffer(0), ring = p.scratch(0), count = p.integer(rounds), slots = p.integer(kSlots);
  const int sum = p.acc(p.integer(0, DType::I32), 1);
  const auto send = [&](int round) {
    const int from = p.add2(piece, p.mul(round, slot_bytes));
    const int to = p.add2(piece, p.mul(p.op(Op::Mod, {round, slots}), slot_bytes));
    p.copy(in, from, ring, to, p.op(Op::Lt, {round, count}));
    p.copy_group();
  };
  for (int64_t i = 0; i + 1 < kSlots; ++i) send(p.integer(i));
  const int loop = p.loop(rounds);
  p.copy_wait(kSlots - 2);
  send(p.add2(loop, p.integer(kSlots - 1)));
  const int at = p.add2(opposite, p.mul(p.op(Op::Mod, {loop, slots}), slot_bytes));
  p.set(sum, p.add2(p.get(sum), p.load(DType::I32, 1, ring, at)));
  p.end(loop);
  p.store(p.buffer(1), p.mul(thread, p.integer(4)), p.get(sum));
  Program program = p.program();
  place_barriers(program);
  return program;
}

}  // namespace

TEST_CASE("threads wait once a round for what all of them have sent, and for the place of what is sent next") {
  for (int64_t rounds : {1, 2, 3, 8}) {
    const Program program = ring_of_copies(rounds);
    CHECK(barriers(program) == 1);
    std::vector<int32_t> in(static_cast<size_t>(rounds) * 4 * kThreads), out(kThreads, -1);
    for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<int32_t>(i);
    std::vector<ByteSpan> buffers{std::as_writable_bytes(std::span(in)), std::as_writable_bytes(std::span(out))};
    const Status status = evaluate(program, buffers, {}, 0, 1);
    REQUIRE_MESSAGE(status.ok(), (status ? "" : status.error().message));
    int64_t wanted = 0;
    for (int64_t r = 0; r < rounds; ++r) wanted += r * 4 * kThreads + 4 * (kThreads - 1);
    CHECK(out.front() == wanted);
  }
}

TEST_CASE("threads that read what others of their nest write wait each time") {
  const Program program = updates_of(false);
  CHECK(barriers(program) == 5);
  // 63 - t + t, then the same of all, + t.
  const std::vector<int32_t> words = results(program);
  CHECK(words.front() == 2 * (kThreads - 1));
  CHECK(words.back() == kThreads - 1);
}

namespace {

// The first 32 threads store their numbers and read those of the opposite ones, in a loop that they run once.
Program within_warp() {
  ProgramBuilder p("within", 1, 4 * kThreads, kThreads);
  const int thread = p.thread_index(), four = p.integer(4), own = p.mul(thread, four),
            other = p.op(Op::Sub, {p.integer(4 * (kWarp - 1)), own});
  const int scratch = p.scratch(0), out = p.buffer(0), zero = p.integer(0), one = p.integer(1);
  const int loop =
      p.add({.kind = Inst::Loop, .dtype = DType::I64, .src = {zero, one}, .arg = {.i = kWarp, .list = {0, 1}}});
  p.barrier();
  p.store(scratch, own, p.cast(thread, DType::I32));
  p.barrier();
  p.store(out, own, p.load(DType::I32, 1, scratch, other));
  p.end(loop);
  Program program = p.program();
  place_barriers(program);
  return program;
}

}  // namespace

TEST_CASE("threads that run a loop once wait for each other, and not for a round before") {
  const Program program = within_warp();
  CHECK(barriers(program) == 1);
  const auto barrier = std::find_if(program.code.begin(), program.code.end(),
                                    [](const Instruction& x) { return x.kind == Inst::Barrier; });
  CHECK(barrier->arg.i == kWarp);
  const std::vector<int32_t> words = results(program);
  CHECK(words.front() == kWarp - 1);
  CHECK(words[kWarp - 1] == 0);
  CHECK(words[kWarp] == -1);
}
