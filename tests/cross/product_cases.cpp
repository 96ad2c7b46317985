#include <map>

#include "codegen/codegen.h"
#include "cross/cases.h"
#include "model/product.h"
#include "support/judge.h"
#include "support/small_graphs.h"

namespace smelt::cross {

using namespace smelt::testing;

namespace {

// As in tests/engine/formats_test.cpp: W has 16 rows, and its scales are of ordinary size.
Case product_case(GgufType type, int interleave, bool of_bytes, int64_t tokens, const Machine& machine) {
  const Tensor x = param(0, DType::F32, {tokens, 512}, "x");
  const Tensor raw = raw_weight(1, type, {16}, 512, "w", {interleave});
  const Activations a = of_bytes ? quantise_activations(x) : Activations{.x = x};
  JudgedKernel k = kernel_of(sink({output(2, product(a, raw, type, {interleave}))}));
  for (testing::Bytes& buffer : k.buffers)
    if (buffer.size() == info_of(type).bytes * 16 * 512 / info_of(type).elements)
      for (std::byte& b : buffer) b &= std::byte{0x37};
  const std::string name = "product of " + std::to_string(tokens) + " with " + std::string(name_of(type)) +
                           (of_bytes ? ", bytes" : ", floats") + ", rows in groups of " + std::to_string(interleave);
  Program program = generate({.tree = k.tree, .name = "product", .machine = machine}).program;
  auto agreements = agreements_of(k.tree, k.buffers.size(), kAgreement);
  k.buffers.resize(std::max<size_t>(k.buffers.size(), static_cast<size_t>(program.buffers)));
  return evaluated_case(name, std::move(program), k.buffers, std::move(agreements), {}, 2);
}

// Of a prompt, with weights as kernels leave unpacked ones: by matrices where the machine has them.
Case grouped_case(int64_t tokens, int64_t words, const Machine& machine) {
  JudgedKernel k = kernel_of(sink({output(9, grouped_product(tokens, 32, 5, words, machine.lanes()))}));
  Program program = generate({.tree = k.tree, .name = "grouped", .machine = machine}).program;
  return evaluated_case("product of " + std::to_string(tokens) + " with groups of " + std::to_string(4 * words),
                        std::move(program), k.buffers, agreements_of(k.tree, k.buffers.size(), kAgreement), {}, 2);
}

}  // namespace

std::vector<Case> product_cases(const Machine& machine) {
  std::vector<Case> cases;
  for (uint32_t id = 0; id < 256; ++id) {
    const GgufTypeInfo* info = find_type(id);
    if (!info || !info->supported || info->elements == 1) continue;
    for (int interleave : {1, machine.lanes()})
      for (bool of_bytes : {false, true}) cases.push_back(product_case(info->type, interleave, of_bytes, 1, machine));
    cases.push_back(product_case(info->type, machine.lanes(), true, 5, machine));
  }
  for (int64_t tokens : {4, 8, 16, 40})
    for (int64_t words : {4, 8, 64}) cases.push_back(grouped_case(tokens, words, machine));
  return cases;
}

}  // namespace smelt::cross
