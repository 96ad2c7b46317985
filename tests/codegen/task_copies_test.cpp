// What a task reads, copied on chip as a whole: which nests do, what they send when, and that their values are right.
#include "codegen/task_copies.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "codegen/instruction_views.h"
#include "support/judge.h"
#include "support/small_graphs.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

// Blocks of a machine that holds enough for 8 tasks.
const Machine kCopies{.parallelism = Parallelism::Threads,
                      .processors = 2,
                      .block_threads = 256,
                      .warp_threads = kWarp,
                      .overlaps_launches = 1,
                      .task_copy_bytes = 32 << 10};

// 64 rows of weights, 8 a task, which 8 KB are.
const std::vector<Opt> kRows = {local("o1", 8), group("r1.1", 8), front("o1.0"), task("o1.0")};
Tensor weights() { return given_param(1, DType::F32, {64, 256}, "weights"); }
JudgedKernel product(const Tensor& of, int64_t rows = 4) {
  return kernel_of(sink({output(2, linear(input(0, {rows, 256}), of))}), {}, 0, kCopies);
}

int64_t count(const Program& program, Inst kind) {
  return std::count_if(program.code.begin(), program.code.end(), [&](const Instruction& x) { return x.kind == kind; });
}

int64_t count_before_wait(const Program& program, Inst kind) {
  const auto await = std::find_if(program.code.begin(), program.code.end(),
                                  [](const Instruction& x) { return x.kind == Inst::Await; });
  REQUIRE(await != program.code.end());
  return std::count_if(program.code.begin(), await, [&](const Instruction& x) { return x.kind == kind; });
}

// The same with another number of blocks; empty: the values are right.
std::string problem_with_blocks(const JudgedKernel& k, const Program& program, int64_t blocks) {
  std::vector<Bytes> after = k.buffers;
  std::vector<ByteSpan> spans(after.begin(), after.end());
  for (int64_t block = 0; block < blocks; ++block)
    if (Status s = evaluate(program, spans, {}, block, blocks); !s) return s.error().message;
  const KernelDifference d = difference(judged(k), views(after));
  return d.worst <= kAgreement ? "" : d.where;
}

}  // namespace

TEST_CASE("weights of the first task are sent before the launch waits, those of further ones over them") {
  const JudgedKernel kernel = product(weights());
  const Program program = program_of(kernel, {kRows}, kCopies);
  CHECK(count_before_wait(program, Inst::BulkCopy) == 1);
  CHECK(count(program, Inst::BulkCopy) == 2);
  CHECK(count(program, Inst::SignalWait) == 1);
  CHECK(count(program, Inst::Fetch) == 0);  // that would ask for the same bytes
  for (const Instruction& x : program.code)
    if (x.kind == Inst::BulkCopy) CHECK(BulkCopyView(x).bytes == 8 * 256 * 4);
  CHECK(problem_with_blocks(kernel, program, 1) == "");  // eight tasks one after the other
  CHECK(problem_with_blocks(kernel, program, 3) == "");
  CHECK(problem_with_blocks(kernel, program, 8) == "");
  CHECK(problem_with_blocks(kernel, program, 11) == "");  // some have none, and send nothing
}

TEST_CASE("what a launch may have written is not sent before the wait") {
  const JudgedKernel kernel = product(input(1, {64, 256}));
  CHECK(count(program_of(kernel, {kRows}, kCopies), Inst::BulkCopy) == 0);
  Program program = program_of(product(weights()), {kRows}, kCopies);
  for (Instruction& x : program.code)
    if (x.kind == Inst::Buffer) x.arg.list.clear();
  CHECK(problem_of(program).find("something has been done before it") != std::string::npos);
}

TEST_CASE("who does not wait for what was sent reads what is not there") {
  const JudgedKernel kernel = product(weights());
  Program program = program_of(kernel, {kRows}, kCopies);
  for (Instruction& x : program.code)
    if (x.kind == Inst::SignalWait) x = {.kind = Inst::Barrier};
  CHECK(problem_with_blocks(kernel, program, 8).find("is read before it is written") != std::string::npos);
}

TEST_CASE("weights are not copied where they find no room or tasks are many") {
  const JudgedKernel kernel = product(weights());
  const auto copies = [](const JudgedKernel& k, const std::vector<Opt>& opts, const Machine& machine) {
    return count(program_of(k, {opts}, machine), Inst::BulkCopy);
  };
  Machine changed = kCopies;
  changed.task_copy_bytes = (8 << 10) - 1;
  CHECK(copies(kernel, kRows, changed) == 0);
  changed = kCopies;
  changed.processors = 1;
  CHECK(copies(kernel, kRows, changed) == 0);
  changed = kCopies;
  changed.overlaps_launches = 0;
  CHECK(copies(kernel, kRows, changed) == 0);
  CHECK(copies(kernel_of(sink({output(2, linear(input(0, {variable("tokens", 1, 4), 256}), weights()))}),
                         {{"tokens", 4}}, 0, kCopies),
               {local("o1", 8), group("r1.1", 8), front("o1.0"), task("o1.0"), task("o0")}, kCopies) == 0);
}

// Heads have rows of weights and a vector of their own: 2 tasks for each.
TEST_CASE("what the rows of a task share goes along, where each task has its own") {
  const Tensor x = input(0, {4, 256}), w = given_param(1, DType::F32, {4, 16, 256}, "weights");
  const JudgedKernel kernel = kernel_of(sink({output(2, sum(unsqueeze(x, 1) * w, -1))}), {}, 0, kCopies);
  const std::vector<Opt> opts = {local("o1", 8), group("r1.1", 8), task("o0"), task("o1.0")};
  const Program program = program_of(kernel, {opts}, kCopies);
  CHECK(count(program, Inst::BulkCopy) == 2);
  CHECK(count(program, Inst::Copy) == 1);  // 1 KB, 16 bytes of each of 64 threads
  CHECK(count_before_wait(program, Inst::Copy) == 0);
  CHECK(count(program, Inst::CopyWait) == 1);
  for (int64_t blocks : {1, 3, 8, 9}) CHECK(problem_with_blocks(kernel, program, blocks) == "");
  CHECK(count(program_of(product(weights()), {kRows}, kCopies), Inst::Copy) == 0);  // all tasks read the same
}
