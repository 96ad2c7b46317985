// A segment's tensor graph as an e-graph, and a program of an e-graph as a tensor graph.
//
// In: every node becomes a node of its own, except contractions. Since equal nodes are the same pointer, "is this sum
// the product of x with weight w?" is answered by building that product (model/dequant.h) and comparing pointers; so
// nothing here knows how a product is written, only how far below it to look for x. Sums of products of two
// activations are found by their shape.
// Out: the same the other way round. A graph that no rule has touched comes out as the same pointer.
#pragma once

#include <map>

#include "egraph/cost.h"
#include "gguf/gguf.h"
#include "model/product.h"
#include "model/segment.h"

namespace smelt::egraph {

// What the weight of a slot is.
struct WeightInfo {
  Tensor raw;  // as raw_weight() makes it
  GgufType type = GgufType::F32;
  WeightLayout layout;
};
using WeightTable = std::map<int64_t, WeightInfo>;  // by slot

// The weights of a segment made from `file`; `prefix` as in layer_prefix(), empty for embed and head.
WeightTable weights_of(const Segment& segment, const GgufFile& file, const std::string& prefix);

// Adds the graph below root; its class.
ClassId add_graph(EGraph& g, Ref root, const WeightTable& weights);

// REQUIRES: the choice has no cycle; `weights` has every slot that the program uses.
Ref to_graph(const EGraph& g, ClassId root, const Choice& choice, const WeightTable& weights);

// Bytes per element of each weight, for CostModel::weight_bytes.
std::map<int64_t, double> bytes_of(const WeightTable& weights);

}  // namespace smelt::egraph
