// Random graphs with random legal options through the whole compiler, against the interpreter: 1,000 in each run. Most
// run in the program evaluator, which checks every byte that is touched; the rest as machine code between guard pages.
// And 1,000 as blocks of threads, which the evaluator steps together: races, missing barriers and loops that differ
// among threads are found (tests/codegen/planted_faults_test.cpp).
//
// A failure prints seed, graph and options. The constants below choose other seeds.
#include <doctest/doctest.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "codegen/program_eval.h"
#include "engine/compile.h"
#include "runtime/devices.h"
#include "runtime/memory.h"
#include "support/byte_rows.h"
#include "support/effort.h"
#include "support/graph_kernels.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

constexpr uint64_t kFirstSeed = 1;
constexpr int kEvaluated = test::repetitions(800), kCompiled = test::repetitions(200),
              kBlocks = test::repetitions(1000), kCopied = test::repetitions(40);
constexpr int kEvaluatedTwice = test::repetitions(300), kCompiledTwice = test::repetitions(60);

Machine some_vectors(std::mt19937_64& rng) {
  return {.vector_bytes = 16 << (rng() % 3), .registers = 16 << (rng() % 2), .tasks = 1 << (rng() % 7)};
}

void run_all(const RandomGraph& g, const Compiled& c, int parts, Device& device, Memory& memory) {
  const std::vector<const Executable*> kernels = KernelBuilder(device, {}).build(c.programs).take();
  std::deque<std::vector<const void*>> pointers;
  std::vector<Launch> launches;
  for (size_t k = 0; k < kernels.size(); ++k) {
    auto& mine = pointers.emplace_back();
    for (Ref b : c.schedule.kernels[k].buffers) mine.push_back(memory.of(b).data());
    launches.push_back({.kernel = kernels[k], .buffers = mine.data(), .parts = parts});
  }
  const auto plan = device.capture(launches);
  REQUIRE(device.run(**plan, values_of(g.variables)).ok());
}

struct Outcome {
  std::string problem, opts;
  bool has_random_opts;
};

Outcome evaluated(const RandomGraph& g, std::mt19937_64& rng, const Machine& machine) {
  const Compiled c = generate_kernels(g, machine, mixed_choice(rng));
  Memory memory(g, c.schedule);
  const std::string problem = evaluate_all(g, c, 1 + static_cast<int64_t>(rng() % 3), memory);
  return {problem.empty() ? judge(g, memory) : problem, c.opts, c.has_random_opts};
}

std::string compiled_problem(const RandomGraph& g, std::mt19937_64& rng, Device& device, std::string& opts) {
  const Compiled c = generate_kernels(g, some_vectors(rng), mixed_choice(rng));
  opts = c.opts;
  Memory memory(g, c.schedule);
  run_all(g, c, 1 + static_cast<int>(rng() % 3), device, memory);
  return judge(g, memory);
}

std::map<int64_t, Bytes> results(const RandomGraph& g, const Memory& memory) {
  std::map<int64_t, Bytes> bytes;
  for (const auto& [slot, tensor] : written_slots(g.root)) {
    const auto span = memory.slot(slot);
    bytes[slot] = Bytes(span.begin(), span.end());
  }
  return bytes;
}

}  // namespace

namespace {

// Graphs in turn, until so many of them had a kernel with random options. The others are judged, too.
void check_evaluated(int graphs, Machine (*some_machine)(std::mt19937_64&)) {
  uint64_t seed = kFirstSeed;
  for (int checked = 0; checked < graphs; ++seed) {
    const RandomGraph g = random_graph(seed);
    REQUIRE_MESSAGE(verify(g.root, Phase::Tensor).ok(), verify(g.root, Phase::Tensor).error().message, to_text(g));
    std::mt19937_64 rng(seed);
    const Outcome outcome = evaluated(g, rng, some_machine(rng));
    CHECK_MESSAGE(outcome.problem == "", to_text(g), outcome.opts);
    checked += outcome.has_random_opts;
  }
  MESSAGE("seeds " << kFirstSeed << " to " << seed - 1);
}

}  // namespace

