#include "grammar/regular.h"

#include <algorithm>
#include <map>

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

Grammar::Expr plain_form(Grammar& grammar, const Codepoints& set) { return grammar.characters(set); }

Grammar::Expr to_grammar(Grammar& grammar, const Regular& language, CharacterForm form) {
  Grammar::Graph graph{.states = language.states, .edges = {}, .ends = language.ends};
  std::vector<std::pair<Codepoints, Grammar::Expr>> forms;  // few classes are many edges
  for (const Regular::Edge& e : language.edges) {
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
