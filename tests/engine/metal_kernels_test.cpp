// Each kernel of the small model in the Metal Shading Language, with every access checked (runtime/metal_shim/), beside
// the interpreter on the same random inputs.
#include <doctest/doctest.h>

#include <fstream>

#include "engine/replay.h"
#include "graph/text.h"
#include "support/model_kernels.h"
#include "support/temp_folder.h"

using namespace smelt;

TEST_CASE("every kernel of the small model agrees with the interpreter, as a kernel for Metal") {
  const test::TempFolder folder;
  const GgufFile file = GgufFile::open(SMELT_SOURCE_DIR "/models/tiny-glm-Q4_K_M.gguf").take();
  const Machine machine = *known_machine("m3-max");
  int kernels = 0, without_values = 0;
  for (Ref tree : test::kernel_trees(file, machine, machine.rows_side_by_side(), true, false)) {
    const std::string path = folder / (kernel_name(tree) + ".ir");
    std::ofstream(path) << print(tree);
    const auto report = replay_kernel(path, "metal-shim");
    // Bytes of numbers whose greatest one another kernel has found: random ones are beyond what bytes hold.
    if (!report && report.error().message.find("an undefined value is stored") != std::string::npos) {
      ++without_values;
      continue;
    }
    REQUIRE_MESSAGE(report.ok(), kernel_name(tree), ": ", (report ? "" : report.error().message));
    CHECK_MESSAGE(report->agrees, report->text);
    ++kernels;
  }
  CHECK(kernels > 40);
  CHECK(without_values < 8);
}
