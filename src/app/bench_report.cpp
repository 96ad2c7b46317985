#include "app/bench_report.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/progress.h"

namespace smelt {
namespace {

using Json = nlohmann::ordered_json;

template <class... Values>
std::string text(const char* format, Values... values) {
  char buffer[512];
  std::snprintf(buffer, sizeof buffer, format, values...);
  return buffer;
}

Json json_of(const Sample& sample) {
  return {{"mean", sample.mean},
          {"stddev", sample.deviation},
          {"median", sample.median},
          {"min", sample.min},
          {"max", sample.max}};
}

Json optional_json(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json json_of(const BenchRow& row) {
  Json out = {
      {"model", row.model},
      {"file_bytes", row.file_bytes},
      {"configuration", row.config.label},
      {"threads", row.threads},
      {"batch", row.config.batch},
      {"cache_type", row.config.engine.cache_type},
      {"activations", row.config.engine.activations},
      {"test", name_of(row.test)},
      {"n_prompt", row.test.prompt},
      {"n_gen", row.test.tokens},
      {"n_depth", row.test.depth},
      {"tokens_per_second", json_of(sample_of(row.rates))},
      {"samples", row.rates},
      {"bytes_per_token", row.bytes_per_token},
      {"bytes_per_second", optional_json(row.bytes_per_second())},
      {"read_bandwidth", row.bandwidth},
      {"share_of_roofline", optional_json(row.share_of_roofline())},
      {"kernels_per_token", row.stats.kernels_per_token},
      {"load_seconds", row.stats.load_seconds},
      {"compile_seconds", row.stats.compile_seconds},
      {"kernels_compiled", row.stats.kernels_compiled},
      {"kernels_cached", row.stats.kernels_cached},
      {"peak_memory_bytes", row.peak_memory},
  };
  if (!row.ratios.empty()) out["ratio"] = json_of(sample_of(row.ratios));
  return out;
}

// Nested values become columns such as tokens_per_second.mean; lists become one field with spaces.
void flatten(const Json& value, const std::string& name,
             std::vector<std::pair<std::string, std::string>>& fields) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items())
      flatten(inner, name.empty() ? key : name + "." + key, fields);
  } else if (value.is_array()) {
    std::string list;
    for (const Json& item : value) list += (list.empty() ? "" : " ") + item.dump();
    fields.emplace_back(name, list);
  } else {
    fields.emplace_back(name, value.is_null()     ? ""
                              : value.is_string() ? value.get<std::string>()
                                                  : value.dump());
  }
}

std::string quoted(const std::string& field) {
  if (field.find_first_of(",\"\n") == std::string::npos) return field;
  std::string out = "\"";
  for (char c : field) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

// The same columns in every row, so that the file has one header.
std::string csv_line(BenchRow row, bool versus, bool header) {
  if (versus && row.ratios.empty()) row.ratios = {1};
  std::vector<std::pair<std::string, std::string>> fields;
  flatten(json_of(row), "", fields);
  std::string line;
  for (const auto& [name, value] : fields)
    line += (line.empty() ? "" : ",") + quoted(header ? name : value);
  return line + "\n";
}

std::string padded(std::string cell, size_t width, bool right = false) {
  const size_t shown = static_cast<size_t>(
      std::count_if(cell.begin(), cell.end(), [](char c) { return (c & 0xC0) != 0x80; }));
  const std::string space(width > shown ? width - shown : 0, ' ');
  return right ? space + cell : cell + space;
}

struct Column {
  const char* name;
  size_t width;
  bool right;
};

std::string rate_text(double rate) { return text(rate < 10 ? "%.2f" : "%.1f", rate); }

std::vector<std::string> cells_of(const BenchRow& row) {
  const Sample rate = sample_of(row.rates);
  const auto speed = row.bytes_per_second();
  const auto share = row.share_of_roofline();
  return {row.model,
          bytes_text(row.file_bytes),
          std::to_string(row.threads),
          name_of(row.test),
          rate_text(rate.mean) + " ± " + rate_text(rate.deviation),
          rate_text(rate.median),
          speed ? text("%.2f", *speed / 1e9) : "",
          share ? text("%.0f %%", *share * 100) : ""};
}

std::string ratio_text(const std::vector<double>& ratios) {
  if (ratios.empty()) return "";
  const Sample ratio = sample_of(ratios);
  return text("%.3fx (%.3f to %.3f)", ratio.median, ratio.min, ratio.max);
}

std::vector<Column> columns(size_t model_width, bool versus) {
  std::vector<Column> out = {{"model", std::max<size_t>(model_width, 5), false},
                             {"size", 8, true},
                             {"threads", 7, true},
                             {"test", 18, true},
                             {"tok/s", 17, true},
                             {"median", 8, true},
                             {"GB/s", 7, true},
                             {"of roofline", 11, true}};
  if (versus) {
    out.push_back({"against the first", 24, true});
    out.push_back({"flags", 5, false});
  }
  return out;
}

std::string line_of(const std::vector<std::string>& cells, const std::vector<Column>& columns) {
  std::string line = "|";
  for (size_t i = 0; i < columns.size(); ++i)
    line += " " + padded(cells[i], columns[i].width, columns[i].right) + " |";
  return line + "\n";
}

}  // namespace

