// Products with the weights of every block format, through the whole compiler.
#include <doctest/doctest.h>

#include <algorithm>

#include "base/machine.h"
#include "engine/kernel_builder.h"
#include "graph/rules_algebra.h"
#include "model/layout_choice.h"
#include "model/product.h"
#include "runtime/llvm/compile.h"
#include "runtime/llvm/ptx.h"
#include "runtime/target.h"
#include "support/block_formats.h"
#include "support/judge.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

// The kernel of y = W x for W [rows, columns] and some tokens; scales are of ordinary size.
JudgedKernel product_kernel(GgufType type, WeightLayout layout, int64_t rows = 16, int64_t columns = 512,
                            Dim tokens = 1, const Variables& variables = {}) {
  const Tensor x = param(0, DType::F32, {tokens, columns}, "x");
  const Tensor raw = raw_weight(1, type, {rows}, columns, "w", layout);
  const Ref root = sink({output(2, product(quantise_activations(x), raw, type, layout))});
  JudgedKernel k = kernel_of(root, variables, make_schedule(root).kernels.size() - 1);
  for (Bytes& buffer : k.buffers)
    if (static_cast<int64_t>(buffer.size()) == info_of(type).bytes * rows * columns / info_of(type).elements)
      for (std::byte& b : buffer) b &= std::byte{0x37};
  return k;
}

size_t count(const Program& program, bool (*is)(const Instruction&)) {
  return static_cast<size_t>(std::count_if(program.code.begin(), program.code.end(), is));
}

size_t dots_in(const Program& program) {
  return count(program, [](const Instruction& x) { return x.op == Op::Dot4 && x.arg.i != 1; });
}

size_t streamed_loads_in(const Program& program) {
  return count(program, [](const Instruction& x) { return x.kind == Inst::Load && x.arg.i == 1; });
}

}  // namespace

TEST_CASE("integer products are dots of words for every block format") {
  const auto formats = block_formats();
  CHECK(formats.size() >= 13);
  for (GgufType type : formats)
    for (const WeightLayout layout : {WeightLayout{}, WeightLayout{16}, WeightLayout{.interleave = 8, .piece = 16}}) {
      CAPTURE(name_of(type));
      CAPTURE(to_string(layout));
      const JudgedKernel k = product_kernel(type, layout);
      CHECK(dots_in(program_of(k, {})) > 0);
      CHECK(problem_with(k, {}) == "");
    }
}

TEST_CASE("prompts multiply words of bytes from panels, whatever the groups of a format") {
  const Machine zen4 = *known_machine("zen4");
  const Dim tokens(variable("tokens8", 1, 64) * 8);
  for (GgufType type : block_formats()) {
    CAPTURE(name_of(type));
    const JudgedKernel k = product_kernel(type, {16}, 32, 512, tokens, {{"tokens8", 2}});
    const auto made = generate({.tree = k.tree, .name = "product", .machine = zen4});
    const auto has_panel = [](const std::vector<Opt>& nest) { return !nest.empty() && nest[0].kind == OptKind::Panel; };
    CHECK(std::any_of(made.opts.begin(), made.opts.end(), has_panel));
    CHECK(dots_in(made.program) > 0);
    CHECK(problem_with(k, made.opts) == "");
  }
}

TEST_CASE("products are right in every layout that a search may try" * doctest::test_suite("generated")) {
  for (GgufType type : block_formats())
    for (WeightLayout layout : layouts_to_try(type, 32, 16)) {
      CAPTURE(name_of(type));
      CAPTURE(to_string(layout));
      CHECK(problem_with(product_kernel(type, layout, 32), {}) == "");
    }
}

TEST_CASE("products with codebooks and digits of base 3 become PTX") {
  const Machine h100 = *known_machine("h100");
  for (GgufType type : {GgufType::IQ2_XXS, GgufType::IQ3_S, GgufType::IQ1_M, GgufType::TQ1_0, GgufType::NVFP4}) {
    CAPTURE(name_of(type));
    const JudgedKernel k = product_kernel(type, {32}, 32);
    const Program program = generate({.tree = k.tree, .name = "product", .machine = h100}).program;
    CHECK(compile_ptx(source_of(program, h100), "sm_90").find(".entry product") != std::string::npos);
  }
}

TEST_CASE("products of long rows with codebooks take no more of a stack than kernels may") {
  const Machine machine = *known_machine("sapphire-rapids");
  const CpuTarget target = named_target("sapphirerapids").take();
  for (GgufType type :
       {GgufType::IQ1_S, GgufType::IQ1_M, GgufType::IQ2_XXS, GgufType::IQ2_XS, GgufType::IQ3_XXS, GgufType::NVFP4}) {
    CAPTURE(name_of(type));
    const JudgedKernel k = product_kernel(type, {16}, 3072, 8192);
    const Program program = generate({.tree = k.tree, .name = "product", .machine = machine}).program;
    CHECK(compile_object(source_of(program, machine), "product", target).size() > 200);
  }
}

TEST_CASE("the words of a matrix that no cache holds are loaded in the order of the program") {
  for (GgufType type : {GgufType::Q4_0, GgufType::Q6_K}) {
    CAPTURE(name_of(type));
    const JudgedKernel small = product_kernel(type, {16}), large = product_kernel(type, {16}, 1024);
    CHECK(streamed_loads_in(program_of(small, {})) == 0);
    CHECK(streamed_loads_in(program_of(large, {})) > 0);
    CHECK(problem_with(large, {}) == "");
  }
}
