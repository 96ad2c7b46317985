// `smelt bench`: what flags stand for, statistics, the forms of a report, and a short run of the program.
#include "app/bench.h"

#include <doctest/doctest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "app/bench_report.h"
#include "app/process.h"

using namespace smelt;
using smelt::test::Outcome;

namespace {

BenchFlags parsed(std::vector<std::string> arguments) {
  CLI::App app;
  BenchFlags flags;
  declare_bench_flags(app, flags);
  std::reverse(arguments.begin(), arguments.end());
  app.parse(arguments);
  return flags;
}

std::string test_names(const BenchFlags& flags) {
  const auto tests = tests_of(flags);
  if (!tests) return tests.error().message;
  std::string names;
  for (const BenchTest& test : *tests) names += (names.empty() ? "" : ", ") + name_of(test);
  return names;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

BenchRow sample_row() {
  return {.test = {.tokens = 4},
          .model = "a,b.gguf",
          .threads = 2,
          .rates = {8, 12, 10},
          .bytes_per_token = 1e9,
          .bandwidth = 2e10};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("every combination of prompt, generation and depth is a test, zero leaves one out") {
  CHECK(test_names(parsed({})) == "pp512, tg128");
  CHECK(test_names(parsed({"-p", "64,512", "-n", "0"})) == "pp64, pp512");
  CHECK(test_names(parsed({"-p", "0", "-n", "8", "-d", "0,2048"})) == "tg8, tg8 @ d2048");
  CHECK(test_names(parsed({"-p", "0", "-n", "0", "--pg", "32,8,64,4"})) == "pp32+tg8, pp64+tg4");
  CHECK(contains(test_names(parsed({"-p", "0", "-n", "0"})), "nothing to measure"));
  CHECK(contains(test_names(parsed({"--pg", "32"})), "pairs"));
  CHECK(context_for(*tests_of(parsed({"--pg", "32,8", "-p", "64", "-n", "0", "-d", "100"}))) ==
        164);
}

TEST_CASE("every combination of models, threads and cache types is a configuration") {
  const auto configs =
      configs_of(parsed({"-m", "a.gguf,b.gguf", "-t", "1,2", "--cache-type", "f16"}));
  REQUIRE(configs.size() == 4);
  CHECK(configs[1].engine.model == "a.gguf");
  CHECK(configs[1].engine.threads == 2);
  CHECK(configs[3].engine.model == "b.gguf");
  CHECK(configs[3].engine.cache_type == "f16");
  CHECK(configs_of(parsed({}))[0].engine.model.empty());
}

TEST_CASE("values that make no sense are refused") {
  CHECK_THROWS_AS(parsed({"-p", "12x"}), CLI::ParseError);
  CHECK_THROWS_AS(parsed({"-p", "64,-1"}), CLI::ParseError);
  CHECK_THROWS_AS(parsed({"--cache-type", "q4_0"}), CLI::ParseError);
}

TEST_CASE("the flags of --vs replace those of the first configuration") {
  BenchFlags flags = parsed({"-t", "2", "-b", "128"});
  flags.versus = "-t 1  --cache-type f16";
  const auto other = with_versus(flags);
  REQUIRE(other.ok());
  CHECK(other->threads == std::vector<int64_t>{1});
  CHECK(other->batch == std::vector<int64_t>{128});
  CHECK(other->cache_types == std::vector<std::string>{"f16"});
  flags.versus = "--frobnicate";
  CHECK(contains(with_versus(flags).error().message, "--frobnicate"));
}

TEST_CASE("statistics of a sample") {
  const Sample s = sample_of({4, 1, 2, 5});
  CHECK(s.mean == 3);
  CHECK(s.median == 3);
  CHECK(s.min == 1);
  CHECK(s.max == 5);
  CHECK(s.deviation == doctest::Approx(1.8257418583505538));
  CHECK(sample_of({7}).deviation == 0);
  CHECK(sample_of({7}).median == 7);
  CHECK(sample_of({}).count == 0);
  CHECK(paired_ratios({1, 2}, {2, 3}) == std::vector<double>{2, 1.5});
}

TEST_CASE("a decoding row knows its bytes per second and its share of the roofline") {
  BenchRow row = sample_row();
  CHECK(*row.bytes_per_second() == 1e10);
  CHECK(*row.share_of_roofline() == 0.5);
  row.test.prompt = 4;
  CHECK(!row.bytes_per_second());
}

TEST_CASE("each form of a report holds what was measured") {
  const auto report = [](const std::string& form, bool versus = false) {
    BenchReport r(form, versus, 8);
    std::string out = r.begin();
    out += r.row(sample_row());
    BenchRow second = sample_row();
    if (versus) second.ratios = {1, 2, 3};
    out += r.row(second);
    return out + r.end();
  };
  CHECK(lines_of(report("md")).size() == 4);
  CHECK(contains(report("md"), "10.0 ± 2.00"));
  CHECK(contains(report("md"), "50 %"));
  CHECK(contains(report("md", true), "2.000x (1.000 to 3.000)"));

  const auto json = nlohmann::json::parse(report("json"));
  CHECK(json.size() == 2);
  CHECK(json[0]["test"] == "tg4");
  CHECK(json[0]["tokens_per_second"]["median"] == 10);
  CHECK(json[1]["samples"].size() == 3);
  for (const std::string& line : lines_of(report("jsonl")))
    CHECK(nlohmann::json::parse(line)["model"] == "a,b.gguf");

  const auto csv = lines_of(report("csv", true));
  REQUIRE(csv.size() == 3);
  CHECK(csv[0].starts_with("model,"));
  CHECK(csv[1].starts_with("\"a,b.gguf\","));
  CHECK(contains(csv[0], "ratio.median"));
}

TEST_CASE("bench measures the embedded model and prints JSON lines") {
  const Outcome run = smelt::test::smelt(
      {"bench", "-p", "16", "-n", "4", "-pg", "8,2", "-d", "8", "-r", "2", "-o", "jsonl"});
  CAPTURE(run.err);
  REQUIRE(run.exit_code == 0);
  const auto lines = lines_of(run.out);
  REQUIRE(lines.size() == 3);
  for (const std::string& line : lines) {
    const auto row = nlohmann::json::parse(line);
    CHECK(row["tokens_per_second"]["median"] > 0);
    CHECK(row["samples"].size() == 2);
    CHECK(row["kernels_per_token"] > 0);
    CHECK(row["read_bandwidth"] > 0);
    CHECK(row["peak_memory_bytes"] > 0);
  }
  CHECK(nlohmann::json::parse(lines[2])["test"] == "pp8+tg2 @ d8");
}

TEST_CASE("bench lets two configurations take turns") {
  const Outcome run =
      smelt::test::smelt({"bench", "-p", "0", "-n", "4", "-r", "2", "--vs", "-t 1"});
  CAPTURE(run.err);
  REQUIRE(run.exit_code == 0);
  CHECK(contains(run.out, "-t 1"));
  CHECK(contains(run.out, "x ("));
}

TEST_CASE("wrong use of bench exits 2 and says what is wrong") {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"bench", "-p", "0", "-n", "0"}, "nothing to measure"},
      {{"bench", "-o", "xml"}, "xml"},
      {{"bench", "-t", "1,x"}, "x"},
      {{"bench", "--vs", "-n 3"}, "the same tests"},
      {{"bench", "--vs", "-t 1,2"}, "equal length"},
  };
  for (const auto& [arguments, part] : cases) {
    const Outcome run = smelt::test::smelt(arguments);
    CAPTURE(run.err);
    CHECK(run.exit_code == 2);
    CHECK(contains(run.err, part));
    CHECK(run.out.empty());
  }
}
