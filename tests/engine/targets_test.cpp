// Other machines than this one: every kernel of the model compiles for them.
#include <doctest/doctest.h>

#include "engine/compile.h"
#include "model/deepseek2.h"
#include "render/llvm.h"
#include "runtime/target.h"
#include "support/effort.h"

using namespace smelt;

namespace {

Refs kernel_trees(int interleave) {
  static const GgufFile file =
      GgufFile::open(SMELT_SOURCE_DIR "/models/tiny-glm-Q4_K_M.gguf").take();
  const Hyperparameters model = read_hyperparameters(file).take();
  const ModelShape shape{.chunks = variable("chunks", 1, 4),
                         .context = 1088,
                         .cache_rows = 1088,
                         .page_entries = 17,
                         .interleave = interleave,
                         .quantise = true};
  ModelShape prefill = shape;
  prefill.tokens = variable("tokens8", 1, 4) * 8;
  Refs trees;
  for (const ModelShape& s : {shape, prefill})
    for (Ref root : {embed_segment(file, model, s).root, block_segment(file, model, s, 0).root,
                     block_segment(file, model, s, 3).root, head_segment(file, model, s).root})
      for (const Kernel& k : make_schedule(root).kernels)
        if (std::find(trees.begin(), trees.end(), k.tree) == trees.end()) trees.push_back(k.tree);
  return trees;
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
    CHECK(machine.lanes == target->vector_bytes / 4);
    for (Ref tree : kernel_trees(machine.lanes)) {
      const CodegenResult code = generate({.tree = tree,
                                           .name = kernel_name(tree),
                                           .machine = machine,
                                           .symbols = {"tokens8", "chunks"}});
      const Source source{.text = render_llvm(code.program, llvm_options(*target)),
                          .entry = code.program.name};
      CHECK(compile_object(source, "smelt_" + code.program.name, *target).size() > 200);
    }
  }
}
