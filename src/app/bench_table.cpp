#include "app/bench_table.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace smelt {
namespace {

using Json = nlohmann::ordered_json;
using Fields = std::vector<std::pair<std::string, std::string>>;

std::string padded(const std::string& cell, const Column& column) {
  const auto shown =
      static_cast<size_t>(std::count_if(cell.begin(), cell.end(), [](char c) { return (c & 0xC0) != 0x80; }));
  const std::string space(column.width > shown ? column.width - shown : 0, ' ');
  return column.right ? space + cell : cell + space;
}

void flatten(const Json& value, const std::string& name, Fields& fields) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) flatten(inner, name.empty() ? key : name + "." + key, fields);
  } else if (value.is_array()) {
    std::string list;
    for (const Json& item : value) list += (list.empty() ? "" : " ") + item.dump();
    fields.emplace_back(name, list);
  } else {
    fields.emplace_back(name, value.is_null() ? "" : value.is_string() ? value.get<std::string>() : value.dump());
  }
}

std::string in_quotes(const std::string& field) {
  if (field.find_first_of(",\"\n") == std::string::npos) return field;
  std::string out = "\"";
  for (char c : field) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

std::string csv_line(const Fields& fields, bool header) {
  std::string line;
  for (const auto& [name, value] : fields) line += (line.empty() ? "" : ",") + in_quotes(header ? name : value);
  return line + "\n";
}

}  // namespace

std::string table_head(const std::vector<Column>& columns) {
  std::string names = "|", rule = "|";
  for (const Column& c : columns) {
    names += " " + padded(c.name, c) + " |";
    rule += " " + std::string(c.width - 1, '-') + (c.right ? ":" : "-") + " |";
  }
  return names + "\n" + rule + "\n";
}

std::string table_line(const std::vector<std::string>& cells, const std::vector<Column>& columns) {
  std::string line = "|";
  for (size_t i = 0; i < columns.size(); ++i) line += " " + padded(cells[i], columns[i]) + " |";
  return line + "\n";
}

std::string DataRows::begin() const { return form_ == "json" ? "[\n" : ""; }

std::string DataRows::row(const Json& row) {
  const bool first = std::exchange(first_, false);
  if (form_ == "json") return (first ? "" : ",\n") + row.dump(2);
  if (form_ == "jsonl") return row.dump() + "\n";
  Fields fields;
  flatten(row, "", fields);
  return (first ? csv_line(fields, true) : "") + csv_line(fields, false);
}

std::string DataRows::end() const { return form_ == "json" ? (first_ ? "]\n" : "\n]\n") : ""; }

}  // namespace smelt
