// What blocks of threads read of small results: made once by a kernel that is there anyway, see store_once() in
// schedule/passes.h.
#include <doctest/doctest.h>

#include "support/graph_kernels.h"
#include "support/small_graphs.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

constexpr int64_t kExperts = 32, kWidth = 256, kInner = 96;

Tensor chosen_products(Tensor x, Tensor weights, Tensor experts) {
  return sum(gather(weights, reshape(cast(experts, DType::I64), {4})) * x, -1);  // [4, rows]
}

// Two products of a token's chosen experts behind each other, beside two of an expert that all tokens have.
Ref experts() {
  const Tensor x = input(0, {1, kWidth});
  const Routes r = route(x, input(1, {kExperts, kWidth}), input(2, {1, kExperts}), 4);
  const Tensor shared = place(silu(linear(x, input(3, {kInner, kWidth}))));
  const Tensor opened =
      place(silu(chosen_products(reshape(x, {1, 1, kWidth}), input(4, {kExperts, kInner, kWidth}), r.experts)));
  const Tensor closed =
      chosen_products(reshape(opened, {4, 1, kInner}), input(5, {kExperts, kWidth, kInner}), r.experts);
  const Tensor beside = place(linear(shared, input(6, {kWidth, kInner})));
  return sink({output(7, sum(closed * reshape(r.weights, {4, 1}), 0) + beside)});
}

RandomGraph with_numbers(Ref root) {
  RandomGraph g{.root = root};
  std::mt19937_64 random(3);
  std::normal_distribution<float> normal;
  for (Ref n : toposort(root)) {
    if (n->op != Op::Param) continue;
    int64_t count = 1;
    for (Ref d : n->shape) count *= *const_int(d);
    std::vector<float> values(static_cast<size_t>(count));
    for (float& v : values) v = normal(random);
    const auto bytes = std::as_bytes(std::span(values));
    g.buffers[n->arg.i] = Bytes(bytes.begin(), bytes.end());
  }
  return g;
}

// Blocks make as much for themselves as ranks are, and not a product with the router.
Machine gpu() {
  Machine machine = *known_machine("h100");
  machine.small_kernel_operations = 8 << 10, machine.small_kernel_local_operations = 12 << 10;
  return machine;
}

int64_t on_chip_nests(const Kernel& kernel) {
  const Refs& nests = nests_of(kernel);
  return std::count_if(nests.begin(), nests.end(), is_local_nest);
}

}  // namespace

TEST_CASE(
    "which experts a token has is found by the first kernel that reads their weights, and stored for later ones") {
  const Schedule schedule = make_schedule(experts(), gpu());
  INFO(summary(schedule));
  // The router; ranks, the list and the first products of the chosen beside the shared expert; the last.
  CHECK(schedule.kernels.size() == 3);
  CHECK(on_chip_nests(schedule.kernels[1]) == 3);  // what is ranked, ranks, the list
  CHECK(on_chip_nests(schedule.kernels.back()) == 2);
}

TEST_CASE("ranks of many experts are found once, by a kernel before those that read their weights") {
  Machine machine = gpu();
  machine.small_kernel_local_operations = 4 << 10;
  const Schedule schedule = make_schedule(experts(), machine);
  INFO(summary(schedule));
  const std::string text = summary(schedule);
  const size_t first = text.find("[4,96]");  // products of the chosen
  REQUIRE(first != std::string::npos);
  CHECK(text.rfind("reduce_sum[32]", text.rfind('\n', first)) != std::string::npos);
  CHECK(text.find("reduce_sum[32]", text.rfind('\n', first)) == std::string::npos);
}

TEST_CASE("what is stored once has the values that each block would have made") {
  const RandomGraph g = with_numbers(experts());
  const Compiled c = generate_kernels(g, gpu(), choose_heuristic);
  Memory memory(g, c.schedule);
  CHECK(evaluate_all(g, c, 3, memory, {.round_f32 = true}) == "");
  CHECK(judge(g, memory) == "");
}

TEST_CASE("workers of a processor make such results for themselves") {
  const Schedule schedule = make_schedule(experts(), {});
  const auto made = [](const Kernel& k) { return on_chip_nests(k) > 0; };
  CHECK(std::count_if(schedule.kernels.begin(), schedule.kernels.end(), made) > 1);
}
