// Node: the one node type of smelt. Tensor graphs, scheduled kernels and lowered loop programs are all made of it.
//
// Nodes are immutable and interned: building the same node twice gives the same pointer, so equality is pointer
// equality and common subexpressions cannot exist twice. They live as long as the process. Building is thread-safe.
// Which ops are legal in which phase is checked by graph/verify.h; ops are listed in ops.def.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace smelt {

enum class Op : uint8_t {
#define OP(name, text, klass, arity, doc) name,
#include "graph/ops.def"
#undef OP
};

enum class OpClass : uint8_t { leaf, unary, binary, ternary, move, reduce, memory, root };

struct OpRow {
  std::string_view text;
  OpClass klass;
  int arity;
};
inline constexpr OpRow kOps[] = {
#define OP(name, text, klass, arity, doc) OpRow{text, OpClass::klass, arity},
#include "graph/ops.def"
#undef OP
};
constexpr const OpRow& row_of(Op op) { return kOps[static_cast<size_t>(op)]; }

constexpr std::string_view name_of(Op op) { return row_of(op).text; }
std::optional<Op> op_from_name(std::string_view text);
constexpr OpClass class_of(Op op) { return row_of(op).klass; }
constexpr int arity_of(Op op) { return row_of(op).arity; }  // -1: any number of sources
inline bool is_elementwise(Op op) {
  OpClass c = class_of(op);
  return c == OpClass::unary || c == OpClass::binary || c == OpClass::ternary;
}
inline bool is_move(Op op) { return class_of(op) == OpClass::move; }
inline bool is_reduce(Op op) { return class_of(op) == OpClass::reduce; }

// What distinguishes nodes of one op besides type and sources; the meaning of the fields is in ops.def.
struct Arg {
  int64_t i = 0;
  double f = 0;
  std::vector<int64_t> list;
  std::string name;
  // Floats are compared by their bits, so that a NaN is itself and -0 is not 0.
  bool operator==(const Arg& o) const {
    return i == o.i && std::bit_cast<uint64_t>(f) == std::bit_cast<uint64_t>(o.f) && list == o.list && name == o.name;
  }
};

struct Node;

// A handle to an interned node. Converts to nothing by itself.
class Ref {
 public:
  Ref() = default;
  explicit Ref(const Node* node) : node_(node) {}
  const Node* operator->() const { return node_; }
  const Node& operator*() const { return *node_; }
  const Node* get() const { return node_; }
  explicit operator bool() const { return node_ != nullptr; }
  bool operator==(const Ref&) const = default;

 private:
  const Node* node_ = nullptr;
};

using Refs = std::vector<Ref>;
using Shape = std::vector<Ref>;  // i64 scalars: constants, variables and arithmetic on them

struct Node {
  Op op;
  DType dtype;
  Refs src;
  Arg arg;
  Shape shape;       // empty for scalars and at kernel level
  uint64_t key;      // structural hash, the same in every process
  int64_t min, max;  // bounds of an integer or bool scalar's value; the dtype's limits when unknown
};

inline bool contains(std::span<const Ref> list, Ref x) { return std::find(list.begin(), list.end(), x) != list.end(); }

// Order of printing and sorting that does not depend on addresses.
inline bool structurally_less(Ref a, Ref b) { return a->key < b->key; }

// Builds (or finds) a node. Checks arity; fills in key and bounds. Shapes are given by the caller: use tensor.h.
Ref make(Op op, DType dtype, Refs src = {}, Arg arg = {}, Shape shape = {});

// The same node with other sources.
Ref with_sources(Ref node, Refs src);

// --- scalars
Ref constant(int64_t value, DType dtype = DType::I64);
Ref constant_f(double value, DType dtype = DType::F32);
Ref variable(std::string name, int64_t min, int64_t max);
bool is_const(Ref node);
bool is_const(Ref node, int64_t value);      // integers and bool only
std::optional<int64_t> const_int(Ref node);  // nullopt unless an integer or bool constant

// Elementwise nodes of equal dtype and shape; a shape is taken over from the first source.
// Nothing is folded here: see rules_algebra.h for simplify().
Ref unary(Op op, Ref x);
Ref binary(Op op, Ref x, Ref y);
Ref where(Ref condition, Ref x, Ref y);
Ref cast(Ref x, DType dtype);     // x itself if it has that dtype
Ref bitcast(Ref x, DType dtype);  // scalars: sizes must agree
Ref operator+(Ref x, Ref y);
Ref operator-(Ref x, Ref y);
Ref operator*(Ref x, Ref y);
Ref operator/(Ref x, Ref y);
Ref operator%(Ref x, Ref y);
Ref operator+(Ref x, int64_t y);
Ref operator-(Ref x, int64_t y);
Ref operator*(Ref x, int64_t y);
Ref operator/(Ref x, int64_t y);
Ref operator%(Ref x, int64_t y);

// --- walking
// All nodes below root (root included), sources before users, each once, in a structural order. Shapes not visited.
Refs toposort(Ref root);

// Rebuilds the graph below root: `f` sees each node with its sources already replaced and returns its replacement.
Ref rebuild(Ref root, const std::function<Ref(Ref original, Ref rebuilt)>& f);

// For maps and sets of nodes. Nodes are one pointer where they are equal.
struct RefHash {
  size_t operator()(Ref r) const { return std::hash<const void*>()(r.get()); }
};

}  // namespace smelt
