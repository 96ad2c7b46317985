// NodeMap and NodeSet: what is known of nodes while a graph is walked, found by the node's address. All walks of the
// compiler fill one, so it is an array that the entries lie in themselves: an entry goes where its address says, or
// behind that. Nothing is ever taken out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "graph/node.h"

namespace smelt {

template <class Value>
class NodeMap {
 public:
  // Null if there is none; until the next insertion.
  const Value* find(Ref node) const {
    if (size_ == 0) return nullptr;
    const Entry& entry = entries_[place_of(node.get())];
    return entry.node ? &entry.value : nullptr;
  }
  bool contains(Ref node) const { return find(node) != nullptr; }

  // False, and nothing has changed, if there is one.
  bool insert(Ref node, Value value) {
    if (2 * (size_ + 1) > entries_.size()) grow();
    Entry& entry = entries_[place_of(node.get())];
    if (entry.node) return false;
    entry = {node.get(), std::move(value)};
    ++size_;
    return true;
  }
  void set(Ref node, Value value) {
    if (!insert(node, value)) entries_[place_of(node.get())].value = std::move(value);
  }

 private:
  struct Entry {
    const Node* node = nullptr;
    [[no_unique_address]] Value value{};
  };

  // Where the node is, or would be. REQUIRES: there is a free place.
  size_t place_of(const Node* node) const {
    const size_t mask = entries_.size() - 1;
    size_t at = ((reinterpret_cast<uintptr_t>(node) * 0x9e3779b97f4a7c15ULL) >> 32) & mask;
    while (entries_[at].node && entries_[at].node != node) at = (at + 1) & mask;
    return at;
  }

  void grow() {
    std::vector<Entry> old = std::exchange(entries_, std::vector<Entry>(std::max<size_t>(2 * entries_.size(), 32)));
    for (Entry& entry : old)
      if (entry.node) entries_[place_of(entry.node)] = std::move(entry);
  }

  std::vector<Entry> entries_;  // a power of two of them
  size_t size_ = 0;
};

class NodeSet {
 public:
  bool contains(Ref node) const { return nodes_.contains(node); }
  bool insert(Ref node) { return nodes_.insert(node, {}); }  // false if it was there

 private:
  struct Nothing {};
  NodeMap<Nothing> nodes_;
};

}  // namespace smelt
