// What kernels keep on chip, all of it together, fits the machine that they are made for.
#include "graph/on_chip.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "codegen/codegen.h"
#include "codegen/panel.h"
#include "graph/rules_algebra.h"
#include "graph/verify.h"
#include "graph/views.h"
#include "schedule/schedule.h"
#include "support/judge.h"
#include "support/small_graphs.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

// down(silu(gate(norm(x))) * up(norm(x))) for one token
Ref network(int64_t hidden, int64_t width) {
  const auto in = [](int slot, std::vector<Dim> shape) { return param(slot, DType::F32, shape, "in"); };
  const Tensor x = rms_norm(in(0, {1, hidden}), in(1, {hidden}));
  const Tensor inner = silu(linear(x, in(2, {width, hidden}))) * linear(x, in(3, {width, hidden}));
  return sink({output(5, linear(inner, in(4, {hidden, width})))});
}

// The most scratch memory of a kernel.
int64_t most_on_chip(Ref root, const Machine& machine) {
  int64_t most = 0;
  for (const Kernel& k : make_schedule(root, machine).kernels)
    most = std::max(most, generate({.tree = k.tree, .name = "kernel", .machine = machine}).program.scratch_bytes);
  return most;
}

}  // namespace

TEST_CASE(
    "a network of three products keeps on chip what fits a worker's scratch memory, and something at all where it is "
    "small") {
  for (const char* name : {"zen4", "sapphire-rapids", "neoverse-v1"}) {
    const Machine machine = *known_machine(name);
    for (const int64_t hidden : {64, 512, 4096})
      CHECK(most_on_chip(network(hidden, 4 * hidden), machine) <= machine.block_memory_bytes);
    CHECK(most_on_chip(network(64, 256), machine) > 0);
  }
}

TEST_CASE("a network of three products takes no more than the 32 KB that a threadgroup of Apple's GPUs has") {
  const Machine machine = *known_machine("m3-max");
  CHECK(machine.block_memory_bytes == 32768);
  for (const int64_t hidden : {64, 512, 4096, 8192})
    CHECK(most_on_chip(network(hidden, 4 * hidden), machine) <= machine.block_memory_bytes);
  CHECK(most_on_chip(network(512, 2048), machine) > 0);
}

namespace {

// Three products, each of which leaves `width` floats on chip for the one behind it.
Ref three_products(int64_t width) {
  const Ref range = make_range(64, constant(width), RangeKind::Loop);
  Refs nests;
  Ref value = make_load(DType::F32, make(Op::Param, DType::Void, {}, {.i = 1}), range * 4);
  for (int64_t i = 0; i < 3; ++i) {
    const Ref sum_range = make_range(96 + i, constant(width), RangeKind::Reduce);
    const Ref weight = make(Op::Param, DType::Void, {}, {.i = 2 + i});
    const Ref product =
        substitute(value, {{range, sum_range}}) * make_load(DType::F32, weight, range * (4 * width) + sum_range * 4);
    const Ref local = make_local(i, DType::F32, 4 * width);
    nests.push_back(
        sink({make_store(local, range * 4, make(Op::ReduceSum, DType::F32, {product, sum_range}), {&range, 1})}));
    value = make_load(DType::F32, local, range * 4);
  }
  nests.push_back(sink({make_store(make(Op::Param, DType::Void, {}), range * 4, value, {&range, 1})}));
  return sink(nests);
}

}  // namespace

TEST_CASE(
    "buffers that fit a machine one by one, but not together, are refused with the kernel, the total and the budget") {
  const Ref tree = three_products(512);

  Machine machine = *known_machine("zen4");
  CHECK(bytes_on_chip({&tree, 1}) == 3 * (2048 + 64));
  machine.block_memory_bytes = 3 * (2048 + 64);
  CHECK(verify_kernel(tree, "network", machine).ok());
  CHECK(generate({.tree = tree, .name = "network", .machine = machine}).program.scratch_bytes == 3 * (2048 + 64));
  machine.block_memory_bytes -= 1;
  CHECK(verify_kernel(tree, "network", machine).error().message ==
        "[verify] kernel network: it keeps 6336 bytes on chip, more than the 6335 that a worker's scratch memory has "
        "for it; "
        "lower local_bytes or tile_bytes of machine zen4");
  machine.stack_bytes = 0;
  CHECK(verify_kernel(tree, "network", machine).error().message.find("that the memory of a block has") !=
        std::string::npos);
}

TEST_CASE("a network that keeps more than 32 KB on chip is refused for a GPU of Apple") {
  const Machine machine = *known_machine("m3-max");
  CHECK(verify_kernel(three_products(2560), "network", machine).ok());
  CHECK(verify_kernel(three_products(3072), "network", machine).error().message ==
        "[verify] kernel network: it keeps 37056 bytes on chip, more than the 32768 that the memory of a block has for "
        "it; lower local_bytes or tile_bytes of machine m3-max");
}

