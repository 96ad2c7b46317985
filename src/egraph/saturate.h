// Equality saturation: applies rules to an e-graph until they add nothing, or a limit is reached. All matches of a
// round are found before any is applied, so the order of the rules does not matter.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "egraph/pattern.h"

namespace smelt::egraph {

// A rule: whenever the left sides match together, right[i] has the value of left[i].
struct Rule {
  // The classes equal to the roots of the match, in order; none where the rule does not apply.
  using Right = std::function<std::vector<ClassId>(EGraph&, const Match&)>;

  std::string name;
  std::vector<Pat> left;
  Right right;
};

struct Limits {
  int rounds = 16;
  size_t nodes = 20'000;
};

enum class Stopped : uint8_t { Saturated, Rounds, Nodes };

struct Report {
  Stopped why = Stopped::Saturated;
  int rounds = 0;
  std::map<std::string, int> fired;  // by rule: how often it taught the graph something
};

Report saturate(EGraph& g, const std::vector<Rule>& rules, const Limits& limits = {});

}  // namespace smelt::egraph
