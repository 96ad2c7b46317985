// Blocks of threads in the program evaluator: what threads do together, and that races, missing barriers and loops that
// differ among threads are found.
#include <doctest/doctest.h>

#include <cstring>

#include "codegen/program_eval.h"
#include "codegen/program_verify.h"
#include "support/program_builder.h"

using namespace smelt;
using namespace smelt::test;

namespace {

constexpr int kThreads = 64;

// Runs the program as the only block on one buffer of `words`; the error, or nothing.
std::string run(const Program& program, std::vector<int32_t>& words) {
  REQUIRE(problem_of(program) == "");
  std::vector<ByteSpan> buffers{std::as_writable_bytes(std::span(words))};
  const Status status = evaluate(program, buffers, {}, 0, 1);
  return status.ok() ? "" : status.error().message;
}

std::string error_of(const Program& program) {
  std::vector<int32_t> words(kThreads, 0);
  return run(program, words);
}

// Byte offset 4 * thread, and the thread's number.
struct Mine {
  explicit Mine(ProgramBuilder& p)
      : thread(p.thread_index()), offset(p.mul(thread, p.integer(4))), number(p.cast(thread, DType::I32)) {}
  int thread, offset, number;
};

}  // namespace

TEST_CASE("each thread of a block has an index, and stores by it") {
  ProgramBuilder p("numbers", 1, 0, kThreads);
  const Mine mine(p);
  p.store(p.buffer(0), mine.offset, mine.number);
  std::vector<int32_t> words(kThreads, -1);
  CHECK(run(p.program(), words) == "");
  for (int i = 0; i < kThreads; ++i) CHECK(words[static_cast<size_t>(i)] == i);
}

TEST_CASE("threads read each other's values within a warp") {
  ProgramBuilder p("sums", 1, 0, kThreads);
  const Mine mine(p);
  int sum = mine.number;
  for (int bits = kWarp / 2; bits > 0; bits /= 2) sum = p.add2(sum, p.shuffle(sum, bits));
  p.store(p.buffer(0), mine.offset, sum);
  std::vector<int32_t> words(kThreads, -1);
  CHECK(run(p.program(), words) == "");
  CHECK(words[0] == 31 * 32 / 2);
  CHECK(words[31] == words[0]);
  CHECK(words[32] == words[0] + 32 * 32);
}

TEST_CASE("what one thread stores on chip, others read behind a barrier") {
  for (bool waits : {true, false}) {
    ProgramBuilder p("reversed", 1, 4 * kThreads, kThreads);
    const Mine mine(p);
    const int last = p.integer(4 * (kThreads - 1)), scratch = p.scratch(0);
    p.store(scratch, mine.offset, mine.number);
    if (waits) p.barrier();
    p.store(p.buffer(0), mine.offset, p.load(DType::I32, 1, scratch, p.op(Op::Sub, {last, mine.offset})));
    std::vector<int32_t> words(kThreads, -1);
    const std::string error = run(p.program(), words);
    if (waits) {
      CHECK(error == "");
      CHECK(words[0] == kThreads - 1);
    } else {
      CHECK(error.ends_with("scratch: thread 0 reads byte 252, which thread 63 writes, with no barrier between"));
    }
  }
}

TEST_CASE("a barrier is missing where threads write again what others may still read") {
  ProgramBuilder p("twice", 1, 4, kThreads);
  const Mine mine(p);
  const int zero = p.integer(0), scratch = p.scratch(0), first = p.op(Op::Eq, {mine.thread, zero});
  p.store_if(first, scratch, zero, mine.number);
  p.barrier();
  p.store(p.buffer(0), mine.offset, p.load(DType::I32, 1, scratch, zero));
  p.store_if(first, scratch, zero, mine.number);
  CHECK(error_of(p.program())
            .ends_with("scratch: thread 0 writes byte 0, which every thread reads, with no barrier between"));
}

namespace {

// The first 16 threads send a piece each, in two groups of the same pieces to two places; then each thread reads the
// word of the opposite thread, from the first place or the second one.
std::string error_of_copies(int64_t left, bool waits_for_others, bool reads_second, std::vector<int32_t>& words) {
  constexpr int kBytes = 4 * kThreads;
  ProgramBuilder p("copies", 1, 2 * kBytes, kThreads);
  const Mine mine(p);
  const int last = p.integer(kBytes - 4), in = p.buffer(0), scratch = p.scratch(0), zero = p.integer(0);
  const int piece = p.mul(mine.thread, p.integer(kCopyBytes)), has_piece = p.op(Op::Lt, {piece, p.integer(kBytes)});
  const int second = p.add2(piece, p.integer(kBytes));
  p.copy(in, piece, scratch, piece, has_piece);
  p.copy_group();
  p.copy(in, piece, scratch, second, has_piece);
  p.copy_group();
  p.copy_wait(left);
  if (waits_for_others) p.barrier();
  const int at = p.add2(p.op(Op::Sub, {last, mine.offset}), reads_second ? p.integer(kBytes) : zero);
  const int read = p.load(DType::I32, 1, scratch, at);
  p.barrier();
  p.store(in, mine.offset, read);
  return run(p.program(), words);
}

}  // namespace

