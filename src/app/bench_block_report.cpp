#include "app/bench_block_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/bench_report.h"
#include "base/progress.h"

namespace smelt {
namespace {

using Json = nlohmann::ordered_json;

std::string part_name(const BlockRow& row) { return row.part ? name_of(*row.part) : "whole block"; }

Json json_of(const BlockResult& result, const BlockRow& row, bool versus) {
  const Sample time = sample_of(row.seconds);
  Json out = fields_of(result.config.model_name(), result.config, result.test, result.threads);
  out.update(Json{{"block", row.block},
                  {"layers", row.layers},
                  {"part", part_name(row)},
                  {"microseconds",
                   {{"median", time.median * 1e6},
                    {"p10", time.p10 * 1e6},
                    {"p90", time.p90 * 1e6},
                    {"min", time.min * 1e6},
                    {"max", time.max * 1e6}}},
                  {"samples", row.seconds.size()},
                  {"share_of_block", row.share},
                  {"kernels", row.launches},
                  {"kernels_shared", row.shared_launches},
                  {"bytes", row.work.bytes},
                  {"bytes_per_second", row.bytes_per_second()},
                  {"read_bandwidth", result.bandwidth},
                  {"arithmetic", json_of(result.arithmetic)},
                  {"multiply_adds", row.work.multiply_adds},
                  {"flops", row.flops()},
                  {"emptied_caches", result.emptied_caches}});
  if (!versus) return out;
  const Sample ratio = sample_of(row.ratios.empty() ? std::vector{1.0} : row.ratios);
  out["ratio"] = {{"median", ratio.median}, {"p10", ratio.p10}, {"p90", ratio.p90}};
  return out;
}

std::string microseconds(double seconds) { return text_of(seconds < 1e-4 ? "%.1f" : "%.0f", seconds * 1e6); }

std::vector<std::string> cells_of(const BlockResult& result, const BlockRow& row) {
  const Sample time = sample_of(row.seconds);
  const double roofline = result.bandwidth > 0 ? row.bytes_per_second() / result.bandwidth : 0;
  const Sample ratio = sample_of(row.ratios);
  const std::string shared = row.part && row.shared_launches ? text_of(" (%d shared)", row.shared_launches) : "";
  return {row.part ? "" : row.block,
          part_name(row),
          microseconds(time.median),
          microseconds(time.p10) + " to " + microseconds(time.p90),
          text_of("%.0f %%", row.share * 100),
          std::to_string(row.launches) + shared,
          bytes_text(static_cast<uint64_t>(row.work.bytes)),
          text_of("%.1f", row.bytes_per_second() / 1e9),
          share_text(roofline),
          text_of("%.0f", row.flops() / 1e9),
          row.ratios.empty() ? "" : text_of("%.3fx (%.3f to %.3f)", ratio.median, ratio.p10, ratio.p90)};
}

std::vector<Column> columns(const BlockResult& result, bool versus) {
  size_t width = 5;
  for (const BlockRow& row : result.rows) width = std::max(width, row.block.size());
  std::vector<Column> out = {
      {"block", width, false}, {"part", 13, false}, {"us", 7, true},   {"10 to 90 %", 16, true},  {"share", 6, true},
      {"kernels", 13, true},   {"reads", 8, true},  {"GB/s", 6, true}, {"of roofline", 11, true}, {"GFLOP/s", 7, true}};
  if (versus) out.push_back({"against the first", 24, true});
  return out;
}

std::string heading(const BlockResult& r) {
  const BenchConfig& c = r.config;
  return c.model_name() + ", " + name_of(r.test) + ", " + std::to_string(r.threads) +
         (r.threads == 1 ? " thread" : " threads") + ", activations " + c.engine.activations +
         (c.label.empty() ? "" : " (" + c.label + ")");
}

// How cold the weights were, in a sentence.
std::string coldness(const BlockResult& r) {
  const std::string caches = bytes_text(static_cast<uint64_t>(r.cache_bytes)) + " of caches";
  if (r.emptied_caches) return "weights come from memory: the " + caches + " are emptied before each run";
  return "weights come from memory: " + bytes_text(static_cast<uint64_t>(r.bytes_between)) +
         " are read between two uses of a block, against " + caches;
}

}  // namespace

double BlockRow::bytes_per_second() const {
  const double median = sample_of(seconds).median;
  return median > 0 ? work.bytes / median : 0;
}

double BlockRow::flops() const {
  const double median = sample_of(seconds).median;
  return median > 0 ? 2 * work.multiply_adds / median : 0;
}

BlockReport::BlockReport(std::string form, bool versus)
    : is_table_(form == "md"), versus_(versus), data_(std::move(form)) {}

std::string BlockReport::begin() const { return is_table_ ? "" : data_.begin(); }
std::string BlockReport::end() const { return is_table_ ? "" : data_.end(); }

std::string BlockReport::result(const BlockResult& result) {
  if (is_table_) return table(result);
  std::string out;
  for (const BlockRow& row : result.rows) out += data_.row(json_of(result, row, versus_));
  return out;
}

std::string BlockReport::table(const BlockResult& result) const {
  const std::vector<Column> all = columns(result, versus_);
  std::string out = heading(result) + "\n\n" + table_head(all);
  std::string kinds;
  bool has_shared = false;
  for (const BlockRow& row : result.rows) {
    out += table_line(cells_of(result, row), all);
    has_shared = has_shared || row.shared_launches > 0;
    if (!row.part)
      kinds += (kinds.empty() ? "" : "; ") + row.block + ": " + std::to_string(result.runs) + " runs of " +
               std::to_string(row.layers) + (row.layers == 1 ? " layer" : " layers");
  }
  return out + "\n" + kinds + "\n" + coldness(result) + text_of("; memory reads %.2f GB/s, ", result.bandwidth / 1e9) +
         arithmetic_text(result.arithmetic) + "\n" + sharing_note(result.arithmetic, result.cores) +
         (has_shared ? std::string("a shared kernel's time is divided by ") +
                           (result.test.total() > 1 ? "the multiply-adds" : "the bytes") + " of each part's weights\n"
                     : "") +
         "\n";
}

}  // namespace smelt