TEST_CASE("random graphs with random options agree with the interpreter, every byte checked") {
  check_evaluated(kEvaluated, some_vectors);
}

TEST_CASE("random graphs as blocks of threads agree with the interpreter, with no race and no missing barrier") {
  check_evaluated(kBlocks, some_threads);
}

TEST_CASE("random graphs whose tasks have their weights copied on chip agree with the interpreter") {
  const auto sends = [](const Program& p) {
    return std::any_of(p.code.begin(), p.code.end(), [](const Instruction& x) { return x.kind == Inst::BulkCopy; });
  };
  int64_t kernels = 0;
  for (uint64_t seed = kFirstSeed; kernels < kCopied; ++seed) {
    const RandomGraph g = random_graph(seed);
    std::mt19937_64 rng(seed);
    Machine machine = some_threads(rng);
    machine.processors = 64, machine.overlaps_launches = 1, machine.task_copy_bytes = 16 << 10;
    const Compiled c = generate_kernels(g, machine, mixed_choice(rng));
    const auto sending = std::count_if(c.programs.begin(), c.programs.end(), sends);
    if (sending == 0) continue;
    kernels += sending;
    Memory memory(g, c.schedule);
    const std::string problem = evaluate_all(g, c, 1 + static_cast<int64_t>(rng() % 5), memory);
    CHECK_MESSAGE((problem.empty() ? judge(g, memory) : problem) == "", to_text(g), c.opts);
  }
}

namespace {

// Bytes x [1, n, k] of blocks times bytes w [rows, n, k]: [1, rows].
Tensor product_of_blocks(const BlockBytes& x, Tensor w) {
  const Tensor dots = sum(cast(unsqueeze(x.q, 1), DType::I32) * cast(unsqueeze(w, 0), DType::I32), -1);
  return sum(cast(dots, DType::F32) * unsqueeze(x.scale, 1), -1) + unsqueeze(sum(x.sums, -1), 1);
}

// What a layer is made of: norm, bytes, a product, bytes of its heads, a matrix of each head, bytes of that.
RandomGraph steps_of_a_layer(uint64_t seed) {
  std::mt19937 rng(static_cast<uint32_t>(seed));
  RandomGraph g{.seed = seed};
  const auto values = [&](int slot, std::vector<Dim> shape, DType dtype) {
    const Tensor x = input(slot, std::move(shape), dtype);
    int64_t n = 1;
    for (Ref d : x.ref()->shape) n *= const_int(d).value();
    Bytes& bytes = g.buffers[slot];
    for (int64_t i = 0; i < n; ++i) {
      const float f = static_cast<float>(rng() % 2001) / 1000 - 1;
      const auto byte = static_cast<int8_t>(static_cast<int>(rng() % 255) - 127);
      const auto* from = reinterpret_cast<const std::byte*>(dtype == DType::F32 ? static_cast<const void*>(&f) : &byte);
      bytes.insert(bytes.end(), from, from + size_of(dtype));
    }
    return x;
  };
  const Tensor x = rms_norm(values(0, {1, 256}, DType::F32), values(1, {256}, DType::F32));
  const BlockBytes in = bytes_of_blocks(reshape(x, {1, 8, 32}));
  const Tensor y = product_of_blocks(in, values(2, {320, 8, 32}, DType::I8));
  const Tensor scores = sum(x * values(3, {12, 256}, DType::F32), -1);  // reads the norm itself, as a router does
  const BlockBytes heads = bytes_of_blocks(reshape(y, {1, 5, 64}));
  const Tensor w = values(4, {1, 5, 48, 64}, DType::I8);
  const Tensor z = cast(sum(cast(unsqueeze(heads.q, 2), DType::I32) * cast(w, DType::I32), -1), DType::F32) *
                   unsqueeze(heads.scale, 2);
  const BlockBytes of_head = bytes_of_blocks(z);
  g.root = sink({output(9, of_head.scale + unsqueeze(sum(scores, -1), 0) * 0.01), output(8, place(z) + 0.0),
                 output(7, reshape(scores, {1, 12}))});
  return g;
}

}  // namespace

