// Automaton: a grammar as positions and the bytes that lead from one to the next. A rule that is used is a call: the
// automaton of the rule runs, then goes on behind the call, so the whole is a stack machine (matcher.h runs it).
//
// What can never be completed is cut off: from every position that is left some text ends its rule.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "grammar/grammar.h"

namespace smelt {

class Automaton {
 public:
  struct Edge {
    uint8_t first, last;  // bytes, both inside
    int32_t to;
  };
  struct Position {
    int32_t rule;
    std::vector<Edge> edges;
    std::vector<int32_t> next;  // reached without a byte
    int32_t call = -1;          // a rule that runs here,
    int32_t after = -1;         // and where it goes on behind it
    bool is_end = false;        // of its rule
    bool only_returns = false;  // nothing but the end of its rule can follow
  };

  // Errors: a rule that is used and not defined, left recursion, more than kMostPositions, a grammar without any text.
  static Result<Automaton> from(const Grammar& grammar);

  const Position& at(int32_t position) const { return positions_[static_cast<size_t>(position)]; }
  int32_t start() const { return starts_.back(); }  // the root is the last rule
  int32_t start_of(int32_t rule) const { return starts_[static_cast<size_t>(rule)]; }
  // Where all calls of the rule go on.
  const std::vector<int32_t>& callers(int32_t rule) const { return callers_[static_cast<size_t>(rule)]; }
  int32_t size() const { return static_cast<int32_t>(positions_.size()); }

 private:
  friend class AutomatonBuilder;
  std::vector<Position> positions_;
  std::vector<int32_t> starts_;                // by rule
  std::vector<std::vector<int32_t>> callers_;  // by rule
};

}  // namespace smelt
