#include "codegen/codegen.h"
#include "cross/cases.h"
#include "support/random_graph.h"

namespace smelt::cross {

using namespace smelt::testing;

namespace {

constexpr double kStepAgreement = 2e-4;  // of a kernel that takes several steps in f32

// The memory of a graph: its slots and temporaries, whose values are not known before.
class Memory {
 public:
  Memory(const RandomGraph& graph, const Schedule& schedule) : graph_(graph), schedule_(schedule) {}

  Bytes& of(Ref buffer) {
    const auto key = std::pair{buffer->op == Op::Temp, buffer->arg.i};
    const auto found = buffers_.find(key);
    return found != buffers_.end() ? found->second : buffers_[key] = initial(buffer);
  }

 private:
  Bytes initial(Ref buffer) const {
    if (buffer->op == Op::Temp)
      return Bytes(static_cast<size_t>(schedule_.temps[static_cast<size_t>(buffer->arg.i)].bytes), std::byte{0xff});
    if (const auto given = graph_.buffers.find(buffer->arg.i); given != graph_.buffers.end()) return given->second;
    int64_t bytes = size_of(buffer->dtype);
    for (Ref d : buffer->shape) bytes *= value_of(d, graph_.variables);
    return Bytes(static_cast<size_t>(bytes), std::byte{0xff});
  }

  const RandomGraph& graph_;
  const Schedule& schedule_;
  std::map<std::pair<bool, int64_t>, Bytes> buffers_;
};

// Each kernel starts from what the ones before it have left.
void add_kernels(std::vector<Case>& cases, const RandomGraph& graph, const Machine& machine) {
  const Schedule schedule = make_schedule(graph.root);
  Memory memory(graph, schedule);
  std::vector<std::string> names;
  std::vector<int64_t> symbols;
  for (const auto& [name, value] : graph.variables) names.push_back(name), symbols.push_back(value);
  std::mt19937_64 rng(graph.seed);
  for (size_t k = 0; k < schedule.kernels.size(); ++k) {
    const Kernel& kernel = schedule.kernels[k];
    Program program = generate({.tree = kernel.tree, .name = "graph", .machine = machine, .symbols = names}).program;
    std::vector<Bytes> before;
    for (Ref b : kernel.buffers) before.push_back(memory.of(b));
    cases.push_back(evaluated_case("random graph " + std::to_string(graph.seed) + ", kernel " + std::to_string(k),
                                   std::move(program), std::move(before),
                                   agreements_of(kernel.tree, kernel.buffers.size(), kStepAgreement), symbols, 2));
    for (size_t b = 0; b < kernel.buffers.size(); ++b) memory.of(kernel.buffers[b]) = cases.back().after[b];
  }
}

}  // namespace

std::vector<Case> graph_cases(const Machine& machine, int graphs) {
  std::vector<Case> cases;
  for (int seed = 1; seed <= graphs; ++seed) add_kernels(cases, random_graph(static_cast<uint64_t>(seed)), machine);
  return cases;
}

}  // namespace smelt::cross
