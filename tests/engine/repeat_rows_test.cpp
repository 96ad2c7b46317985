// Tasks that make the rows which they read of another kernel for themselves, see repeat_rows() in schedule/passes.h.
#include <doctest/doctest.h>

#include "support/byte_rows.h"
#include "support/graph_kernels.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

constexpr int64_t kHeads = 20, kWidth = 128, kRows = 64, kBlock = 32;

Tensor i32(Tensor x) { return cast(x, DType::I32); }

Tensor averages(int64_t most_chunks) {
  const Dim chunks(variable("chunks", 1, most_chunks));
  return softmax_average(input(1, {kHeads, chunks, 1}), input(0, {kHeads, chunks, kWidth}), 1);  // [heads, width]
}

// The bytes of each head's average over chunks times a matrix of its own, and the bytes of these products. `keeps`: the
// bytes of averages are read elsewhere, too.
Ref heads(int64_t most_chunks = 13, bool keeps = false) {
  const BlockBytes b = bytes_of_blocks(reshape(averages(most_chunks), {kHeads, kWidth / kBlock, kBlock}));
  const Tensor w = input(2, {kHeads, kRows, kWidth / kBlock, kBlock}, DType::I8);
  const Tensor products = sum(i32(unsqueeze(b.q, 1)) * i32(w), -1);  // [heads, rows, blocks]
  const Tensor y = sum(cast(products, DType::F32) * unsqueeze(b.scale, 1), -1);
  const BlockBytes out = bytes_of_blocks(reshape(y, {1, kHeads * kRows / kBlock, kBlock}));
  Refs outputs{output(9, out.scale + 0.0), output(8, i32(out.q) + 1)};
  if (keeps) outputs.push_back(output(7, i32(b.q) + 1));
  return sink(outputs);
}

Machine gpu() {
  Machine machine = *known_machine("h100");
  machine.tasks = kHeads * kRows / kBlock;
  machine.small_kernel_operations = 1 << 10;
  return machine;
}

size_t kernels(Ref root, const Machine& machine = gpu()) { return make_schedule(root, machine).kernels.size(); }

RandomGraph with_numbers(Ref root, int64_t chunks) {
  RandomGraph g{.root = root, .variables = {{"chunks", chunks}}};
  std::mt19937_64 random(3);
  for (Ref n : toposort(root)) {
    if (n->op != Op::Param) continue;
    const size_t bytes = smelt::testing::bytes_of(n, g.variables);
    Bytes& all = g.buffers[n->arg.i];
    if (n->dtype == DType::I8) {
      for (size_t i = 0; i < bytes; ++i) all.push_back(static_cast<std::byte>(random()));
      continue;
    }
    std::normal_distribution<float> normal;
    std::vector<float> values(bytes / sizeof(float));
    for (float& v : values) v = normal(random);
    const auto span = std::as_bytes(std::span(values));
    all.assign(span.begin(), span.end());
  }
  return g;
}

Bytes run(Ref root, int64_t chunks, const Machine& machine) {
  const RandomGraph g = with_numbers(root, chunks);
  const Compiled c = generate_kernels(g, machine, choose_heuristic);
  Memory memory(g, c.schedule);
  CHECK(evaluate_all(g, c, 7, memory, {.round_f32 = true}) == "");
  CHECK(judge(g, memory) == "");
  const auto slot = memory.slot(9);
  return {slot.begin(), slot.end()};
}

}  // namespace

TEST_CASE("a task makes the rows of a head that it reads for itself") {
  const Schedule schedule = make_schedule(heads(), gpu());
  CHECK(summary(schedule).starts_with("local softmax_sum"));
  CHECK(schedule.kernels.size() == 1);
  CHECK(schedule.kernels.front().buffers.size() == 5);  // nothing of the averages is left in memory
}

TEST_CASE("rows that are much work, or that others read too, are a kernel of their own") {
  CHECK(kernels(heads()) == 1);
  CHECK(kernels(heads(1 << 12)) > 1);
  CHECK(kernels(heads(13, true)) > 1);
  CHECK(kernels(heads(), *known_machine("zen4")) > 1);
}

TEST_CASE("what tasks make for themselves has the bits that a kernel of its own makes") {
  Machine apart = gpu();
  apart.small_kernel_local_operations = 0;
  CHECK(kernels(heads(), apart) > 1);
  for (int64_t chunks : {1, 5, 13}) CHECK(run(heads(), chunks, gpu()) == run(heads(), chunks, apart));
}

TEST_CASE("rounds of an average over few and over many chunks give the same bits") {
  const auto average = [](int64_t most, int64_t chunks) {
    return run(sink({output(9, averages(most))}), chunks, *known_machine("h100"));
  };
  for (int64_t chunks : {1, 7, 13, 16}) CHECK(average(16, chunks) == average(64, chunks));
}
