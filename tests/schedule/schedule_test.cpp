// Schedules, by one line a kernel: what is fused, and what stays on chip.
//
//   local reduce_sum[1] | reduce_sum[64]
//
// is one kernel of two nests: one that every worker runs for itself, then one that is shared out.
#include "schedule/schedule.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/machine.h"
#include "graph/verify.h"
#include "support/small_graphs.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

std::string schedule_of(Ref root) {
  REQUIRE(verify(root, Phase::Tensor).ok());
  const Schedule schedule = make_schedule(root);
  for (const Kernel& k : schedule.kernels)
    CHECK_MESSAGE(verify(k.tree, Phase::Kernel).ok(), verify(k.tree, Phase::Kernel).error().message);
  return summary(schedule);
}

std::string schedule_of(Tensor x) { return schedule_of(sink({output(9, x)})); }

}  // namespace

TEST_CASE("elementwise work is one kernel, movement is none") {
  const Tensor x = input(0, {4, 32});
  CHECK(schedule_of(silu(x) * 2.0 + x) == "add[4,32]\n");
  CHECK(schedule_of(permute(reshape(x, {4, 8, 4}), {2, 0, 1}) + 1.0) == "add[4,4,8]\n");
}

TEST_CASE("rms norm") {
  CHECK(schedule_of(rms_norm(input(0, {1, 2048}), input(1, {2048}))) == "reduce_sum[2048]\n");
  const Ref n = variable("n", 1, 64);
  CHECK(schedule_of(rms_norm(input(0, {Dim(n * 8), 2048}), input(1, {2048}))) == "reduce_sum[?,2048]\n");
}

TEST_CASE("a norm before a product is computed by each worker for one token, once for many") {
  const Tensor w = input(2, {512, 2048}), gain = input(1, {2048});
  CHECK(schedule_of(linear(rms_norm(input(0, {1, 2048}), gain), w)) == "local reduce_sum[2048] | reduce_sum[512]\n");
  const Ref n = variable("n", 1, 64);
  CHECK(schedule_of(linear(rms_norm(input(0, {Dim(n * 8), 2048}), gain), w)) ==
        "reduce_sum[?,2048]\nreduce_sum[?,512]\n");
}

TEST_CASE("softmax is one kernel where its numerators fit on chip, else two") {
  CHECK(schedule_of(softmax(input(0, {4, 64}), 1)) == "local reduce_max[4,64] | reduce_sum[4,64]\n");
  CHECK(schedule_of(softmax(input(0, {64, 512}), 1)) == "reduce_max[64,512]\nreduce_sum[64,512]\n");
}

TEST_CASE("silu times up, and the residual, are epilogues") {
  const Tensor x = input(0, {1, 2048});
  const Tensor gate = q4_0(input(1, {512, 64, 18}, DType::U8)), up = q4_0(input(2, {512, 64, 18}, DType::U8));
  CHECK(schedule_of(silu(linear(x, gate)) * linear(x, up)) == "reduce_sum+reduce_sum[512]\n");
  const Tensor down = q4_0(input(3, {2048, 16, 18}, DType::U8));
  CHECK(schedule_of(x + linear(input(4, {1, 512}), down)) == "reduce_sum[2048]\n");
}

TEST_CASE("quantised weights are never stored as floats") {
  const Tensor w = q4_0(input(1, {512, 64, 18}, DType::U8));
  const Ref n = variable("n", 1, 64);
  for (const Kernel& k : make_schedule(sink({output(9, linear(input(0, {Dim(n * 8), 2048}), w))})).kernels)
    for (Ref b : k.buffers) CHECK(b->op == Op::Param);
}

TEST_CASE(
    "router scores, bias, top-k and normalised weights are part of the kernel that sums the "
    "experts") {
  const Tensor x = input(0, {1, 64});
  const Routes r = route(x, input(1, {16, 64}), input(2, {16}), 4);
  const Tensor raw = gather(input(3, {16, 32, 2, 18}, DType::U8), reshape(r.experts, {4}));  // [4, 32, 2, 18]
  const Tensor each = reshape(linear(x, q4_0(reshape(raw, {128, 2, 18}))), {4, 32});
  CHECK(schedule_of(sum(each * reshape(r.weights, {4, 1}), 0)) ==
        "local reduce_sum[16] | local topk[4] | local reduce_sum[4] | local reduce_sum[4] | "
        "local reduce_sum[4,2,16] | reduce_sum[2,16]\n");
}

