// What a recording keeps once however often it occurs: texts and nodes. docs/visualiser.md has the format.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/node.h"

namespace smelt {

using Json = nlohmann::ordered_json;

class StringTable {
 public:
  StringTable() { number(""); }  // text 0
  int number(std::string_view text);
  Json json() const { return texts_; }

 private:
  std::vector<std::string> texts_;
  std::unordered_map<std::string, int> numbers_;
};

// Nodes are numbered so that sources and sizes come before their users.
class NodeTable {
 public:
  explicit NodeTable(StringTable& strings) : strings_(strings) {}
  int number(Ref root);
  std::vector<int> numbers(const Refs& roots);
  Json json() && { return std::move(rows_); }

 private:
  Json row(Ref node) const;

  StringTable& strings_;
  std::unordered_map<const Node*, int> numbers_;
  Json rows_ = Json::array();
};

struct Tables {
  StringTable strings;
  NodeTable nodes{strings};
};

}  // namespace smelt