TEST_CASE("what threads have sent on chip is there when they have waited for it, and for each other") {
  std::vector<int32_t> words(kThreads);
  for (int i = 0; i < kThreads; ++i) words[static_cast<size_t>(i)] = i;
  const std::vector<int32_t> numbers = words;
  CHECK(error_of_copies(1, true, false, words) == "");
  CHECK(words.front() == kThreads - 1);
  words = numbers;
  CHECK(error_of_copies(0, true, true, words) == "");
  CHECK(words.back() == 0);
  CHECK(error_of_copies(1, true, true, words).ends_with("scratch byte 508 is read before it is written"));
  CHECK(error_of_copies(2, true, false, words).ends_with("scratch byte 252 is read before it is written"));
  CHECK(error_of_copies(0, false, false, words)
            .ends_with("scratch: thread 0 reads byte 252, which thread 15 writes, with no barrier between"));
}

TEST_CASE("a piece that is sent where others still read is a race") {
  ProgramBuilder p("early", 1, 4 * kThreads, kThreads);
  const Mine mine(p);
  const int scratch = p.scratch(0), in = p.buffer(0), zero = p.integer(0);
  const int first = p.op(Op::Eq, {mine.thread, zero});
  p.store(scratch, mine.offset, mine.number);
  p.barrier();
  const int read = p.load(DType::I32, 1, scratch, p.integer(8));
  p.copy(in, zero, scratch, zero, first);
  p.store(in, mine.offset, read);
  CHECK(error_of(p.program())
            .ends_with("scratch: thread 0 writes byte 8, which every thread reads, with no barrier between"));
}

TEST_CASE("two threads that store in one place are a race") {
  ProgramBuilder p("all", 1, 0, kThreads);
  const Mine mine(p);
  p.store(p.buffer(0), p.integer(0), mine.number);
  CHECK(error_of(p.program())
            .ends_with("buffer 0: thread 1 writes byte 0, which thread 0 writes, with no barrier between"));
}

TEST_CASE("a predicate says which threads store") {
  ProgramBuilder p("one", 1, 0, kThreads);
  const Mine mine(p);
  p.store_if(p.op(Op::Eq, {mine.thread, p.integer(5)}), p.buffer(0), p.integer(0), mine.number);
  std::vector<int32_t> words(kThreads, -1);
  CHECK(run(p.program(), words) == "");
  CHECK(words[0] == 5);
}

TEST_CASE("loops whose bounds differ among threads are named") {
  ProgramBuilder p("ragged", 1, 0, kThreads);
  const Mine mine(p);
  const int zero = p.integer(0), loop = p.loop(zero, mine.thread);
  p.barrier();
  p.end(loop);
  CHECK(error_of(p.program()).ends_with("threads diverge: a bound differs among them"));
}

TEST_CASE("accumulators are each thread's own") {
  ProgramBuilder p("multiples", 1, 0, kThreads);
  const Mine mine(p);
  const int zero = p.integer(0, DType::I32), sum = p.acc(zero, 1), loop = p.loop(3);
  p.set(sum, p.add2(p.get(sum), mine.number));
  p.end(loop);
  p.store(p.buffer(0), mine.offset, p.get(sum));
  std::vector<int32_t> words(kThreads, -1);
  CHECK(run(p.program(), words) == "");
  CHECK(words[7] == 21);
}

TEST_CASE("an illegal program of threads is refused with the reason") {
  const auto problem = [](int threads, auto build) {
    ProgramBuilder p("illegal", 1, 0, threads);
    build(p);
    return problem_of(p.program());
  };
  CHECK(problem(48, [](ProgramBuilder&) {}) == "a block of 48 threads is not one of whole warps");
  CHECK(problem(1, [](ProgramBuilder& p) { p.barrier(); }) == "barrier: a worker has one thread");
  CHECK(problem(32, [](ProgramBuilder& p) { p.lane_index(DType::I64, 4); }) ==
        "%0 = lane_index i64x4: the values of threads are scalars");
  CHECK(problem(32, [](ProgramBuilder& p) { p.shuffle(p.integer(1, DType::I32), 32); }) ==
        "%1 = shuffle i32 %0 xor 32: a warp has 32 threads");
  CHECK(problem(32, [](ProgramBuilder& p) { p.shuffle(p.integer(1), 1); }) ==
        "%1 = shuffle i64 %0 xor 1: values of 4 bytes are wanted");
  CHECK(problem(32, [](ProgramBuilder& p) {
          const int x = p.integer(0);
          p.store_if(x, p.buffer(0), x, x);
        }) == "store i64 %1 %0 %0 %0: operand %0 is not a bool");
}

TEST_CASE("a loop of the first threads is one of whole warps, and its barriers wait for these alone") {
  const auto problem = [](int64_t of_loop, int64_t of_barrier) {
    ProgramBuilder p("some", 1, 0, 128);
    const int loop = p.loop(p.integer(0), p.integer(4));
    p.barrier();
    p.end(loop);
    Program program = p.program();
    for (Instruction& i : program.code) {
      if (i.kind == Inst::Loop) i.arg.i = of_loop;
      if (i.kind == Inst::Barrier) i.arg.i = of_barrier;
    }
    return problem_of(program);
  };
  CHECK(problem(64, 64) == "");
  CHECK(problem(48, 48).find("a loop is run by all threads, or by the first warps of them") != std::string::npos);
  CHECK(problem(128, 128).find("a loop is run by all threads, or by the first warps of them") != std::string::npos);
  CHECK(problem(64, 0).find("it waits for threads that do not come here") != std::string::npos);
  CHECK(problem(0, 64).find("it waits for threads that do not come here") != std::string::npos);
}
