// ENode: one way to compute a value, with classes of equal values as its sources.
//
// The language is that of a tensor graph (graph/ops.def), node for node, and the few ops that a tensor graph only has
// in pieces: a contraction there is a reshape, an expand, a product and a sum, and a weight is the formula of its
// block format.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/node.h"

namespace smelt::egraph {

using ClassId = uint32_t;

// Values below kTensorOps are those of Op.
enum class EOp : uint8_t {
  // The values of a quantised or plain matrix, arg.i is its slot, arg.name what it is for.
  Weight = 200,
  // y[..., n] = sum over k of src0[..., k] * src1[..., n, k]; the axes in front broadcast as numpy's.
  Contract,
  // The sources one after another along axis arg.i.
  Concat,
  // y[..., j, n] = src0[..., src1[..., j], n]: another choice for each of the axes in front.
  Select,
  // The values of Gather, from a copy that was made in memory first.
  GatheredCopy,
  // src0 as 8-bit integers and scales, see quantise_activations(): near src0, not equal to it.
  Quantised,
};
constexpr uint8_t kTensorOps = 200;

constexpr EOp eop(Op op) { return static_cast<EOp>(op); }
constexpr bool is_tensor_op(EOp op) { return static_cast<uint8_t>(op) < kTensorOps; }
constexpr Op tensor_op(EOp op) { return static_cast<Op>(op); }  // REQUIRES: is_tensor_op
std::string_view name_of(EOp op);

struct ENode {
  EOp op{};
  DType dtype = DType::Void;
  Arg arg;
  Shape shape;  // of the value; equal for all nodes of a class
  std::vector<ClassId> src;
  bool operator==(const ENode&) const = default;
};

// --- sources and arguments by name, as views.h and args.h have them for nodes

// Of a Gather, a GatheredCopy or a Select.
struct ChoiceView {
  explicit ChoiceView(const ENode& node) : from(node.src[0]), index(node.src[1]) {}
  ClassId from, index;
};
struct ContractView {
  explicit ContractView(const ENode& node) : x(node.src[0]), w(node.src[1]) {}
  ClassId x, w;
};
// Of movement, of a reduction of one value, of a Quantised.
inline ClassId source_of(const ENode& node) { return node.src[0]; }

inline int64_t slot_of(const ENode& weight) { return weight.arg.i; }
inline int64_t axis_of(const ENode& concat) { return concat.arg.i; }
inline const std::vector<int64_t>& permutation_of(const ENode& permute) { return permute.arg.list; }
inline const std::vector<int64_t>& begins_of(const ENode& shrink) { return shrink.arg.list; }
inline const std::vector<int64_t>& reduced_axes(const ENode& reduce) { return reduce.arg.list; }

struct ENodeHash {
  size_t operator()(const ENode& node) const;
};

}  // namespace smelt::egraph
