// Random graphs as kernels with random options: made, given memory, and judged by the interpreter.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "codegen/program_eval.h"
#include "codegen/program_verify.h"
#include "engine/compile.h"
#include "runtime/memory.h"
#include "support/random_graph.h"

namespace smelt::testing {

constexpr double kGraphAgreement = 2e-4;  // several steps in f32, each of which may lose a little

// A graph's kernels as programs, each with options of its own.
struct Compiled {
  Schedule schedule;
  std::vector<Program> programs;
  std::string opts;              // as text
  bool has_random_opts = false;  // a kernel of it has options that were drawn
};

inline std::vector<std::string> names_of(const Variables& variables) {
  std::vector<std::string> names;
  for (const auto& [name, value] : variables) names.push_back(name);
  return names;
}

inline std::vector<int64_t> values_of(const Variables& variables) {
  std::vector<int64_t> values;
  for (const auto& [name, value] : variables) values.push_back(value);
  return values;
}

inline Machine some_threads(std::mt19937_64& rng) {
  const bool overlaps = rng() % 2;
  return {.parallelism = Parallelism::Threads,
          .processors = 1 << (rng() % 7),
          .block_threads = 32 << (rng() % 4),
          .warp_threads = kWarp,
          .vector_bytes = 16,
          .registers = 64,
          .overlaps_launches = overlaps,
          .tasks = 1 << (rng() % 7),
          .local_operations = rng() % 2 ? 80 << 10 : 64,
          .small_kernel_operations = rng() % 2 ? 4096 : 0,
          .small_kernel_local_operations = 2048,
          .task_copy_bytes = overlaps ? 1 << (10 + rng() % 6) : 0};
}

using Choice = std::function<void(CodegenRequest&)>;

inline void choose_heuristic(CodegenRequest&) {}

inline Choice random_choice(std::mt19937_64& rng) {
  return [&](CodegenRequest& request) {
    request.opts = random_opts_of(request.tree, rng, 1 + static_cast<int>(rng() % 14), request.machine);
  };
}

// Every other kernel gets what the heuristic chooses for the machine.
inline Choice mixed_choice(std::mt19937_64& rng) {
  return [&](CodegenRequest& request) {
    if (rng() % 2) random_choice(rng)(request);
  };
}

inline Compiled generate_kernels(const RandomGraph& g, const Machine& machine, const Choice& choose,
                                 const std::string& prefix = "g") {
  Compiled out{.schedule = make_schedule(g.root, machine)};
  for (size_t k = 0; k < out.schedule.kernels.size(); ++k) {
    const Ref tree = out.schedule.kernels[k].tree;
    CodegenRequest request{.tree = tree,
                           .name = prefix + std::to_string(g.seed) + "_" + std::to_string(k),
                           .machine = machine,
                           .symbols = names_of(g.variables)};
    choose(request);
    out.has_random_opts |=
        std::any_of(request.opts.begin(), request.opts.end(), [](const auto& o) { return !o.empty(); });
    request.observe = [](const char* pass, const Refs& stores) {
      const Status s = verify(sink(stores), phase_behind(pass));
      CHECK_MESSAGE(s.ok(), pass, ": ", (s ? "" : s.error().message));
    };
    CodegenResult result = generate(request);
    out.opts += "kernel " + std::to_string(k) + "\n" + to_text(result.opts);
    out.programs.push_back(std::move(result.program));
  }
  return out;
}

// The slots that a graph writes, with the tensor that says how large they are.
inline std::map<int64_t, Ref> written_slots(Ref root) {
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

inline size_t bytes_of(Ref tensor, const Variables& variables) {
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
        std::memset(slot_memory(slot, bytes_of(tensor, g.variables)), 0xff, bytes_of(tensor, g.variables));
    arena_.resize(static_cast<size_t>(schedule.arena_bytes) + 64, std::byte{0xff});
  }

  ByteSpan of(Ref buffer) {
    if (buffer->op != Op::Temp) return {slots_.at(buffer->arg.i).data(), slots_.at(buffer->arg.i).size()};
    const TempBuffer& t = schedule_.temps[static_cast<size_t>(buffer->arg.i)];
    const size_t aligned = (64 - reinterpret_cast<uintptr_t>(arena_.data()) % 64) % 64;
    return {arena_.data() + aligned + t.offset, static_cast<size_t>(t.bytes)};
  }
  std::span<const std::byte> slot(int64_t slot) const { return {slots_.at(slot).data(), slots_.at(slot).size()}; }

 private:
  std::byte* slot_memory(int64_t slot, size_t bytes) {
    return slots_.emplace(slot, GuardedBuffer(bytes)).first->second.data();
  }

  const Schedule& schedule_;
  std::map<int64_t, GuardedBuffer> slots_;
  std::vector<std::byte> arena_;
};

// Evaluates all kernels, each in so many parts one after the other: blocks, where lanes are threads. Says what is wrong
// with a program or its steps, as races and missing barriers are.
inline std::string evaluate_all(const RandomGraph& g, const Compiled& c, int64_t parts, Memory& memory,
                                const EvalOptions& options = {}) {
  for (size_t k = 0; k < c.programs.size(); ++k) {
    if (std::string problem = problem_of(c.programs[k]); !problem.empty()) return problem;
    std::vector<ByteSpan> spans;
    for (Ref b : c.schedule.kernels[k].buffers) spans.push_back(memory.of(b));
    spans.resize(static_cast<size_t>(c.programs[k].buffers));
    for (int64_t part = 0; part < parts; ++part)
      if (Status s = evaluate(c.programs[k], spans, values_of(g.variables), part, parts, options); !s)
        return s.error().message;
  }
  return "";
}

// What differs from the interpreter, or nothing.
inline std::string judge(const RandomGraph& g, const Memory& memory) {
  EvalInputs inputs{.variables = g.variables};
  for (const auto& [slot, bytes] : g.buffers) inputs.buffers[slot] = bytes;
  EvalResult judged = eval(g.root, inputs);
  for (const auto& [slot, tensor] : written_slots(g.root)) {
    const Bytes expected = judged.outputs.contains(slot) ? to_bytes(judged.outputs.at(slot)) : judged.written.at(slot);
    std::vector<KernelElement> elements;
    const auto size = static_cast<size_t>(size_of(tensor->dtype));
    for (size_t at = 0; at + size <= expected.size(); at += size) {
      uint64_t bits = 0;
      std::memcpy(&bits, expected.data() + at, size);
      elements.push_back({0, static_cast<int64_t>(at), tensor->dtype, from_bits(bits, tensor->dtype)});
    }
    const KernelDifference d = difference(elements, {memory.slot(slot)});
    if (d.worst > kGraphAgreement) return "slot " + std::to_string(slot) + ", " + d.where;
  }
  return "";
}

}  // namespace smelt::testing
