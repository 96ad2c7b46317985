#include "grammar/regular.h"

#include <algorithm>
#include <map>

#include "grammar/mark_tree.h"
#include "text/utf8.h"

namespace smelt {

Result<Regular> with_length(const Regular& language, int least, int most) {
  const int counted = most < 0 ? least : most;  // characters are counted up to this many
  if (static_cast<int64_t>(language.states) * (counted + 1) > kMostPositions)
    return Error{"[grammar] a length of " + std::to_string(counted) + " is too much for this pattern"};
  Regular out;
  out.states = language.states * (counted + 1);
  const auto state = [&](int s, int count) { return s + language.states * count; };
  for (const Regular::Edge& e : language.edges) {
    for (int count = 0; count <= counted; ++count) {
      if (e.on.empty()) {
        out.skip(state(e.from, count), state(e.to, count));
      } else if (count < counted) {
        out.connect(state(e.from, count), e.on, state(e.to, count + 1));
      } else if (most < 0) {
        out.connect(state(e.from, count), e.on, state(e.to, count));
      }
    }
  }
  for (int end : language.ends)
    for (int count = least; count <= counted; ++count) out.ends.push_back(state(end, count));
  return out;
}

Regular all_but(const std::vector<std::string>& texts) {
  Regular out;
  std::vector<std::map<uint32_t, int>> children(1);  // a tree of the texts, in the states that they share
  std::vector<char> is_text(1);
  for (const std::string& text : texts) {
    int at = 0;
    for (size_t pos = 0; pos < text.size();) {
      const Utf8Char c = utf8_at(text, pos);
      pos += c.length;
      const auto [child, is_new] = children[static_cast<size_t>(at)].try_emplace(c.codepoint, out.states);
      const int to = child->second;
      if (is_new) {
        out.connect(at, Codepoints::one(c.codepoint), out.add_state());
        children.emplace_back();
        is_text.push_back(0);
      }
      at = to;
    }
    is_text[static_cast<size_t>(at)] = 1;
  }
  const int tree = out.states, rest = out.add_state();
  for (int s = 0; s < tree; ++s) {
    Codepoints others = Codepoints::all();
    for (const auto& [c, to] : children[static_cast<size_t>(s)]) others = others.without(Codepoints::one(c));
    out.connect(s, others, rest);
    if (!is_text[static_cast<size_t>(s)]) out.ends.push_back(s);
  }
  out.connect(rest, Codepoints::all(), rest);
  out.ends.push_back(rest);
  return out;
}

Regular without_marks(const std::vector<std::string>& marks) {
  std::vector<std::u32string> texts;
  for (const std::string& mark : marks) texts.push_back(as_characters(mark));
  const MarkTree tree(texts);
  Regular out;
  out.states = tree.states();
  for (int state = 0; state < tree.states(); ++state) {
    if (tree.mark_at(state) >= 0) continue;
    for (MarkTree::Way& way : tree.ways(state, kLastCodepoint)) out.connect(state, std::move(way.on), way.to);
    out.ends.push_back(state);
  }
  return out;
}

namespace {

// Edges by where they begin, and which states are ends.
struct Ways {
  explicit Ways(const Regular& language)
      : from(static_cast<size_t>(language.states)), is_end(static_cast<size_t>(language.states)) {
    for (const Regular::Edge& e : language.edges) from[static_cast<size_t>(e.from)].push_back(&e);
    for (int end : language.ends) is_end[static_cast<size_t>(end)] = true;
  }
  std::vector<std::vector<const Regular::Edge*>> from;
  std::vector<char> is_end;
};

}  // namespace

// States are pairs, as far as they are reached.
Result<Regular> both(const Regular& a, const Regular& b) {
  const Ways ways_a(a), ways_b(b);
  Regular out;
  std::map<std::pair<int, int>, int> state_of{{{0, 0}, 0}};
  std::vector<std::pair<int, int>> open{{0, 0}};
  const auto state = [&](int in_a, int in_b) {
    const auto [known, is_new] = state_of.try_emplace({in_a, in_b}, out.states);
    if (is_new) open.emplace_back(in_a, in_b), ++out.states;
    return known->second;
  };
  while (!open.empty()) {
    const auto [in_a, in_b] = open.back();
    open.pop_back();
    if (out.states > kMostPositions) return Error{"[grammar] a pattern is too large beside the marks of a format"};
    const int here = state(in_a, in_b);
    const auto &from_a = ways_a.from[static_cast<size_t>(in_a)], &from_b = ways_b.from[static_cast<size_t>(in_b)];
    for (const Regular::Edge* e : from_a)
      if (e->on.empty()) out.skip(here, state(e->to, in_b));
    for (const Regular::Edge* e : from_b)
      if (e->on.empty()) out.skip(here, state(in_a, e->to));
    for (const Regular::Edge* e : from_a) {
      for (const Regular::Edge* f : from_b) {
        Codepoints on = e->on.within(f->on);
        if (!on.empty()) out.connect(here, std::move(on), state(e->to, f->to));
      }
    }
    if (ways_a.is_end[static_cast<size_t>(in_a)] && ways_b.is_end[static_cast<size_t>(in_b)]) out.ends.push_back(here);
  }
  return out;
}

Regular without_characters(Regular language, const Codepoints& characters) {
  std::vector<Regular::Edge> kept;
  for (Regular::Edge& e : language.edges) {
    const bool reads = !e.on.empty();
    e.on = e.on.without(characters);
    if (!reads || !e.on.empty()) kept.push_back(std::move(e));
  }
  language.edges = std::move(kept);
  return language;
}

Grammar::Expr plain_form(Grammar& grammar, const Codepoints& set) { return grammar.characters(set); }

namespace {

// Edges beside each other as one.
std::vector<Regular::Edge> joined_edges(const Regular& language) {
  std::vector<Regular::Edge> edges;
  std::map<std::pair<int, int>, size_t> edge_of;
  for (const Regular::Edge& e : language.edges) {
    const auto [known, is_new] = edge_of.try_emplace({e.from, e.to}, edges.size());
    if (is_new || e.on.empty() || edges[known->second].on.empty())
      edges.push_back(e);
    else
      edges[known->second].on.add(e.on);
  }
  return edges;
}

}  // namespace

Grammar::Expr to_grammar(Grammar& grammar, const Regular& language, CharacterForm form) {
  Grammar::Graph graph{.states = language.states, .edges = {}, .ends = language.ends};
  std::vector<std::pair<Codepoints, Grammar::Expr>> forms;  // few classes are many edges
  for (const Regular::Edge& e : joined_edges(language)) {
    Grammar::Expr label = Grammar::kEmpty;
    if (!e.on.empty()) {
      auto known = std::find_if(forms.begin(), forms.end(), [&](const auto& f) { return f.first == e.on; });
      if (known == forms.end()) known = forms.insert(forms.end(), {e.on, form(grammar, e.on)});
      label = known->second;
    }
    graph.edges.push_back({e.from, label, e.to});
  }
  return grammar.graph(std::move(graph));
}

}  // namespace smelt