std::optional<double> BenchRow::bytes_per_second() const {
  if (test.prompt > 0) return std::nullopt;
  return bytes_per_token * sample_of(rates).median;
}

std::optional<double> BenchRow::share_of_roofline() const {
  const auto speed = bytes_per_second();
  if (!speed || bandwidth <= 0) return std::nullopt;
  return *speed / bandwidth;
}

BenchReport::BenchReport(std::string form, bool versus, size_t model_width)
    : form_(std::move(form)), versus_(versus), model_width_(model_width) {}

std::string BenchReport::begin() const {
  if (form_ == "json") return "[\n";
  if (form_ != "md") return "";
  std::string names = "|", rule = "|";
  for (const Column& c : columns(model_width_, versus_)) {
    names += " " + padded(c.name, c.width, c.right) + " |";
    rule += " " + std::string(c.width - 1, '-') + (c.right ? ":" : "-") + " |";
  }
  return names + "\n" + rule + "\n";
}

std::string BenchReport::row(const BenchRow& row) {
  const bool first = std::exchange(first_, false);
  if (form_ == "json") return (first ? "" : ",\n") + json_of(row).dump(2);
  if (form_ == "jsonl") return json_of(row).dump() + "\n";
  if (form_ == "csv")
    return (first ? csv_line(row, versus_, true) : "") + csv_line(row, versus_, false);
  std::vector<std::string> cells = cells_of(row);
  if (versus_) {
    cells.push_back(ratio_text(row.ratios));
    cells.push_back(row.config.label);
  }
  return line_of(cells, columns(model_width_, versus_));
}

std::string BenchReport::end() const { return form_ == "json" ? (first_ ? "]\n" : "\n]\n") : ""; }

std::string configuration_line(const BenchRow& row) {
  const SessionStats& s = row.stats;
  const char* kind = s.kernels_compiled == 0 ? "warm"
                     : s.kernels_cached == 0 ? "cold"
                                             : "partly warm";
  return row.model + ", " + std::to_string(row.threads) +
         (row.threads == 1 ? " thread" : " threads") +
         (row.config.label.empty() ? "" : " (" + row.config.label + ")") +
         text(": memory reads %.2f GB/s, %d kernels and ", row.bandwidth / 1e9,
              s.kernels_per_token) +
         bytes_text(static_cast<uint64_t>(s.bytes_per_token)) + " of weights a token, " +
         text("load %.2f s, compile %.2f s (%s: %d compiled, %d from the cache), ", s.load_seconds,
              s.compile_seconds, kind, s.kernels_compiled, s.kernels_cached) +
         "peak memory " + bytes_text(static_cast<uint64_t>(row.peak_memory)) + "\n";
}

}  // namespace smelt
