#include "grammar/free_text.h"

#include "grammar/mark_tree.h"

namespace smelt {

namespace {

class FreeText {
 public:
  FreeText(Grammar& grammar, const MarkTree& tree) : grammar_(grammar), tree_(tree) {}

  // All ways out of a state of the tree but those on `left_out`, from a state of the graph.
  void add_ways(Grammar::Graph& graph, int from, int state, const Codepoints& left_out, int first) {
    for (const MarkTree::Way& way : tree_.ways(state, 0xFF)) {
      const Codepoints on = way.on.without(left_out);
      for (const Codepoints::Range& r : on.ranges())
        graph.edges.push_back(
            {from, grammar_.bytes({static_cast<uint8_t>(r.first), static_cast<uint8_t>(r.last)}), first + way.to});
    }
  }

 private:
  Grammar& grammar_;
  const MarkTree& tree_;
};

Codepoints spaces_and_brace() {
  Codepoints set = Codepoints::one('{');
  for (char space : {' ', '\t', '\r', '\n'}) set.add(static_cast<uint32_t>(space), static_cast<uint32_t>(space));
  return set;
}

}  // namespace

// States of the graph: before anything but spaces, the end, then those of the tree.
Grammar::Expr text_until(Grammar& grammar, const std::vector<Mark>& marks, bool may_end, Grammar::Expr braced) {
  constexpr int kStart = 0, kDone = 1, kTree = 2;
  std::vector<std::u32string> texts;
  for (const Mark& mark : marks) texts.push_back(as_bytes(mark.text));
  const MarkTree tree(texts);
  FreeText ways(grammar, tree);
  Grammar::Graph graph{.states = kTree + tree.states(), .edges = {}, .ends = {kDone}};
  for (int state = 0; state < tree.states(); ++state) {
    if (const int mark = tree.mark_at(state); mark >= 0) {
      graph.edges.push_back({kTree + state, marks[static_cast<size_t>(mark)].then, kDone});
      continue;
    }
    ways.add_ways(graph, kTree + state, state, {}, kTree);
    if (may_end) graph.ends.push_back(kTree + state);
  }
  if (braced == Grammar::kNothing) {
    graph.edges.push_back({kStart, Grammar::kEmpty, kTree});
  } else {
    ways.add_ways(graph, kStart, 0, spaces_and_brace(), kTree);
    for (const char* space : {" ", "\t", "\r", "\n"}) graph.edges.push_back({kStart, grammar.literal(space), kStart});
    graph.edges.push_back({kStart, braced, kDone});
    if (may_end) graph.ends.push_back(kStart);
  }
  return grammar.graph(std::move(graph));
}

}  // namespace smelt
