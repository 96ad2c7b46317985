#include "egraph/cost.h"

#include <algorithm>
#include <limits>

#include "base/ensure.h"
#include "graph/eval.h"

namespace smelt::egraph {
namespace {

constexpr double kAll = std::numeric_limits<double>::infinity();
constexpr double kQuantisedBytes = 1 + 4.0 / 32;  // an element, and its part of a scale

int64_t size_of(Ref dim, const std::map<std::string, int64_t>& variables) {
  if (const auto n = const_int(dim)) return *n;
  ScalarValues values;
  for (Ref n : toposort(dim))
    if (n->op == Op::Var) {
      const auto it = variables.find(n->arg.name);
      values[n].i = it == variables.end() ? n->max : it->second;
    }
  const auto value = eval_scalar(dim, values);
  ENSURE(value, "a size that cannot be computed");
  return value->i;
}

bool is_index_source(const ENode& node, size_t i) {
  return i == 1 && (node.op == EOp::Select || node.op == eop(Op::Gather) || node.op == EOp::GatheredCopy);
}

}  // namespace

Kind kind_of(const ENode& node) {
  switch (node.op) {
    case EOp::Weight: return Kind::Stored;
    case EOp::Contract:
    case EOp::GatheredCopy:
    case EOp::Quantised: return Kind::Kernel;
    case EOp::Concat:
    case EOp::Select: return Kind::Fused;
    default: break;
  }
  const Op op = tensor_op(node.op);
  if (op == Op::Param) return Kind::Stored;
  if (op == Op::Sink) return Kind::Fused;
  if (node.src.empty()) return Kind::Free;
  if (is_reduce(op) || op == Op::Place || op == Op::Output || op == Op::Write) return Kind::Kernel;
  return Kind::Fused;
}

Coster::Coster(const EGraph& g, const CostModel& model) : model_(model) {
  for (ClassId id : g.classes()) {
    index_[id] = static_cast<int>(classes_.size());
    classes_.push_back({id, elements(g.facts(id).shape), g.facts(id).is_constant, {}});
  }
  for (Class& c : classes_)
    for (const ENode& node : g.at(c.id).nodes) {
      std::vector<int> src;
      for (ClassId s : node.src) src.push_back(index_.at(g.find(s)));
      c.nodes.push_back({&node, kind_of(node), std::move(src)});
    }
  const size_t n = classes_.size();
  choice.resize(n, 0);
  state_.resize(n);
  read_.resize(n, 0);
  kernel_.resize(n, 0);
  asked_of_.resize(n, 0);
}

double Coster::elements(const Shape& shape) const {
  double n = 1;
  for (Ref d : shape) n *= static_cast<double>(size_of(d, model_.variables));
  return n;
}

std::optional<Cost> Coster::cost(int root) {
  std::ranges::fill(state_, State::New);
  order_.clear();
  if (!visit(root)) return std::nullopt;
  Cost sum;
  for (int c : order_)
    if (chosen(c).kind == Kind::Kernel && !classes_[c].is_constant) add_kernel(c, sum);
  sum.total = sum.weights + sum.values + sum.kernels * model_.launch_bytes;
  sum.total += 1e-3 * static_cast<double>(order_.size());  // of equal programs, the shorter
  return sum;
}

bool Coster::visit(int c) {
  if (state_[c] != State::New) return state_[c] == State::Done;
  state_[c] = State::Open;
  for (int s : chosen(c).src)
    if (!visit(s)) return false;
  state_[c] = State::Done;
  order_.push_back(c);
  return true;
}

// What an element takes where the class is stored.
double Coster::element_bytes(int c) const {
  const Node& n = chosen(c);
  switch (n.node->op) {
    case EOp::Weight: {
      const auto it = model_.weight_bytes.find(n.node->arg.i);
      return it == model_.weight_bytes.end() ? 4 : it->second;
    }
    case EOp::Contract:
      if (!classes_[c].is_constant || model_.folded == CostModel::Folded::Exact) return 4;
      return std::min(element_bytes(n.src[0]), element_bytes(n.src[1]));
    case EOp::Quantised: return kQuantisedBytes;
    case EOp::GatheredCopy:
    case EOp::Select: return element_bytes(n.src[0]);
    case EOp::Concat: return bytes_of_concat(n);
    default: break;
  }
  return is_move(tensor_op(n.node->op)) ? element_bytes(n.src[0]) : smelt::size_of(n.node->dtype);
}

double Coster::bytes_of_concat(const Node& n) const {
  double bytes = 0, elements = 0;
  for (int s : n.src) {
    bytes += element_bytes(s) * classes_[s].elements;
    elements += classes_[s].elements;
  }
  return bytes / elements;
}

void Coster::add_kernel(int c, Cost& sum) {
  const Node& n = chosen(c);
  ++current_kernel_;
  sources_.clear();
  const bool writes_rows = n.node->op == eop(Op::Write);  // rows of the buffer src0, and reads none
  for (size_t i = writes_rows ? 1 : 0; i < n.src.size(); ++i)
    read(n.src[i], n.node->op == EOp::GatheredCopy && i == 0 ? classes_[c].elements : kAll);
  for (int s : sources_) {
    (classes_[s].is_constant ? sum.weights : sum.values) += read_[s] * element_bytes(s);
    read_[s] = 0;
  }
  sum.values +=
      writes_rows ? classes_[n.src[2]].elements * element_bytes(n.src[2]) : classes_[c].elements * element_bytes(c);
  ++sum.kernels;
}

// The kernel asks for `limit` elements of class c at most.
void Coster::read(int c, double limit) {
  const Node& n = chosen(c);
  limit = std::min(limit, classes_[c].elements);
  if (n.kind == Kind::Free) return;
  if (n.kind == Kind::Fused) return read_sources(c, limit);
  if (read_[c] == 0) sources_.push_back(c);
  read_[c] = std::min(classes_[c].elements, read_[c] + limit);  // two slices are not the same one
}

void Coster::read_sources(int c, double limit) {
  if (kernel_[c] == current_kernel_ && asked_of_[c] >= limit) return;  // known already
  kernel_[c] = current_kernel_;
  asked_of_[c] = limit;
  const Node& n = chosen(c);
  if (n.node->op == eop(Op::Bitcast)) {
    const DType from = classes_[n.src[0]].nodes[0].node->dtype;
    limit *= double(smelt::size_of(n.node->dtype)) / smelt::size_of(from);
  }
  // Of matrices put together each gives its share: rows are chosen from all of them.
  const double share = limit / classes_[c].elements;
  for (size_t i = 0; i < n.src.size(); ++i) {
    const double part = n.node->op == EOp::Concat ? share * classes_[n.src[i]].elements : limit;
    read(n.src[i], is_index_source(*n.node, i) ? kAll : part);
  }
}

std::optional<Cost> cost_of(const EGraph& g, ClassId root, const Choice& choice, const CostModel& model) {
  Coster coster(g, model);
  for (const auto& [id, node] : choice) coster.choice[coster.index(g.find(id))] = node;
  return coster.cost(coster.index(g.find(root)));
}

}  // namespace smelt::egraph
