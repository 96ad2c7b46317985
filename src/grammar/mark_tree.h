// MarkTree: which of some marks a text that is read symbol by symbol has just ended with (Aho and Corasick's
// automaton). Symbols are bytes or characters, as its user reads them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/codepoints.h"

namespace smelt {

class MarkTree {
 public:
  // REQUIRES: no mark is empty.
  explicit MarkTree(const std::vector<std::u32string>& marks);

  int states() const { return static_cast<int>(nodes_.size()); }  // it begins in state 0
  // The longest mark that ends here; -1: none.
  int mark_at(int state) const { return nodes_[static_cast<size_t>(state)].mark; }

  struct Way {
    Codepoints on;
    int to;
  };
  // All ways out of a state, on the symbols 0 to `last`.
  std::vector<Way> ways(int state, uint32_t last) const;

 private:
  struct Node {
    std::map<uint32_t, int> children;
    int shorter = 0;  // the state of the longest end of this text that begins a mark
    int mark = -1;
  };
  void add(const std::u32string& mark, int number);
  void link();
  int next(int state, uint32_t symbol) const;

  std::vector<Node> nodes_;
  std::vector<uint32_t> alphabet_;  // ascending
};

std::u32string as_bytes(std::string_view text);
std::u32string as_characters(std::string_view text);

}  // namespace smelt