TEST_CASE("experts are read where they lie") {
  const Tensor x = input(0, {1, 256}), raw = input(1, {64, 32, 8, 18}, DType::U8);
  const Tensor chosen = gather(raw, input(2, {4}, DType::I32));  // [4, 32, 8, 18]
  const Schedule schedule = make_schedule(sink({output(3, linear(x, q4_0(reshape(chosen, {128, 8, 18}))))}));
  CHECK(summary(schedule) == "reduce_sum[128]\n");
  CHECK(schedule.arena_bytes == 0);
}

TEST_CASE("attention over chunks is partial results and their combination") {
  const Ref chunks = variable("chunks", 1, 16);
  const Tensor o =
      attention(input(0, {20, 576}), input(1, {4096, 576}), input(2, {1}, DType::I32), Dim(chunks * 256), 512);
  CHECK(schedule_of(o) ==
        "local reduce_sum[?,2,10,?] | local reduce_max[?,2,10] | load[?,2,10] | "
        "local exp2[?,2,10,?] | reduce_sum[?,2,10,512] | reduce_sum[?,2,10]\n"
        "softmax_sum+softmax_sum[20,512]\n");
}

TEST_CASE("a long sum of known length is not split") {
  CHECK(schedule_of(sum(input(0, {4, 8192}), 1)) == "reduce_sum[4]\n");
}

TEST_CASE("a row written to a cache and read back are two kernels") {
  const Tensor cache = input(0, {64, 32}), rows = input(1, {2}, DType::I32), x = input(2, {2, 32});
  const Tensor after = write_rows(cache, rows, 0, x * 2.0);
  CHECK(schedule_of(sink({after.ref(), output(3, sum(after, 0))})) == "mul[2,32]\nreduce_sum[32]\n");
}

TEST_CASE("equal work on other buffers is the same kernel") {
  const Tensor x = input(0, {4, 32}), y = input(1, {4, 32});
  const Schedule a = make_schedule(sink({output(2, silu(x))})), b = make_schedule(sink({output(7, silu(y))}));
  CHECK(a.kernels[0].tree == b.kernels[0].tree);
  CHECK(a.kernels[0].buffers != b.kernels[0].buffers);
}

TEST_CASE("what is placed ahead is beside others, or where it is read") {
  const Tensor x = place(linear(input(0, {1, 512}), input(1, {512, 512})));
  const auto product = [&](Tensor of, int slot) { return linear(of, input(slot, {512, 512})); };
  const auto kernels = [](Tensor out, const Machine& machine) {
    std::vector<size_t> nests;
    for (const Kernel& k : make_schedule(sink({output(9, out)}), machine).kernels)
      nests.push_back(static_cast<size_t>(
          std::count_if(nests_of(k).begin(), nests_of(k).end(), [](Ref nest) { return !is_local_nest(nest); })));
    return nests;
  };
  const Machine gpu = *known_machine("h100");
  const Tensor alone = product(x, 2) + place_ahead(product(x, 3)),
               beside = product(place(product(x, 2)), 4) + place_ahead(product(x, 3));
  CHECK(kernels(alone, gpu) == std::vector<size_t>{1, 1});
  CHECK(kernels(beside, gpu) == std::vector<size_t>{1, 2, 1});
  CHECK(kernels(alone, Machine{}) == std::vector<size_t>{1, 1, 1});
}

TEST_CASE("levels say what waits for what") {
  const Tensor x = input(0, {64, 64}), w = input(1, {64, 64});
  const Schedule schedule = make_schedule(sink({output(2, linear(linear(linear(x, w), w), w))}));
  REQUIRE(schedule.kernels.size() == 3);
  for (size_t i = 0; i < 3; ++i) CHECK(schedule.kernels[i].level == static_cast<int>(i));
}
