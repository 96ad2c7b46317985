#include "grammar/mark_tree.h"

#include <algorithm>
#include <set>

#include "text/utf8.h"

namespace smelt {

MarkTree::MarkTree(const std::vector<std::u32string>& marks) : nodes_(1) {
  std::set<uint32_t> symbols;
  for (size_t i = 0; i < marks.size(); ++i) {
    add(marks[i], static_cast<int>(i));
    symbols.insert(marks[i].begin(), marks[i].end());
  }
  alphabet_.assign(symbols.begin(), symbols.end());
  link();
}

void MarkTree::add(const std::u32string& mark, int number) {
  int at = 0;
  for (uint32_t symbol : mark) {
    const auto [child, is_new] = nodes_[static_cast<size_t>(at)].children.try_emplace(symbol, states());
    at = child->second;
    if (is_new) nodes_.emplace_back();
  }
  nodes_[static_cast<size_t>(at)].mark = number;
}

// Level by level, so that what a state falls back to is known before.
void MarkTree::link() {
  std::vector<int> level{0};
  while (!level.empty()) {
    std::vector<int> below;
    for (int state : level) {
      for (const auto& [symbol, child] : nodes_[static_cast<size_t>(state)].children) {
        Node& node = nodes_[static_cast<size_t>(child)];
        if (state != 0) node.shorter = next(nodes_[static_cast<size_t>(state)].shorter, symbol);
        if (node.mark < 0) node.mark = nodes_[static_cast<size_t>(node.shorter)].mark;
        below.push_back(child);
      }
    }
    level = std::move(below);
  }
}

int MarkTree::next(int state, uint32_t symbol) const {
  while (true) {
    const Node& node = nodes_[static_cast<size_t>(state)];
    if (const auto child = node.children.find(symbol); child != node.children.end()) return child->second;
    if (state == 0) return 0;
    state = node.shorter;
  }
}

std::vector<MarkTree::Way> MarkTree::ways(int state, uint32_t last) const {
  std::map<int, Codepoints> by_target;
  Codepoints others(0, last);
  for (uint32_t symbol : alphabet_) {
    by_target[next(state, symbol)].add(symbol, symbol);
    others = others.without(Codepoints::one(symbol));
  }
  by_target[0].add(others);
  std::vector<Way> all;
  for (auto& [to, on] : by_target)
    if (!on.empty()) all.push_back({std::move(on), to});
  return all;
}

std::u32string as_bytes(std::string_view text) {
  std::u32string symbols;
  for (char c : text) symbols += static_cast<unsigned char>(c);
  return symbols;
}

std::u32string as_characters(std::string_view text) {
  std::u32string symbols;
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char c = utf8_at(text, pos);
    pos += c.length;
    symbols += c.codepoint;
  }
  return symbols;
}

}  // namespace smelt
