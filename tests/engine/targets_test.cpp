// Other machines than this one: every kernel of the model compiles for them.
#include <doctest/doctest.h>

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

// With or without its matrix units: GPUs of 2018 multiply smaller matrices.
Machine h100(bool units = true) {
  Machine machine = *known_machine("h100");
  if (!units) machine.matrix_units.clear();
  return machine;
}

// Every kernel as PTX for these architectures, made by the options that the heuristic chooses for the machine.
void check_ptx(const GgufFile& file, const Machine& machine, const std::vector<std::string>& all_architectures) {
  const std::vector<std::string> architectures = test::some(all_architectures);
  for (bool quantise : {true, false})
    for (Ref tree : test::kernel_trees(file, machine, static_cast<int>(machine.warp_threads), quantise)) {
      const Program program =
          generate({.tree = tree, .name = kernel_name(tree), .machine = machine, .symbols = {"tokens8", "chunks"}})
              .program;
      const Source source = source_of(program, machine);
      CHECK(program.threads <= machine.block_threads);
      CHECK(program.scratch_bytes <= machine.block_memory_bytes);
      for (const std::string& architecture : architectures)
        CHECK(compile_ptx(source, architecture).find(".entry " + program.name) != std::string::npos);
    }
}

}  // namespace

TEST_CASE(
    "every kernel of the model compiles for NEON, AVX2, SSE and AVX-512, with and without sums of "
    "bytes") {
  std::vector<const char*> names = {"aarch64",   "sapphirerapids", "x86-64-v3",  "x86-64-v2",
                                    "alderlake", "neoverse-n1",    "neoverse-v1"};
  if (test::kSanitized) names.resize(2);
  for (const char* name : names) {
    const auto target = named_target(name);
    REQUIRE(target.ok());
    const Machine machine = machine_of(*target);
    CHECK(machine.lanes() == target->vector_bytes / 4);
    for (Ref tree : test::kernel_trees(small_model(), machine, static_cast<int>(machine.lanes()))) {
      const CodegenResult code =
          generate({.tree = tree, .name = kernel_name(tree), .machine = machine, .symbols = {"tokens8", "chunks"}});
      const Source source{.text = render_llvm(code.program, machine_of(*target)), .entry = code.program.name};
      CHECK(compile_object(source, "smelt_" + code.program.name, *target).size() > 200);
    }
  }
}

TEST_CASE("every kernel of the small model becomes PTX for the GPUs of 2018, 2020 and 2022") {
  check_ptx(small_model(), h100(false), {"sm_75"});
  check_ptx(small_model(), h100(), {"sm_80", "sm_90"});
}

TEST_CASE("every kernel of the full-size model becomes PTX, and keeps on chip no more than a block has") {
  check_ptx(test::FullSizeGlm(GgufType::Q4_0).file(), h100(), {"sm_90a"});
}
