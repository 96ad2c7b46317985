// Rows of figures as text: Markdown tables, CSV, lists of JSON objects.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "app/text_of.h"

namespace smelt {

struct Column {
  const char* name;
  size_t width;
  bool right;
};

// Two lines: names and the rule below them.
std::string table_head(const std::vector<Column>& columns);
std::string table_line(const std::vector<std::string>& cells, const std::vector<Column>& columns);

// JSON objects that all have the same fields, as json (one list), jsonl or csv. Nested fields become columns such as
// tokens_per_second.mean; lists become one field with spaces. Rows may be printed as they come.
class DataRows {
 public:
  explicit DataRows(std::string form) : form_(std::move(form)) {}
  std::string begin() const;
  std::string row(const nlohmann::ordered_json& row);
  std::string end() const;

 private:
  std::string form_;
  bool first_ = true;
};

}  // namespace smelt