TEST_CASE("steps of a layer as blocks of threads agree with the interpreter, in few kernels") {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const RandomGraph g = steps_of_a_layer(seed);
    std::mt19937_64 rng(seed);
    Machine gpu = *known_machine("h100");
    CHECK(evaluated(g, rng, gpu).problem == "");
    gpu.local_operations = 64;
    gpu.small_kernel_operations = 1 << 20;
    gpu.small_kernel_local_operations = 64 << 10;
    CHECK(evaluated(g, rng, gpu).problem == "");
    CHECK(make_schedule(g.root, gpu).kernels.size() <= 3);
    // Products go on with the bytes of their blocks, five of 64 and five of 48.
    gpu.local_operations = gpu.small_kernel_operations = 0;
    gpu.tasks = 5;
    CHECK(evaluated(g, rng, gpu).problem == "");
    CHECK(summary(make_schedule(g.root, gpu)).find("[5,64] | local reduce_max[5] | local cast[5,64] | ") !=
          std::string::npos);
  }
}

TEST_CASE("random graphs as machine code agree with the interpreter, between guard pages") {
  const auto device = open_device({.threads = 2, .use_cache = false}).take();
  for (uint64_t seed = kFirstSeed + kEvaluated; seed < kFirstSeed + kEvaluated + kCompiled; ++seed) {
    const RandomGraph g = random_graph(seed);
    std::mt19937_64 rng(seed);
    std::string opts;
    const std::string problem = compiled_problem(g, rng, *device, opts);
    CHECK_MESSAGE(problem == "", to_text(g), opts);
  }
}

namespace {

void check_bits(int graphs, Machine (*some_machine)(std::mt19937_64&)) {
  for (uint64_t seed = kFirstSeed; seed < kFirstSeed + static_cast<uint64_t>(graphs); ++seed) {
    const RandomGraph g = random_graph(seed);
    std::mt19937_64 rng(seed);
    const Machine machine = some_machine(rng);
    const Compiled chosen = generate_kernels(g, machine, choose_heuristic),
                   random = generate_kernels(g, machine, random_choice(rng));
    Memory one(g, chosen.schedule), other(g, random.schedule);
    REQUIRE(evaluate_all(g, chosen, 1, one, {.round_f32 = true}) == "");
    REQUIRE(evaluate_all(g, random, 1 + static_cast<int64_t>(rng() % 4), other, {.round_f32 = true}) == "");
    CHECK_MESSAGE(results(g, one) == results(g, other), to_text(g), random.opts);
  }
}

}  // namespace

TEST_CASE("random graphs give the same bits with any options and workers, each operation rounded") {
  check_bits(kEvaluatedTwice, some_vectors);
}

TEST_CASE("random graphs give the same bits as any blocks of threads") { check_bits(kEvaluatedTwice, some_threads); }

TEST_CASE("random graphs give the same bits with any options and workers, as machine code") {
  const auto device = open_device({.threads = 2, .use_cache = false}).take();
  for (uint64_t seed = kFirstSeed; seed < kFirstSeed + kCompiledTwice; ++seed) {
    const RandomGraph g = random_graph(seed);
    std::mt19937_64 rng(seed);
    const Machine machine = some_vectors(rng);
    const Compiled chosen = generate_kernels(g, machine, choose_heuristic, "h"),
                   random = generate_kernels(g, machine, random_choice(rng), "r");
    Memory one(g, chosen.schedule), other(g, random.schedule);
    run_all(g, chosen, 1, *device, one);
    run_all(g, random, 1 + static_cast<int>(rng() % 4), *device, other);
    CHECK_MESSAGE(results(g, one) == results(g, other), to_text(g), random.opts);
  }
}
