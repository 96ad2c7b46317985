// `smelt bench`: what flags stand for, statistics, the forms of a report, and a short run of the program.
#include "app/bench.h"

#include <doctest/doctest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "app/bench_contest.h"
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

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

BenchRow sample_row() {
  return {.test = {.tokens = 4},
          .model = "a,b.gguf",
          .threads = 2,
          .rates = {8, 12, 10},
          .bytes_per_token = 1e9,
          .bandwidth = 2e10,
          .reads = {2e10, 2e10, 2e10}};
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
  CHECK(context_for(*tests_of(parsed({"--pg", "32,8", "-p", "64", "-n", "0", "-d", "100"}))) == 164);
}

TEST_CASE("every combination of models, threads and cache types is a configuration") {
  const auto configs = *configs_of(parsed({"-m", "a.gguf,b.gguf", "-t", "1,2", "--cache-type", "f16"}));
  REQUIRE(configs.size() == 4);
  CHECK(configs[1].engine.model == "a.gguf");
  CHECK(configs[1].engine.threads == 2);
  CHECK(configs[3].engine.model == "b.gguf");
  CHECK(configs[3].engine.cache_type == "f16");
  CHECK((*configs_of(parsed({})))[0].engine.model.empty());
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
  CHECK(!row.share_of_roofline());
}

TEST_CASE("the share of the roofline is that of the time of each run") {
  BenchRow row = sample_row();
  row.rates = {5, 5, 10};
  row.reads = {1e10, 1e10, 2e10};
  CHECK(*row.share_of_roofline() == 0.5);
  CHECK(contains(configuration_lines(row, 2), "memory reads 10.00 to 20.00 GB/s"));
  row.reads.clear();
  CHECK(!row.share_of_roofline());
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
  for (const std::string& line : lines_of(report("jsonl"))) CHECK(nlohmann::json::parse(line)["model"] == "a,b.gguf");

  const auto csv = lines_of(report("csv", true));
  REQUIRE(csv.size() == 3);
  CHECK(csv[0].starts_with("model,"));
  CHECK(csv[1].starts_with("\"a,b.gguf\","));
  CHECK(contains(csv[0], "ratio.median"));
}

TEST_CASE("a tenth of a sample lies outside of p10 and p90 each") {
  std::vector<double> values;
  for (int i = 30; i > 0; --i) values.push_back(i);
  CHECK(sample_of(values).p10 == 3);
  CHECK(sample_of(values).p90 == 28);
  CHECK(sample_of({7}).p10 == 7);
}

TEST_CASE("synthetic models stand beside files, and take their place in --vs") {
  BenchFlags flags = parsed({"-m", "a.gguf", "--synthetic", "tiny-glm:q4_0,tiny-lite:q8_0:2"});
  const auto configs = *configs_of(flags);
  REQUIRE(configs.size() == 3);
  CHECK(configs[0].model_name() == "a.gguf");
  CHECK(configs[1].model_name() == "tiny-glm:q4_0");
  CHECK(configs[2].synthetic == "tiny-lite:q8_0:2");
  CHECK(configs_of(parsed({"--synthetic", "tiny-glm"}))->size() == 1);  // not the embedded one, too
  CHECK(!configs_of(parsed({"--synthetic", "tiny-gpt"})));
  flags = parsed({"-m", "a.gguf"});
  flags.versus = "--synthetic tiny-glm:q4_0";
  CHECK(with_versus(flags)->models.empty());
  flags = parsed({"--synthetic", "tiny-glm:q4_0"});
  flags.versus = "--synthetic tiny-glm:q8_0 --no-repack";
  const auto contests = contests_of(flags);
  REQUIRE(contests.ok());
  REQUIRE(contests->size() == 1);
  CHECK((*contests)[0].configs[1].model_name() == "tiny-glm:q8_0");
  CHECK((*contests)[0].configs[1].engine.no_repack);
  CHECK(!(*contests)[0].reloads);
}

TEST_CASE("two models that do not fit into memory together take turns there") {
  BenchFlags flags = parsed({"--synthetic", "kimi-k2:f16"});
  CHECK(!(*contests_of(flags))[0].reloads);  // one alone is refused later, by name
  flags.versus = "-t 1";
  CHECK((*contests_of(flags))[0].reloads);
}

