#include "app/bench_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/bench_table.h"
#include "app/statistics.h"
#include "base/progress.h"

namespace smelt {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Sample& sample) {
  return {{"mean", sample.mean},
          {"stddev", sample.deviation},
          {"median", sample.median},
          {"min", sample.min},
          {"max", sample.max}};
}

Json optional_json(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

// Whether kernels came from the kernel cache.
const char* temperature(const EngineStats& stats) {
  if (stats.kernels_compiled == 0) return "warm";
  return stats.kernels_cached == 0 ? "cold" : "partly warm";
}

// The first of two configurations is the measure of itself: the same fields in every row.
Json json_of(const BenchRow& row, bool versus) {
  Json out = fields_of(row.model, row.config, row.test, row.threads);
  out.update(Json{
      {"file_bytes", row.file_bytes},
      {"tokens_per_second", json_of(sample_of(row.rates))},
      {"samples", row.rates},
      {"bytes_per_token", row.bytes_per_token},
      {"bytes_per_second", optional_json(row.bytes_per_second())},
      {"read_bandwidth", row.bandwidth},
      {"read_bandwidth_samples", row.reads},
      {"share_of_roofline", optional_json(row.share_of_roofline())},
      {"arithmetic", json_of(row.arithmetic)},
      {"kernels_per_token", row.stats.kernels_per_token},
      {"load_seconds", row.stats.load_seconds},
      {"compile_cold_seconds", optional_json(row.cold_compile)},
      {"compile_seconds", row.stats.compile_seconds},
      {"compile", temperature(row.stats)},
      {"kernels_compiled", row.stats.kernels_compiled},
      {"kernels_cached", row.stats.kernels_cached},
      {"peak_memory_bytes", row.peak_memory},
  });
  if (versus) out["ratio"] = json_of(sample_of(row.ratios.empty() ? std::vector{1.0} : row.ratios));
  return out;
}

std::string rate_text(double rate) { return text_of(rate < 10 ? "%.2f" : "%.1f", rate); }

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
          speed ? text_of("%.2f", *speed / 1e9) : "",
          share ? share_text(*share) : ""};
}

std::string ratio_text(const std::vector<double>& ratios) {
  if (ratios.empty()) return "";
  const Sample ratio = sample_of(ratios);
  return text_of("%.3fx (%.3f to %.3f)", ratio.median, ratio.min, ratio.max);
}

// What the machine could read changed while it was timed: the least and the most.
std::string reads_text(const BenchRow& row) {
  const double least = row.reads.empty() ? row.bandwidth : *std::min_element(row.reads.begin(), row.reads.end());
  return (least < 0.98 * row.bandwidth ? text_of("%.2f to ", least / 1e9) : "") +
         text_of("%.2f GB/s", row.bandwidth / 1e9);
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

}  // namespace

Json fields_of(const std::string& model, const BenchConfig& config, const BenchTest& test, int threads) {
  return {{"model", model},
          {"synthetic", !config.synthetic.empty()},
          {"configuration", config.label},
          {"threads", threads},
          {"batch", config.batch.value_or(0)},
          {"cache_type", config.engine.cache_type},
          {"activations", config.engine.activations},
          {"deterministic", config.engine.deterministic},
          {"test", name_of(test)},
          {"n_prompt", test.prompt},
          {"n_gen", test.tokens},
          {"n_depth", test.depth}};
}

std::optional<double> BenchRow::bytes_per_second() const {
  if (test.prompt > 0) return std::nullopt;
  return bytes_per_token * sample_of(rates).median;
}

std::optional<double> BenchRow::share_of_roofline() const {
  if (!bytes_per_second() || reads.size() != rates.size()) return std::nullopt;
  std::vector<double> shares;
  for (size_t i = 0; i < rates.size(); ++i) {
    if (reads[i] <= 0) return std::nullopt;
    shares.push_back(rates[i] * bytes_per_token / reads[i]);
  }
  return sample_of(shares).median;
}

BenchReport::BenchReport(std::string form, bool versus, size_t model_width)
    : is_table_(form == "md"), versus_(versus), model_width_(model_width), data_(std::move(form)) {}

std::string BenchReport::begin() const {
  return is_table_ ? table_head(columns(model_width_, versus_)) : data_.begin();
}

std::string BenchReport::row(const BenchRow& row) {
  if (!is_table_) return data_.row(json_of(row, versus_));
  std::vector<std::string> cells = cells_of(row);
  if (versus_) {
    cells.push_back(ratio_text(row.ratios));
    cells.push_back(row.config.label);
  }
  return table_line(cells, columns(model_width_, versus_));
}

std::string BenchReport::end() const { return is_table_ ? "" : data_.end(); }

std::string configuration_lines(const BenchRow& row, int cores) {
  const EngineStats& s = row.stats;
  const std::string cold = row.cold_compile ? text_of("%.2f s cold, ", *row.cold_compile) : "";
  const std::string note = sharing_note(row.arithmetic, cores);
  return row.model + ", " + std::to_string(row.threads) + (row.threads == 1 ? " thread" : " threads") +
         (row.config.label.empty() ? "" : " (" + row.config.label + ")") + ":\n  memory reads " + reads_text(row) +
         ", " + arithmetic_text(row.arithmetic) + "\n" + (note.empty() ? "" : "  " + note) + "  " + threads_text(s) +
         text_of("%d kernels and ", s.kernels_per_token) + bytes_text(static_cast<uint64_t>(s.bytes_per_token)) +
         " of weights a token, peak memory " + bytes_text(static_cast<uint64_t>(row.peak_memory)) +
         text_of("\n  load %.2f s, compile ", s.load_seconds) + cold +
         text_of("%.2f s %s (%d kernels compiled, %d from the cache)\n", s.compile_seconds, temperature(s),
                 s.kernels_compiled, s.kernels_cached);
}

}  // namespace smelt
