// Rows of a prompt: which steps follow each other in one task.
#include "schedule/row_tiles.h"

#include <doctest/doctest.h>

#include "graph/views.h"
#include "schedule/schedule.h"
#include "schedule/tiles.h"
#include "support/byte_rows.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

Dim tokens() { return Dim(variable("tokens8", 1, 64) * 8); }

}  // namespace

TEST_CASE("maximum, bytes and sums of the rows of a prompt are one kernel, and stay on chip") {
  const Schedule schedule = make_schedule(rows_to_bytes(input(0, {tokens(), 4, 32}), false));
  CHECK(summary(schedule) == "local reduce_max[?,4] | local cast[?,4,32] | reduce_sum[?,4]\n");
  for (Ref nest : nests_of(schedule.kernels[0])) {
    CHECK(tile_ranges(nest->src).size() == 1);
    CHECK(!is_local_nest(nest));
  }
  CHECK(schedule.kernels[0].buffers.size() == 2);
  CHECK(schedule.arena_bytes <= 2 * 64);
}

TEST_CASE("rows of one token are tasks for blocks of threads") {
  Machine gpu = *known_machine("h100");
  gpu.local_operations = 0;  // nothing is made by every block for itself
  gpu.small_kernel_operations = 0;
  const Ref root = rows_to_bytes(input(0, {1, 20, 64}), false);
  CHECK(summary(make_schedule(root, gpu)) == "local reduce_max[20] | local cast[20,64] | reduce_sum[20]\n");
  for (Ref nest : nests_of(make_schedule(root, gpu).kernels[0])) CHECK(tile_ranges(nest->src).size() == 1);
  CHECK(make_schedule(rows_to_bytes(input(0, {1, 2, 64}), false), gpu).kernels.size() == 3);
}

TEST_CASE("a first loop of few rows goes with those behind it, until half of the processors have a task") {
  Machine gpu = *known_machine("h100");
  gpu.local_operations = 0;
  gpu.small_kernel_operations = 0;
  const auto kernels = [&](std::vector<Dim> shape, int64_t tasks) {
    gpu.tasks = tasks;
    return summary(make_schedule(rows_to_bytes(input(0, std::move(shape)), false), gpu));
  };
  CHECK(kernels({8, 64, 8, 32}, 132) == "local reduce_max[512,8] | local cast[512,8,32] | reduce_sum[512,8]\n");
  CHECK(kernels({8, 64, 8, 32}, 16) == "local reduce_max[8,64,8] | local cast[8,64,8,32] | reduce_sum[8,64,8]\n");
  CHECK(kernels({2, 5, 3, 32}, 20) == "local reduce_max[10,3] | local cast[10,3,32] | reduce_sum[10,3]\n");
  CHECK(kernels({2, 5, 3, 32}, 132) == "reduce_max[2,5,3]\ncast[2,5,3,32]\nreduce_sum[2,5,3]\n");
}

// Bytes whose blocks have 8 tokens side by side.
static Ref to_bytes_side_by_side(Tensor x) {
  const int64_t tokens = x.size(0), blocks = x.size(1) / 32;
  return rows_to_bytes(permute(reshape(x, {tokens / 8, 8, blocks, 32}), {0, 2, 1, 3}), true);
}

TEST_CASE("bytes follow the norm of their token, also where 8 tokens lie side by side") {
  Machine gpu = *known_machine("h100");
  gpu.local_operations = 0;
  gpu.small_kernel_operations = 0;
  const auto kernels = [&](int64_t tokens, int64_t tasks) {
    gpu.tasks = tasks;
    return summary(make_schedule(to_bytes_side_by_side(rms_norm(input(0, {tokens, 256}), input(1, {256}))), gpu));
  };
  CHECK(kernels(8, 8).starts_with("local reduce_sum[8,256] | local reduce_max[8,8] | local cast[8,8,32] | "));
  // Where that are too few tasks, a token's are in parts, each of which makes its sum again.
  CHECK(kernels(16, 32).starts_with("local reduce_sum[32,128] | local reduce_max[32,4] | local cast[32,4,32] | "));
}