TEST_CASE("--block takes the first layers of a synthetic model, and one token for decoding") {
  BenchFlags flags = parsed({"--synthetic", "glm-4.7-flash:q4_0,glm-4.7-flash:q4_0:9,tiny-glm:q4_0", "-p", "64"});
  flags.block = true;
  const auto contests = contests_of(flags);
  REQUIRE(contests.ok());
  CHECK((*contests)[0].configs[0].synthetic == "glm-4.7-flash:q4_0:4");
  CHECK((*contests)[1].configs[0].synthetic == "glm-4.7-flash:q4_0:9");
  CHECK((*contests)[2].configs[0].synthetic == "tiny-glm:q4_0:3");
  CHECK((*contests)[0].tests == std::vector<BenchTest>{{.prompt = 64}, {.tokens = 1}});
  flags.both = {8, 8};
  CHECK(contains(contests_of(flags).error().message, "leave out -pg"));
}

TEST_CASE("bench measures a synthetic model and lets two configurations of it take turns") {
  const Outcome run = smelt::test::smelt({"bench", "--synthetic", "tiny-lite:q4_0:2", "-p", "8", "-n", "2", "-t", "1",
                                          "-r", "2", "-o", "jsonl", "--vs", "-b 8", "--reload"});
  CAPTURE(run.err);
  REQUIRE(run.exit_code == 0);
  const auto lines = lines_of(run.out);
  REQUIRE(lines.size() == 4);
  for (const std::string& line : lines) {
    const auto row = nlohmann::json::parse(line);
    CHECK(row["model"] == "tiny-lite:q4_0:2");
    CHECK(row["synthetic"] == true);
    CHECK(row["samples"].size() == 2);
    CHECK(row["ratio"]["median"] > 0);
    CHECK(row["compile_cold_seconds"].is_null());
  }
  CHECK(nlohmann::json::parse(lines[1])["configuration"] == "-b 8");
}

TEST_CASE("bench --compile times compiling anew, and from a warm cache") {
  const Outcome run = smelt::test::smelt({"bench", "--synthetic", "tiny-lite:q8_0:1", "-p", "0", "-n", "1", "-t", "1",
                                          "-r", "1", "--compile", "-o", "jsonl"});
  CAPTURE(run.err);
  REQUIRE(run.exit_code == 0);
  const auto row = nlohmann::json::parse(run.out);
  CHECK(row["compile_cold_seconds"] > 0);
  CHECK(row["compile"] == "warm");
  CHECK(row["kernels_compiled"] == 0);
  CHECK(row["kernels_cached"] > 0);
}

TEST_CASE("bench measures the embedded model and prints JSON lines") {
  const Outcome run = smelt::test::smelt(
      {"bench", "-p", "16", "-n", "4", "-pg", "8,2", "-d", "8", "-r", "2", "-t", "1", "-o", "jsonl"});
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
    CHECK(row["arithmetic"]["flops_at_least"] > 0);
    CHECK(row["arithmetic"]["cores_at_most"] > 0);
    CHECK(row["peak_memory_bytes"] > 0);
  }
  CHECK(nlohmann::json::parse(lines[2])["test"] == "pp8+tg2 @ d8");
}

TEST_CASE("bench lets two configurations take turns") {
  const Outcome run = smelt::test::smelt({"bench", "-p", "0", "-n", "4", "-r", "2", "-t", "1", "--vs", "-b 8"});
  CAPTURE(run.err);
  REQUIRE(run.exit_code == 0);
  CHECK(contains(run.out, "-b 8"));
  CHECK(contains(run.out, "x ("));
  CHECK(contains(run.out, "arithmetic reaches "));
}

TEST_CASE("wrong use of bench exits 2 and says what is wrong") {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"bench", "-p", "0", "-n", "0"}, "nothing to measure"},
      {{"bench", "-o", "xml"}, "xml"},
      {{"bench", "-t", "1,x"}, "x"},
      {{"bench", "--vs", "-n 3"}, "the same tests"},
      {{"bench", "--vs", "-t 1,2"}, "equal length"},
      {{"bench", "--synthetic", "gpt-7:q4_0"}, "choose from glm-4.7-flash"},
      {{"bench", "--block", "-pg", "8,8"}, "leave out -pg"},
  };
  for (const auto& [arguments, part] : cases) {
    const Outcome run = smelt::test::smelt(arguments);
    CAPTURE(run.err);
    CHECK(run.exit_code == 2);
    CHECK(contains(run.err, part));
    CHECK(run.out.empty());
  }
}

