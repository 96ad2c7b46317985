// Other machines than this one: every kernel of the model compiles for them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/machine.h"
#include "engine/kernel_builder.h"
#include "render/llvm.h"
#include "runtime/llvm/compile.h"
#include "runtime/llvm/ptx.h"
#include "runtime/target.h"
#include "support/effort.h"
#include "support/full_size_glm.h"
#include "support/model_kernels.h"

using namespace smelt;

namespace {

GgufFile small_model() { return GgufFile::open(SMELT_SOURCE_DIR "/models/tiny-glm-Q4_K_M.gguf").take(); }

// An H100 as far as older GPUs go: before 2020 they multiply smaller matrices, before 2022 launches do not overlap.
Machine machine_for(const std::string& architecture) {
  Machine machine = *known_machine("h100");
  if (architecture == "sm_75") machine.matrix_units.clear(), machine.ring_bytes = 0;
  if (architecture < "sm_90") machine.overlaps_launches = 0, machine.task_copy_bytes = 0;
  return machine;
}

// Buffers of the program that launches write.
std::set<std::string> written_buffers(const Program& program) {
  std::set<std::string> parameters;
  for (const Instruction& x : program.code)
    if (x.kind == Inst::Buffer && x.arg.list.empty())
      parameters.insert("[" + program.name + "_param_" + std::to_string(x.arg.i) + "]");
  return parameters;
}

// Lines of PTX up to the wait for the launch before: these read nothing that launches write, neither by an address of
// such a buffer nor on chip, and store nothing.
bool reads_too_early(const std::string& ptx, const Program& program) {
  const size_t wait = ptx.find("griddepcontrol.wait");
  std::istringstream lines(ptx.substr(0, wait == std::string::npos ? 0 : wait));
  const std::set<std::string> parameters = written_buffers(program);
  std::set<std::string> addresses;  // registers that hold one of a written buffer
  std::string line;
  while (std::getline(lines, line)) {
    std::vector<std::string> words;
    for (const char* at = line.c_str(); *at;) {
      const size_t length = std::strcspn(at, " \t,;+");
      if (length > 0) words.emplace_back(at, length);
      at += length + (at[length] ? 1 : 0);
    }
    if (words.size() < 3) continue;
    const std::string& op = words[0];
    const bool is_address = std::any_of(words.begin() + 2, words.end(), [&](std::string from) {
      std::erase_if(from, [](char c) { return c == '[' || c == ']'; });
      return addresses.contains(from);
    });
    if (op.starts_with("st.") || op.starts_with("ld.shared") || (op.starts_with("ld.global") && is_address))
      return true;
    if (op.starts_with("ld.param") ? parameters.contains(words[2]) : is_address) addresses.insert(words[1]);
  }
  return false;
}

// Every kernel as PTX, made by the options that the heuristic chooses for the machine.
void check_ptx(const GgufFile& file, const std::string& architecture) {
  const Machine machine = machine_for(architecture);
  for (bool quantise : {true, false})
    for (Ref tree : test::kernel_trees(file, machine, static_cast<int>(machine.warp_threads), quantise)) {
      const Program program =
          generate(
              {.tree = tree, .name = kernel_name(tree), .machine = machine, .symbols = {"tokens8", "chunks", "pages"}})
              .program;
      const Source source = source_of(program, machine);
      CHECK(program.threads <= machine.block_threads);
      CHECK(program.scratch_bytes <= machine.block_memory_bytes);
      const std::string ptx = compile_ptx(source, architecture);
      CHECK(ptx.find(".entry " + program.name) != std::string::npos);
      CHECK((ptx.find("griddepcontrol.wait") != std::string::npos) == (machine.overlaps_launches == 1));
      CHECK_FALSE(reads_too_early(ptx, program));
    }
}

}  // namespace

TEST_CASE(
    "every kernel of the model compiles for NEON, AVX2, SSE and AVX-512, with and without sums of "
    "bytes") {
  std::vector<const char*> names = {"aarch64", "sapphirerapids", "x86-64-v2", "alderlake"};
  if (test::kSanitized) names.resize(2);
  for (const char* name : names) {
    const auto target = named_target(name);
    REQUIRE(target.ok());
    const Machine machine = machine_of(*target);
    CHECK(machine.lanes() == target->vector_bytes / 4);
    for (Ref tree : test::kernel_trees(small_model(), machine, static_cast<int>(machine.lanes()))) {
      const CodegenResult code = generate(
          {.tree = tree, .name = kernel_name(tree), .machine = machine, .symbols = {"tokens8", "chunks", "pages"}});
      const Source source{.text = render_llvm(code.program, machine_of(*target)), .entry = code.program.name};
      CHECK(compile_object(source, "smelt_" + code.program.name, *target).size() > 200);
    }
  }
}

TEST_CASE("every kernel of the small model becomes PTX for the GPUs of 2018, 2020 and 2022") {
  for (const std::string& architecture : test::some(std::vector<std::string>{"sm_75", "sm_80", "sm_90"}))
    check_ptx(small_model(), architecture);
}

TEST_CASE("every kernel of the full-size model becomes PTX, and keeps on chip no more than a block has") {
  check_ptx(test::FullSizeGlm(GgufType::Q4_0).file(), "sm_90a");
}

TEST_CASE("a maximum, and rounding down to an integer, are one instruction of a GPU each") {
  const Machine machine = machine_for("sm_90");
  bool has_bytes = false;
  for (Ref tree : test::kernel_trees(small_model(), machine, static_cast<int>(machine.warp_threads), true)) {
    const Program program =
        generate(
            {.tree = tree, .name = kernel_name(tree), .machine = machine, .symbols = {"tokens8", "chunks", "pages"}})
            .program;
    const std::string ptx = compile_ptx(source_of(program, machine), "sm_90");
    CHECK(ptx.find("cvt.rmi.f32.f32") == std::string::npos);
    has_bytes |= ptx.find("cvt.rmi.s32.f32") != std::string::npos && ptx.find("max.NaN.f32") != std::string::npos;
  }
  CHECK(has_bytes);
}
