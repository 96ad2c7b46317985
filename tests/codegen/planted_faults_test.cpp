// Faults planted into the programs of blocks of threads that code generation makes: the evaluator names each of them.
#include <doctest/doctest.h>

#include "codegen/instruction_views.h"
#include "support/judge.h"
#include "support/small_graphs.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

const Machine kBlocks{.parallelism = Parallelism::Threads, .block_threads = 128, .warp_threads = kWarp};

// Kernels whose threads pass values to each other, and whose blocks have several tasks.
std::vector<JudgedKernel> kernels() {
  const Ref chunks = variable("chunks", 1, 4);
  const Tensor heads =
      attention(input(0, {2, 24}), input(1, {256, 24}), input(2, {1}, DType::I32), Dim(chunks * 64), 16);
  return {kernel_of(sink({output(2, linear(input(0, {8, 512}), input(1, {64, 512})))})),
          kernel_of(sink({output(2, rms_norm(input(0, {8, 512}), input(1, {512})))})),
          kernel_of(sink({output(1, softmax(input(0, {8, 512}), 1))})),
          kernel_of(sink({output(3, heads)}), {{"chunks", 2}})};
}

std::vector<size_t> all_of_kind(const Program& program, Inst kind) {
  std::vector<size_t> found;
  for (size_t i = 0; i < program.code.size(); ++i)
    if (program.code[i].kind == kind) found.push_back(i);
  return found;
}

// REQUIRES: nobody names the instruction.
Program without(Program program, size_t at) {
  program.code.erase(program.code.begin() + static_cast<std::ptrdiff_t>(at));
  for (size_t i = at; i < program.code.size(); ++i)
    for (int& src : program.code[i].src)
      if (src > static_cast<int>(at)) --src;
  return program;
}

// Whether all threads wait there only because some of them run a loop that others do not.
bool is_beside_loop_of_some(const Program& program, size_t barrier) {
  const Instruction &before = program.code[barrier - 1], &behind = program.code[barrier + 1];
  const bool ends =
      before.kind == Inst::EndLoop && is_loop_of_some(program.code[static_cast<size_t>(only_operand(before))]);
  return ends || is_loop_of_some(behind);
}

bool is_found(const std::string& problem, const std::string& part) { return problem.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a barrier that is left out is missed, whichever it is, but around loops of some threads") {
  int planted = 0;
  for (const JudgedKernel& kernel : kernels()) {
    const Program program = program_of(kernel, {}, kBlocks);
    REQUIRE(problem_of_run(kernel, program) == "");
    for (const size_t barrier : all_of_kind(program, Inst::Barrier)) {
      if (is_beside_loop_of_some(program, barrier)) continue;
      CHECK_MESSAGE(is_found(problem_of_run(kernel, without(program, barrier)), "with no barrier between"),
                    print(program), "barrier %", barrier);
      ++planted;
    }
  }
  CHECK(planted >= 6);
}

TEST_CASE("stores of all threads in place of some are a race") {
  int planted = 0;
  for (const JudgedKernel& kernel : kernels()) {
    const Program program = program_of(kernel, {}, kBlocks);
    for (const size_t at : all_of_kind(program, Inst::Store)) {
      if (StoreInstView(program.code[at]).predicate < 0) continue;
      Program faulty = program;
      faulty.code[at].src.resize(3);
      CHECK_MESSAGE(is_found(problem_of_run(kernel, faulty), "writes, with no barrier between"), print(program),
                    "store %", at);
      ++planted;
    }
  }
  CHECK(planted >= 4);
}

TEST_CASE("loops that end at another round for each thread are named") {
  int planted = 0;
  for (const JudgedKernel& kernel : kernels()) {
    const Program program = program_of(kernel, {}, kBlocks);
    const std::vector<size_t> threads = all_of_kind(program, Inst::ThreadIndex);
    REQUIRE(!threads.empty());
    for (const size_t loop : all_of_kind(program, Inst::Loop)) {
      if (threads[0] > loop || program.code[threads[0]].dtype != program.code[loop].dtype) continue;
      Program faulty = program;
      faulty.code[loop].src[1] = static_cast<int>(threads[0]);
      CHECK_MESSAGE(is_found(problem_of_run(kernel, faulty), "threads diverge"), print(program), "loop %", loop);
      ++planted;
    }
  }
  CHECK(planted >= 4);
}