TEST_CASE("the bytes of a product of one token follow in its tasks, if these are as many as the machine wants") {
  Machine gpu = *known_machine("h100");
  gpu.local_operations = 1 << 15;  // what can follow is not made by every block for itself
  gpu.small_kernel_operations = 1 << 10;
  const Tensor x = place(input(0, {1, 256}) * 2.0), w = input(1, {160, 256});
  const auto kernels = [&](int64_t tasks) {
    gpu.tasks = tasks;
    const Ref root = rows_to_bytes(reshape(linear(x, w), {1, 5, 32}), false);
    return summary(make_schedule(root, gpu));
  };
  CHECK(kernels(5).ends_with("local reduce_sum[5,32] | local reduce_max[5] | local cast[5,32] | reduce_sum[5]\n"));
  CHECK(kernels(6).find("[5,32] | local reduce_max[5]") == std::string::npos);
  // Heads, each of which is several blocks.
  const Tensor of_heads = sum(unsqueeze(unsqueeze(x, 1), 1) * unsqueeze(input(2, {6, 64, 256}), 0), -1);
  gpu.tasks = 12;
  CHECK(summary(make_schedule(rows_to_bytes(reshape(of_heads, {1, 12, 32}), false), gpu))
            .ends_with("local reduce_sum[12,32] | local reduce_max[12] | local cast[12,32] | reduce_sum[12]\n"));
  // Of two tokens, which are no batch for a unit: each has tasks of its own.
  const Tensor two = place(input(3, {2, 6, 256}) * 2.0),
               of_two = sum(unsqueeze(two, 2) * unsqueeze(input(2, {6, 64, 256}), 0), -1);
  CHECK(summary(make_schedule(rows_to_bytes(reshape(of_two, {2, 12, 32}), false), gpu))
            .ends_with("local reduce_sum[12,64] | local reduce_max[12,2] | local cast[12,2,32] | reduce_sum[12,2]\n"));
}

TEST_CASE("a norm, its bytes and their sums are one kernel in front of a product, for blocks of threads") {
  Machine gpu = *known_machine("h100");
  gpu.local_operations = 1 << 10;
  gpu.small_kernel_operations = 1 << 20;
  gpu.small_kernel_local_operations = 64 << 10;
  const Tensor x = rms_norm(input(0, {1, 2048}), input(1, {2048}));
  const BlockBytes b = bytes_of_blocks(reshape(x, {1, 16, 128}));
  // Sums in other groups than the bytes have: 8 rows of 8.
  const Tensor sums = place(cast(sum(reshape(cast(b.q, DType::I32), {1, 8, 8, 32}), -1), DType::F32));
  const Tensor q = reshape(cast(b.q, DType::I32), {1, 1, 16, 128}), w = input(2, {1024, 2048}, DType::I8),
               scales = unsqueeze(sum(reshape(sums, {1, 64}), -1), 1);
  const Tensor dots = sum(q * cast(reshape(w, {1, 1024, 16, 128}), DType::I32), -1);
  const Tensor y = sum(cast(dots, DType::F32) * unsqueeze(b.scale, 1), -1) + scales;
  const Schedule schedule = make_schedule(sink({output(9, y)}), gpu);
  CHECK(schedule.kernels.size() == 2);
  CHECK(summary(schedule).starts_with("local reduce_sum[2048] | "));
}

TEST_CASE("what other kernels read of a row goes to memory, too, and is read on chip") {
  const BlockBytes b = bytes_of_blocks(input(0, {tokens(), 4, 32}));
  const Tensor w = input(1, {512, 128}, DType::I8);
  const Tensor products =
      sum(cast(unsqueeze(reshape(b.q, {tokens(), 128}), 1), DType::I32) * cast(unsqueeze(w, 0), DType::I32), -1);
  const Schedule schedule = make_schedule(sink({output(9, b.sums), output(8, products)}));
  CHECK(summary(schedule) ==
        "local reduce_max[?,4] | cast[?,4,32] & local cast[?,4,32] | reduce_sum[?,4]\n"
        "reduce_sum[?,512]\n");
  for (const Kernel& k : schedule.kernels)
    for (Ref nest : nests_of(k))
      for (Ref store : nest->src) {
        const Ref written = StoreView(store).buffer;
        if (written->op == Op::Local) continue;
        for (Ref n : toposort(k.tree)) CHECK_FALSE((n->op == Op::Load && LoadView(n).buffer == written));
      }
}

TEST_CASE("products with matrices, other rows and single tokens are kernels of their own") {
  // A matrix wants many rows at once.
  const Tensor x = place(input(0, {tokens(), 256}) * 2.0);
  CHECK(make_schedule(sink({output(9, linear(x, input(1, {512, 256})))})).kernels.size() == 2);
  CHECK(make_schedule(sink({output(9, linear(x, input(1, {16, 256})))})).kernels.size() == 2);
  const Tensor rows = input(2, {tokens()}, DType::I32);
  const Tensor chosen = gather(input(3, {4, 16, 256}), rows);  // a matrix for each row
  CHECK(make_schedule(sink({output(9, sum(unsqueeze(x, 1) * chosen, -1))})).kernels.size() == 2);
  // A row that an index names.
  CHECK(make_schedule(sink({output(9, gather(x, rows) + 1.0)})).kernels.size() == 2);
  // One token: no rows.
  CHECK(make_schedule(rows_to_bytes(input(0, {1, 4, 32}), false)).kernels.size() > 0);
  for (const Kernel& k : make_schedule(rows_to_bytes(input(0, {1, 4, 32}), false)).kernels)
    for (Ref nest : nests_of(k)) CHECK(tile_ranges(nest->src).empty());
}
