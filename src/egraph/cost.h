// The cost of a program of an e-graph: the bytes that it moves.
//
// It is that of a graph, not of a tree: what two readers share is computed and stored once. Contractions, reductions
// and copies are kernels: each reads its sources, writes its result, and costs a launch. Elementwise work and movement
// happen inside the kernels that read them, as in schedule/. A kernel reads of a source what it uses of it (a slice,
// the chosen experts), and of a weight what its block format takes. What is made of weights alone is stored when the
// model is loaded and costs only being read.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "egraph/egraph.h"

namespace smelt::egraph {

struct CostModel {
  std::map<int64_t, double> weight_bytes;    // by slot: bytes per element; 4 where it is not listed
  std::map<std::string, int64_t> variables;  // sizes; the greatest where it is not listed
  double launch_bytes = 8 << 10;             // what memory could deliver in the time of a launch

  // How a product of weights is stored. Exactly, it needs floats. The narrowest format among its factors is the best
  // that a fold could have, and changes the model.
  enum class Folded : uint8_t { Exact, Narrowest } folded = Folded::Exact;
};

struct Cost {
  double weights = 0;  // bytes read of weights
  double values = 0;   // bytes read and written of everything else
  int kernels = 0;
  double total = 0;  // in bytes, launches included
};

// For each class (by the id that stands for it) the index of the node that computes it; 0, the oldest, where it is not
// listed. REQUIRES of its users: the graph has not changed since.
using Choice = std::unordered_map<ClassId, size_t>;

// nullopt where the choice has a cycle.
std::optional<Cost> cost_of(const EGraph& g, ClassId root, const Choice& choice, const CostModel& model);

// How a node is computed.
enum class Kind : uint8_t {
  Free,    // a number, an index
  Stored,  // lies in memory already
  Fused,   // computed where it is read
  Kernel,  // computed once and stored
};
Kind kind_of(const ENode& node);

// An e-graph with dense numbers for its classes, prepared for the cost of many choices.
class Coster {
 public:
  struct Node {
    const ENode* node;
    Kind kind;
    std::vector<int> src;
  };
  struct Class {
    ClassId id;
    double elements;
    bool is_constant;
    std::vector<Node> nodes;
  };

  // REQUIRES: g and model stay as they are.
  Coster(const EGraph& g, const CostModel& model);

  int index(ClassId id) const { return index_.at(id); }
  const std::vector<Class>& classes() const { return classes_; }

  std::vector<size_t> choice;  // by dense number

  // The cost of `choice`; nullopt where it has a cycle.
  std::optional<Cost> cost(int root);
  // The classes that the last cost() met, sources first.
  const std::vector<int>& order() const { return order_; }

 private:
  const Node& chosen(int c) const { return classes_[c].nodes[choice[c]]; }
  double elements(const Shape& shape) const;
  bool visit(int c);
  double element_bytes(int c) const;
  double bytes_of_concat(const Node& n) const;
  void add_kernel(int c, Cost& total);
  void read(int c, double limit);
  void read_sources(int c, double limit);

  const CostModel& model_;
  std::vector<Class> classes_;
  std::unordered_map<ClassId, int> index_;

  // Of the cost being computed.
  enum class State : uint8_t { New, Open, Done };
  std::vector<State> state_;
  std::vector<int> order_;
  std::vector<int> sources_;      // that the kernel reads
  std::vector<double> read_;      // by class: elements that the kernel reads of it
  std::vector<int64_t> kernel_;   // by class: the kernel that met it last
  std::vector<double> asked_of_;  // by class: the elements that kernel asked for
  int64_t current_kernel_ = 0;
};

}  // namespace smelt::egraph