TEST_CASE("options that would keep too much on chip are refused with the figures") {
  const Tensor w = param(1, DType::U8, {64, 128}, "w");
  const Tensor x = param(0, DType::F32, {Dim(variable("T", 1, 64)), 128}, "x");
  const Ref tree = make_schedule(sink({output(2, linear(x, cast(w, DType::F32) - 8.0f))})).kernels[0].tree;
  Machine machine = *known_machine("zen4");
  const Refs stores = prepare_nest(tree->src[0], machine);
  const Opt panel{OptKind::Panel, {output_range(0)}, 64};
  // 64 rows of 128 terms, 4 bytes each, and a number that says which panel it is.
  constexpr int64_t kPanel = 64 * 128 * 4 + 64 + 128;
  machine.block_memory_bytes = kPanel;
  CHECK(why_not(stores, panel, lane_rules(machine)) == "");
  machine.block_memory_bytes = kPanel - 1;
  CHECK(why_not(stores, panel, lane_rules(machine)) ==
        "panel: it keeps 32960 bytes on chip, more than the 32959 that a worker's scratch memory has for it");
  // What is chosen then fits.
  CHECK(generate({.tree = tree, .name = "kernel", .machine = machine}).program.scratch_bytes <= kPanel - 1);
}

TEST_CASE("threads that pass more sums to each other take more of their block's memory") {
  Machine machine{.parallelism = Parallelism::Threads, .block_threads = 256, .warp_threads = kWarp};
  machine.stack_bytes = 0;
  const JudgedKernel kernel = kernel_of(sink({output(2, linear(input(0, {8, 512}), input(1, {64, 512})))}));
  const Refs stores = prepared(kernel.tree, 0, machine);
  const auto reason = [&](std::vector<Opt> opts) {
    const Opt last = opts.back();
    opts.pop_back();
    return why_not(apply_opts(stores, opts, lane_rules(machine)), last, lane_rules(machine));
  };
  const std::vector<Opt> most{upcast("o0", 4), group("r1.1", 256)};
  machine.block_memory_bytes = 4 * 256 * 4;
  CHECK(reason(most) == "");
  CHECK(program_of(kernel, {most}, machine).scratch_bytes == 4 * 256 * 4);
  CHECK(reason({group("r1.1", 256), upcast("o0", 8)}) ==
        "upcast: it keeps 8192 bytes on chip, more than the 4096 that the memory of a block has for it");
  CHECK(reason({upcast("o0", 8), group("r1.1", 256)}) ==
        "group: it keeps 8192 bytes on chip, more than the 4096 that the memory of a block has for it");
}

TEST_CASE("what has no room on chip together goes through memory, so that every kernel fits") {
  const Ref root = network(512, 2048);
  Machine machine = *known_machine("zen4");
  int64_t before = 0, most = 0;
  for (const Kernel& k : make_schedule(root, machine).kernels) before = std::max(before, bytes_on_chip({&k.tree, 1}));
  REQUIRE(before > 1024);
  machine.block_memory_bytes = 1024;
  const Schedule schedule = make_schedule(root, machine);
  for (const Kernel& k : schedule.kernels) {
    CHECK(verify_kernel(k.tree, "kernel", machine).ok());
    most = std::max(most, generate({.tree = k.tree, .name = "kernel", .machine = machine}).program.scratch_bytes);
  }
  CHECK(most <= 1024);
  CHECK(schedule.temps.size() > make_schedule(root).temps.size());
}

TEST_CASE("rows that a matrix unit leaves count as on chip") {
  Machine machine = *known_machine("sapphire-rapids");
  const JudgedKernel kernel = kernel_of(sink({output(9, grouped_product(16, 32, 3, 16))}));
  const KernelOpts opts = generate({.tree = kernel.tree, .name = "kernel", .machine = machine}).opts;
  const auto at = std::find_if(opts[0].begin(), opts[0].end(), [](const Opt& o) { return o.kind == OptKind::Matrix; });
  REQUIRE(at != opts[0].end());
  Refs stores = prepared(kernel.tree, 0, machine);
  stores = apply_opts(stores, {opts[0].begin(), at}, lane_rules(machine));
  machine.block_memory_bytes = at->amount * 64;
  CHECK(why_not(stores, *at, lane_rules(machine)) == "");
  machine.block_memory_bytes -= 1;
  CHECK(why_not(stores, *at, lane_rules(machine)) ==
        "matrix: it keeps " + std::to_string(at->amount * 64) + " bytes on chip, more than the " +
            std::to_string(at->amount * 64 - 1) + " that a worker's scratch memory has for it");
}
