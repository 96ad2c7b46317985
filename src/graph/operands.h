// Operands: the sources of nodes by name, for ops whose sources mean different things or stand alone. What kernels
// consist of besides (loads, stores, ranges, reductions over them) is in views.h. Which source is what is written in
// ops.def, checked by verify(), and known only here and there.
#pragma once

#include "graph/node.h"

namespace smelt {

// Of a unary op, a movement, a Place or an Output: what it is made of. Of a tensor's reduction with one: what it
// reduces.
inline Ref operand_of(Ref node) { return node->src[0]; }

// Of any reduction of a tensor: what has the axis that it reduces, of a softmax the scores.
inline Ref reduced_tensor(Ref reduce) { return reduce->src[0]; }

// Of a binary op, in the order in which it is written: x - y, x >> y, x < y.
struct BinaryView {
  explicit BinaryView(Ref node) : x(node->src[0]), y(node->src[1]) {}
  Ref x, y;
};

// x * y + z
struct FmaView {
  explicit FmaView(Ref node) : x(node->src[0]), y(node->src[1]), z(node->src[2]) {}
  Ref x, y, z;
};

// sum + the four products of the bytes of two words, those of x without a sign.
struct Dot4View {
  explicit Dot4View(Ref dot) : sum(dot->src[0]), x(dot->src[1]), y(dot->src[2]), greatest(dot->arg.i) {}
  Ref sum, x, y;
  int64_t greatest;  // no byte of x is above it (0: not known)
};

struct WhereView {
  explicit WhereView(Ref where) : condition(where->src[0]), yes(where->src[1]), no(where->src[2]) {}
  Ref condition, yes, no;
};

// Rows of a tensor by their numbers.
struct GatherView {
  explicit GatherView(Ref gather) : rows(gather->src[0]), numbers(gather->src[1]) {}
  Ref rows, numbers;
};

// A buffer of which some rows have become others.
struct WriteView {
  explicit WriteView(Ref write) : buffer(write->src[0]), numbers(write->src[1]), rows(write->src[2]) {}
  Ref buffer, numbers, rows;
};

// An online softmax of a tensor.
struct SoftmaxView {
  explicit SoftmaxView(Ref softmax) : score(softmax->src[0]), value(softmax->src[1]) {}
  Ref score, value;
};

}  // namespace smelt
