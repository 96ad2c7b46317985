// Random graphs with random legal options through the whole compiler, against the interpreter:
// 1,000 in each run. Most run in the program evaluator, which checks every byte that is touched;
// the rest as machine code between guard pages.
//
// A failure prints seed, graph and options. The constants below choose other seeds.
#include <doctest/doctest.h>

#include <memory>
#include <optional>

#include "engine/compile.h"
#include "render/llvm.h"
#include "runtime/memory.h"
#include "support/effort.h"
#include "support/random_graph.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

constexpr uint64_t kFirstSeed = 1;
constexpr int kEvaluated = test::repetitions(800), kCompiled = test::repetitions(200);
constexpr double kGraphAgreement = 2e-4;  // several steps in f32, each of which may lose a little

// A graph's kernels as programs, each with options of its own.
struct Compiled {
  Schedule schedule;
  std::vector<Program> programs;
  std::string opts;  // as text
};

std::vector<std::string> names_of(const Variables& variables) {
  std::vector<std::string> names;
  for (const auto& [name, value] : variables) names.push_back(name);
  return names;
}

std::vector<int64_t> values_of(const Variables& variables) {
  std::vector<int64_t> values;
  for (const auto& [name, value] : variables) values.push_back(value);
  return values;
}

// Every other kernel gets what the heuristic chooses for some machine.
Compiled generate_kernels(const RandomGraph& g, std::mt19937_64& rng) {
  Compiled out{.schedule = make_schedule(g.root)};
  for (size_t k = 0; k < out.schedule.kernels.size(); ++k) {
    const Ref tree = out.schedule.kernels[k].tree;
    CodegenRequest request{.tree = tree,
                           .name = "g" + std::to_string(g.seed) + "_" + std::to_string(k),
                           .symbols = names_of(g.variables)};
    if (rng() % 2)
      request.opts = random_opts_of(tree, rng, 1 + static_cast<int>(rng() % 14));
    else
      request.machine = {
          .lanes = 4 << (rng() % 3), .registers = 16 << (rng() % 2), .tasks = 1 << (rng() % 7)};
    request.observe = [](const char* pass, const Refs& stores) {
      const bool expanded = pass == std::string("expand") || pass == std::string("coalesce loads");
      const Status s = verify(sink(stores), expanded ? Stage::Expanded : Stage::Kernel);
      CHECK_MESSAGE(s.ok(), pass, ": ", (s ? "" : s.error().message));
    };
    CodegenResult result = generate(request);
    out.opts += "kernel " + std::to_string(k) + "\n" + to_text(result.opts);
    out.programs.push_back(std::move(result.program));
  }
  return out;
}

// The slots that a graph writes, with the tensor that says how large they are.
std::map<int64_t, Ref> written_slots(Ref root) {
  std::map<int64_t, Ref> slots;
  for (Ref n : toposort(root)) {
    if (n->op == Op::Output) slots[n->arg.i] = n;
    if (n->op != Op::Write) continue;
    Ref buffer = n;
    while (buffer->op == Op::Write) buffer = buffer->src[0];
    slots[buffer->arg.i] = buffer;
  }
  return slots;
}

size_t bytes_of(Ref tensor, const Variables& variables) {
  int64_t bytes = size_of(tensor->dtype);
  for (Ref d : tensor->shape) bytes *= value_of(d, variables);
  return static_cast<size_t>(bytes);
}

// Memory of a run: slots, and the arena of temporaries. Nothing is known of outputs and temporaries
// before.
class Memory {
 public:
  Memory(const RandomGraph& g, const Schedule& schedule) : schedule_(schedule) {
    for (const auto& [slot, bytes] : g.buffers)
      std::memcpy(slot_memory(slot, bytes.size()), bytes.data(), bytes.size());
    for (const auto& [slot, tensor] : written_slots(g.root))
      if (!slots_.contains(slot))
        std::memset(slot_memory(slot, bytes_of(tensor, g.variables)), 0xff,
                    bytes_of(tensor, g.variables));
    arena_.resize(static_cast<size_t>(schedule.arena_bytes) + 64, std::byte{0xff});
  }

  ByteSpan of(Ref buffer) {
    if (buffer->op != Op::Temp)
      return {slots_.at(buffer->arg.i).data(), slots_.at(buffer->arg.i).size()};
    const TempBuffer& t = schedule_.temps[static_cast<size_t>(buffer->arg.i)];
    const size_t aligned = (64 - reinterpret_cast<uintptr_t>(arena_.data()) % 64) % 64;
    return {arena_.data() + aligned + t.offset, static_cast<size_t>(t.bytes)};
  }
  std::span<const std::byte> slot(int64_t slot) const {
    return {slots_.at(slot).data(), slots_.at(slot).size()};
  }

