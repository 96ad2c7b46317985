// EGraph: many programs at once. A class holds the nodes known to have the same value; a node's sources are classes,
// so a few hundred nodes stand for very many graphs. Rules (saturate.h) only ever add to it; extraction (extract.h)
// chooses.
//
//   const ClassId a = g.add(x), b = g.add(y);
//   g.merge(a, b);   // the two have the same value
//   g.rebuild();     // so nodes that only differ in a and b do, too (congruence)
//
// As in egg (Willsey et al., POPL 2021): union-find over classes, hash-consing of nodes, congruence restored once for
// many merges, and an analysis that gives every class its facts.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "egraph/enode.h"

namespace smelt::egraph {

// What holds for the value of a class, however it is computed.
struct Facts {
  DType dtype = DType::Void;
  Shape shape;
  bool is_constant = false;  // made of weights alone: may be computed when the model is loaded
};

struct EClass {
  // Oldest first. The sources of a class's oldest node are older than the class, so the oldest nodes alone are a
  // program without cycles: the one that was there first.
  std::vector<ENode> nodes;
  std::vector<uint64_t> births;                    // of nodes[i]: a count of all nodes ever added
  std::vector<std::pair<ENode, ClassId>> parents;  // nodes that have this class as a source, and their classes
  Facts facts;
};

class EGraph {
 public:
  // The class of a node, found or made. Sources may be any ids that were given out.
  ClassId add(ENode node);

  // States that both have the same value. False if that was known. REQUIRES: equal dtypes and shapes (ENSURE). Until
  // rebuild(), congruent nodes may be in different classes.
  bool merge(ClassId a, ClassId b);
  void rebuild();

  // The id that stands for a class now.
  ClassId find(ClassId id) const;
  const EClass& at(ClassId id) const { return classes_[find(id)]; }
  const Facts& facts(ClassId id) const { return at(id).facts; }
  std::vector<ClassId> classes() const;  // ids that stand for themselves, oldest first
  size_t node_count() const { return memo_.size(); }

  // The first node of the class with this op, or null.
  const ENode* node_of(ClassId id, EOp op) const;

 private:
  ENode canonical(ENode node) const;
  Facts facts_of(const ENode& node) const;
  void repair(ClassId id);
  void sort_nodes();

  std::vector<ClassId> leader_;  // union-find
  std::vector<EClass> classes_;  // by id; empty where another class leads
  std::unordered_map<ENode, ClassId, ENodeHash> memo_;
  std::vector<ClassId> pending_;  // classes whose parents are to be looked at again
  uint64_t births_ = 0;
};

}  // namespace smelt::egraph
