#include "grammar/grammar.h"

#include <map>
#include <utility>

namespace smelt {

Grammar::Grammar() {
  add({.kind = Kind::Sequence});
  add({.kind = Kind::Choice});
}

Grammar::Expr Grammar::add(Node node) {
  nodes_.push_back(std::move(node));
  return static_cast<Expr>(nodes_.size()) - 1;
}

Grammar::Expr Grammar::literal(std::string_view bytes) {
  std::vector<Expr> parts;
  for (char c : bytes) {
    const auto byte = static_cast<uint8_t>(c);
    parts.push_back(this->bytes({byte, byte}));
  }
  return sequence(std::move(parts));
}

// Sequences that end alike share what they end with.
Grammar::Expr Grammar::characters(const Codepoints& set) {
  if (set.empty()) return kNothing;
  if (const auto& only = set.ranges()[0]; set.ranges().size() == 1 && only.last < 0x80)
    return bytes({static_cast<uint8_t>(only.first), static_cast<uint8_t>(only.last)});
  Graph graph{.states = 2, .edges = {}, .ends = {1}};
  std::map<std::vector<std::pair<uint8_t, uint8_t>>, int> state_of{{{}, 1}};  // by the bytes that are still to come
  for (const Codepoints::Range& range : set.ranges()) {
    for (const ByteSequence& bytes : utf8_sequences(range)) {
      std::vector<std::pair<uint8_t, uint8_t>> rest;
      int to = 1;
      for (size_t i = bytes.size(); i-- > 0;) {
        rest.insert(rest.begin(), {bytes[i].first, bytes[i].last});
        const auto [known, is_new] = state_of.try_emplace(rest, i == 0 ? 0 : graph.states);
        if (is_new && i > 0) ++graph.states;
        if (is_new) graph.edges.push_back({known->second, add({.kind = Kind::Bytes, .bytes = bytes[i]}), to});
        to = known->second;
      }
    }
  }
  return this->graph(std::move(graph));
}

Grammar::Expr Grammar::sequence(std::vector<Expr> parts) {
  std::erase(parts, kEmpty);
  for (Expr part : parts)
    if (part == kNothing) return kNothing;
  if (parts.empty()) return kEmpty;
  if (parts.size() == 1) return parts[0];
  return add({.kind = Kind::Sequence, .parts = std::move(parts)});
}

Grammar::Expr Grammar::choice(std::vector<Expr> parts) {
  std::erase(parts, kNothing);
  if (parts.empty()) return kNothing;
  if (parts.size() == 1) return parts[0];
  return add({.kind = Kind::Choice, .parts = std::move(parts)});
}

Grammar::Expr Grammar::repeat(Expr part, int least, int most) {
  if (most == 0 || part == kEmpty) return kEmpty;
  if (part == kNothing) return least == 0 ? kEmpty : kNothing;
  if (least == 1 && most == 1) return part;
  return add({.kind = Kind::Repeat, .parts = {part}, .least = least, .most = most});
}

Grammar::Expr Grammar::graph(Graph graph) {
  graphs_.push_back(std::move(graph));
  return add({.kind = Kind::Graph, .graph = static_cast<int>(graphs_.size()) - 1});
}

int Grammar::add_rule(std::string name) {
  names_.push_back(std::move(name));
  bodies_.push_back(-1);
  return rules() - 1;
}

void Grammar::define(int rule, Expr body) { bodies_[static_cast<size_t>(rule)] = body; }

Grammar::Expr Grammar::use(int rule) { return add({.kind = Kind::Rule, .rule = rule}); }

}  // namespace smelt
