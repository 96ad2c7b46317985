#include "grammar/json_lists.h"

#include <algorithm>

namespace smelt {

using Expr = Grammar::Expr;

// State n: n items are written.
Expr list_of(JsonText& text, const std::vector<Expr>& first, Expr item, int least, int most) {
  Grammar& grammar = text.grammar();
  const int counted = std::max({least, most, static_cast<int>(first.size())});
  const bool goes_on = most < 0;
  if (counted > kMostPositions / 2 || (most >= 0 && most < least)) return Grammar::kNothing;
  Grammar::Graph graph{.states = counted + 1, .edges = {}, .ends = {}};
  const auto add = [&](int from, int to) {
    const Expr what = from < static_cast<int>(first.size()) ? first[static_cast<size_t>(from)] : item;
    graph.edges.push_back({from, from == 0 ? what : grammar.sequence({text.comma(), what}), to});
  };
  for (int n = 0; n < counted && (goes_on || n < most); ++n) add(n, n + 1);
  if (goes_on && counted > 0) add(counted, counted);
  if (goes_on && counted == 0) {
    graph.states = 2;
    add(0, 1);
    add(1, 1);
    graph.ends = {0, 1};
  }
  for (int n = least; n <= counted && (goes_on || n <= most); ++n)
    if (std::find(graph.ends.begin(), graph.ends.end(), n) == graph.ends.end()) graph.ends.push_back(n);
  return text.list('[', grammar.graph(std::move(graph)), ']');
}

// State (i, n): the first i properties are decided, n entries are written, counted as far as it matters.
Expr object_of(JsonText& text, const std::vector<JsonProperty>& properties, Expr others, int least, int most) {
  Grammar& grammar = text.grammar();
  const int size = static_cast<int>(properties.size());
  const bool is_bounded = most >= 0 && (others != Grammar::kNothing || most < size);
  const int counted = std::max({1, std::min(least, size + 1), is_bounded ? most : 1});
  const auto state = [&](int i, int n) { return i * (counted + 1) + n; };
  Grammar::Graph graph{.states = (size + 1) * (counted + 1), .edges = {}, .ends = {}};
  const auto add = [&](int i, int n, Expr entry, int to_i) {
    if (n == counted && is_bounded) return;  // the last that may be
    const Expr label = n == 0 ? entry : grammar.sequence({text.comma(), entry});
    graph.edges.push_back({state(i, n), label, state(to_i, std::min(n + 1, counted))});
  };
  for (int i = 0; i < size; ++i) {
    const JsonProperty& p = properties[static_cast<size_t>(i)];
    for (int n = 0; n <= counted; ++n) {
      add(i, n, p.entry, i + 1);
      if (!p.is_required) graph.edges.push_back({state(i, n), Grammar::kEmpty, state(i + 1, n)});
    }
  }
  for (int n = 0; n <= counted; ++n) {
    if (others != Grammar::kNothing) add(size, n, others, size);
    if (n >= least && (most < 0 || n <= most)) graph.ends.push_back(state(size, n));
  }
  return text.list('{', grammar.graph(std::move(graph)), '}');
}

}  // namespace smelt
