// Rows of figures that a benchmark ends with, as a table for people or as data for programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/arithmetic.h"
#include "app/bench_flags.h"
#include "app/bench_sample.h"
#include "app/bench_table.h"
#include "engine/session.h"

namespace smelt {

struct BenchRow {
  BenchConfig config;
  BenchTest test;
  std::string model;
  uint64_t file_bytes = 0;
  int threads = 0;
  std::vector<double> rates;   // tokens per second, in the order of running
  std::vector<double> ratios;  // with --vs, of the second configuration: its rate over that of the first, run by run
  double bytes_per_token = 0;  // that decoding reads
  // Bytes per second that this machine read: the best that was measured, 0 if unknown, and about the time of each rate.
  double bandwidth = 0;
  std::vector<double> reads;
  ArithmeticSeen arithmetic;  // in this run
  EngineStats stats;
  std::optional<double> cold_compile;  // seconds to compile everything anew, if that was timed
  int64_t peak_memory = 0;

  // Of decoding; a prompt reads each weight for many tokens.
  std::optional<double> bytes_per_second() const;
  // The median of what each run reached of what could be read at its time.
  std::optional<double> share_of_roofline() const;
};

// The text of rows in one of the forms md, csv, json, jsonl. Rows may be printed as they come: begin() once, row() for
// each, end() once.
class BenchReport {
 public:
  BenchReport(std::string form, bool versus, size_t model_width);
  std::string begin() const;
  std::string row(const BenchRow& row);
  std::string end() const;

 private:
  bool is_table_, versus_;
  size_t model_width_;
  DataRows data_;
};

// The fields that rows of both kinds of benchmark begin with: what was measured.
nlohmann::ordered_json fields_of(const std::string& model, const BenchConfig& config, const BenchTest& test,
                                 int threads);

// What a table leaves out of a configuration, a line for each of machine, model and start. Another one where its
// threads seem to share some of the `cores` that the program may use.
std::string configuration_lines(const BenchRow& row, int cores);

}  // namespace smelt