 private:
  std::byte* slot_memory(int64_t slot, size_t bytes) {
    return slots_.emplace(slot, GuardedBuffer(bytes)).first->second.data();
  }

  const Schedule& schedule_;
  std::map<int64_t, GuardedBuffer> slots_;
  std::vector<std::byte> arena_;
};

// What differs from the interpreter, or nothing.
std::string judge(const RandomGraph& g, const Memory& memory) {
  EvalInputs inputs{.variables = g.variables};
  for (const auto& [slot, bytes] : g.buffers) inputs.buffers[slot] = bytes;
  EvalResult judged = eval(g.root, inputs);
  for (const auto& [slot, tensor] : written_slots(g.root)) {
    const Bytes expected =
        judged.outputs.contains(slot) ? to_bytes(judged.outputs.at(slot)) : judged.written.at(slot);
    std::vector<KernelElement> elements;
    const auto size = static_cast<size_t>(size_of(tensor->dtype));
    for (size_t at = 0; at + size <= expected.size(); at += size) {
      uint64_t bits = 0;
      std::memcpy(&bits, expected.data() + at, size);
      elements.push_back(
          {0, static_cast<int64_t>(at), tensor->dtype, from_bits(bits, tensor->dtype)});
    }
    const KernelDifference d = difference(elements, {memory.slot(slot)});
    if (d.worst > kGraphAgreement) return "slot " + std::to_string(slot) + ", " + d.where;
  }
  return "";
}

std::string evaluated_problem(const RandomGraph& g, std::mt19937_64& rng, std::string& opts) {
  const Compiled c = generate_kernels(g, rng);
  opts = c.opts;
  Memory memory(g, c.schedule);
  const int64_t parts = 1 + static_cast<int64_t>(rng() % 3);
  for (size_t k = 0; k < c.programs.size(); ++k) {
    if (std::string problem = problem_of(c.programs[k]); !problem.empty()) return problem;
    std::vector<ByteSpan> spans;
    for (Ref b : c.schedule.kernels[k].buffers) spans.push_back(memory.of(b));
    spans.resize(static_cast<size_t>(c.programs[k].buffers));
    for (int64_t part = 0; part < parts; ++part)
      if (Status s = evaluate(c.programs[k], spans, values_of(g.variables), part, parts); !s)
        return s.error().message;
  }
  return judge(g, memory);
}

std::string compiled_problem(const RandomGraph& g, std::mt19937_64& rng, CpuDevice& device,
                             std::string& opts) {
  const Compiled c = generate_kernels(g, rng);
  opts = c.opts;
  std::vector<Source> sources;
  for (const Program& p : c.programs)
    sources.push_back({render_llvm(p, llvm_options(device.target())), p.name});
  const std::vector<KernelEntry> entries = device.compile(sources);
  Memory memory(g, c.schedule);
  const std::vector<int64_t> symbols = values_of(g.variables);
  const int64_t parts = 1 + static_cast<int64_t>(rng() % 3);
  for (size_t k = 0; k < entries.size(); ++k) {
    std::vector<const void*> pointers;
    for (Ref b : c.schedule.kernels[k].buffers) pointers.push_back(memory.of(b).data());
    for (int64_t part = 0; part < parts; ++part)
      entries[k](pointers.data(), symbols.data(), part, parts);
  }
  return judge(g, memory);
}

}  // namespace

TEST_CASE("random graphs with random options agree with the interpreter, every byte checked") {
  MESSAGE("seeds from " << kFirstSeed);
  for (uint64_t seed = kFirstSeed; seed < kFirstSeed + kEvaluated; ++seed) {
    const RandomGraph g = random_graph(seed);
    REQUIRE_MESSAGE(verify(g.root, Stage::Tensor).ok(),
                    verify(g.root, Stage::Tensor).error().message, to_text(g));
    std::mt19937_64 rng(seed);
    std::string opts;
    const std::string problem = evaluated_problem(g, rng, opts);
    CHECK_MESSAGE(problem == "", to_text(g), opts);
  }
}

TEST_CASE("random graphs as machine code agree with the interpreter, between guard pages") {
  const auto device = CpuDevice::open({.threads = 2, .use_cache = false}).take();
  for (uint64_t seed = kFirstSeed + kEvaluated; seed < kFirstSeed + kEvaluated + kCompiled;
       ++seed) {
    const RandomGraph g = random_graph(seed);
    std::mt19937_64 rng(seed);
    std::string opts;
    const std::string problem = compiled_problem(g, rng, *device, opts);
    CHECK_MESSAGE(problem == "", to_text(g), opts);
  }
}
