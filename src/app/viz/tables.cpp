#include "app/viz/tables.h"

#include <charconv>

#include "graph/line.h"

namespace smelt {
namespace {

constexpr int64_t kExactInDouble = int64_t{1} << 53;  // what a page can hold as a number

// As text where it is too large for a number of JavaScript.
Json integer(int64_t value) {
  if (value > -kExactInDouble && value < kExactInDouble) return value;
  return std::to_string(value);
}

std::string float_text(double value) {
  char text[40];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

}  // namespace

int StringTable::number(std::string_view text) {
  const auto [at, is_new] = numbers_.try_emplace(std::string(text), static_cast<int>(texts_.size()));
  if (is_new) texts_.emplace_back(text);
  return at->second;
}

int NodeTable::number(Ref root) {
  // With an explicit stack: graphs are deep.
  std::vector<std::pair<Ref, size_t>> stack{{root, 0}};
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    if (numbers_.contains(node.get())) {
      stack.pop_back();
    } else if (next == node->src.size() + node->shape.size()) {
      rows_.push_back(row(node));
      numbers_.emplace(node.get(), static_cast<int>(rows_.size()) - 1);
      stack.pop_back();
    } else {
      const size_t at = next++;
      stack.push_back({at < node->src.size() ? node->src[at] : node->shape[at - node->src.size()], 0});
    }
  }
  return numbers_.at(root.get());
}

std::vector<int> NodeTable::numbers(const Refs& roots) {
  std::vector<int> out;
  for (Ref root : roots) out.push_back(number(root));
  return out;
}

// op, dtype, sources, sizes, i, name, list, f, line; what is empty at the end is left out.
Json NodeTable::row(Ref node) const {
  Json sources = Json::array(), sizes = Json::array(), list = Json::array();
  for (Ref s : node->src) sources.push_back(numbers_.at(s.get()));
  for (Ref s : node->shape) sizes.push_back(numbers_.at(s.get()));
  for (int64_t v : node->arg.list) list.push_back(integer(v));
  const auto line = node->shape.empty() ? std::nullopt : line_of(node);
  Json row = {strings_.number(name_of(node->op)),
              strings_.number(name_of(node->dtype)),
              std::move(sources),
              std::move(sizes),
              integer(node->arg.i),
              strings_.number(node->arg.name),
              std::move(list),
              node->op == Op::Const && is_float(node->dtype) ? strings_.number(float_text(node->arg.f)) : 0,
              line ? strings_.number(to_text(*line)) : 0};
  while (row.size() > 2 && (row.back() == 0 || (row.back().is_array() && row.back().empty())))
    row.erase(row.size() - 1);
  return row;
}

}  // namespace smelt