TEST_CASE("drafts are measured beside the same texts without them") {
  const Outcome table = smelt::test::smelt(
      smelt::test::on_one_thread({"bench", "--lookup", "--draft-max", "3", "-n", "24", "-r", "2", "--no-warmup"}), {});
  CHECK(table.exit_code == 0);
  for (const char* part : {" drafts |", "tg24", "as they pay", "times that", "right by place"}) {
    CAPTURE(part);
    CHECK(table.out.find(part) != std::string::npos);
  }
  const Outcome json = smelt::test::smelt(smelt::test::on_one_thread({"bench", "--lookup", "--draft-always", "-n", "24",
                                                                      "-r", "2", "--no-warmup", "-o", "json"}),
                                          {});
  CHECK(json.exit_code == 0);
  const auto rows = nlohmann::json::parse(json.out);
  REQUIRE(rows.size() == 3);
  CHECK(rows[1]["drafts"].get<int>() == 3);
  CHECK(rows[2]["drafted_by_place"].size() == 7);
  CHECK(rows[2]["ratios"].size() == 2);
  const Outcome synthetic =
      smelt::test::smelt(smelt::test::on_one_thread({"bench", "--lookup", "--synthetic", "glm-4.7-flash:q4_0:1"}), {});
  CHECK(synthetic.exit_code != 0);
  CHECK(synthetic.err.find("drafts need a model that writes texts") != std::string::npos);
}

TEST_CASE("predictions have a row for each machine and test, and what others reached there below them") {
  const Outcome out = test::smelt({"bench", "--predict", "--machine", "m3-max", "--machine", "h200", "--synthetic",
                                   "glm-4.7-flash:q4_0", "-p", "0", "-n", "64"});
  REQUIRE(out.exit_code == 0);
  const std::vector<std::string> lines = lines_of(out.out);
  REQUIRE(lines.size() > 4);
  CHECK(contains(lines[2], "| m3-max "));
  CHECK(contains(lines[3], "| h200 "));
  CHECK(contains(out.out, "m3-max, glm-4.7-flash:q4_0, tg: 35 tok/s, llama.cpp"));
  CHECK(contains(out.out, "m3-max, glm-4.7-flash:q4_0, tg: 80 to 100 tok/s, wished for"));
}

TEST_CASE("a prediction as data adds up: tokens, seconds, bytes and what memory could give") {
  const Outcome out = test::smelt({"bench", "--predict", "--machine", "m1", "-p", "64", "-n", "16", "-o", "json"});
  REQUIRE(out.exit_code == 0);
  const auto rows = nlohmann::json::parse(out.out);
  REQUIRE(rows.size() == 2);
  for (const auto& row : rows) {
    const double seconds = row["seconds"], bytes = row["bytes"], tokens = row["tokens"];
    CHECK(row["tokens_per_second"].get<double>() == doctest::Approx(tokens / seconds));
    CHECK(row["share_of_roofline"].get<double>() == doctest::Approx(bytes / seconds / 68e9));
  }
  CHECK(rows[0]["test"] == "pp64");
  CHECK(rows[0]["tokens"] == 64);
  CHECK(rows[1]["tokens"] == 1);
}

TEST_CASE("what cannot be predicted is said, and a machine without --predict is refused") {
  const Outcome both = test::smelt({"bench", "--predict", "-p", "0", "-n", "0", "--pg", "8,8"});
  CHECK(contains(both.err, "only prompts at an empty context are predicted"));
  const Outcome machine = test::smelt({"bench", "--machine", "m1"});
  CHECK(machine.exit_code == 2);
}

TEST_CASE("sequences with the same tokens read one sequence's experts") {
  const auto rows = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"bench", "--parallel", "1,8", "-n", "2", "-d", "3", "-r", "1", "-o", "json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome run = smelt::test::smelt(arguments);
    REQUIRE_MESSAGE(run.exit_code == 0, run.err);
    return nlohmann::json::parse(run.out);
  };
  const auto own = rows({}), same = rows({"--same-tokens"});
  REQUIRE(same.size() == 2);
  CHECK(same[0]["bytes_per_step"] == own[0]["bytes_per_step"]);
  CHECK(same[1]["bytes_per_step"].get<double>() < own[1]["bytes_per_step"].get<double>());
  CHECK(same[1]["tokens_per_second"].get<double>() > 0);
  CHECK(smelt::test::smelt({"bench", "--same-tokens"}).exit_code == 2);
}
