// `smelt bench --block`: which launches and how much work belong to which part of a block, and what is printed of it.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "app/bench_block_parts.h"
#include "app/bench_block_report.h"
#include "app/process.h"
#include "app/synthetic_model.h"

using namespace smelt;
using smelt::test::Outcome;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// "attention 1.00" or "router 0.20, shared expert 0.80"
std::string shares_of(const BlockLaunch& launch) {
  std::string text;
  for (const auto& [part, share] : launch.shares) {
    char number[16];
    std::snprintf(number, sizeof number, " %.2f", share);
    text += (text.empty() ? "" : ", ") + std::string(name_of(part)) + number;
  }
  return text;
}

PlanLaunch launch_with(int64_t layer, std::vector<std::string> names) {
  PlanLaunch launch{.stage = "block", .layer = layer};
  for (const std::string& name : names)
    launch.buffers.push_back({.name = name, .is_weight = name.find('.') != std::string::npos});
  return launch;
}

struct TinyModel {
  std::unique_ptr<SyntheticModel> synthetic;
  std::shared_ptr<const Model> model;
  explicit TinyModel(const std::string& name) {
    synthetic = SyntheticModel::make(*parse_synthetic(name)).take();
    model = read_model(file()).take();
  }
  const GgufFile& file() const { return synthetic->file(); }
};

}  // namespace

TEST_CASE("launches belong to the parts whose weights they read") {
  const TinyModel tiny("tiny-lite:q8_0:2");
  const std::vector<PlanLaunch> launches = {
      {.stage = "embed"},
      launch_with(0, {"hidden", "attn_norm.weight", "attn_q.weight", "attn_kv_a_mqa.weight"}),
      launch_with(0, {"temp 1", "cache"}),
      launch_with(0, {"temp 2"}),  // goes with the one before
      launch_with(0, {"attn_output.weight", "ffn_norm.weight"}),
      launch_with(0, {"ffn_gate.weight", "ffn_up.weight"}),
      launch_with(1, {"hidden"}),
      launch_with(1, {"ffn_gate_inp.weight", "ffn_gate_shexp.weight", "ffn_up_shexp.weight"}),
      launch_with(1, {"ffn_gate_exps.weight", "temp 3"}),
      launch_with(1, {"temp 3"}),
      launch_with(1, {"ffn_down_exps.weight", "ffn_down_shexp.weight"}),
  };
  const auto shares = [&](int64_t tokens) {
    std::vector<std::string> out;
    for (const BlockLaunch& l : parts_of(launches, tiny.file(), *tiny.model, tokens)) out.push_back(shares_of(l));
    return out;
  };
  // Bytes: the router has 16 rows of 4 bytes, the shared gate and up 1024 of 34 / 32; experts 6 of 16.
  CHECK(shares(1) == std::vector<std::string>{"", "attention 1.00", "attention 1.00", "attention 1.00",
                                              "attention 1.00", "dense network 1.00", "attention 1.00",
                                              "router 0.06, shared expert 0.94", "experts 1.00", "experts 1.00",
                                              "experts 0.75, shared expert 0.25"});
  CHECK(shares(64)[7] == "shared expert 1.00");  // by multiply-adds, the router is a guest
  CHECK(shares(64)[10] == "experts 0.75, shared expert 0.25");
}

TEST_CASE("the work of a part counts weights once, the experts that are reached, and the cache") {
  const TinyModel tiny("tiny-lite:q8_0:2");
  const CacheReads reads{{{0, 1000}}};
  const auto one = work_of(1, tiny.file(), *tiny.model, 1, 99, reads);
  const auto many = work_of(1, tiny.file(), *tiny.model, 256, 0, reads);
  const double expert_bytes = 3 * 256 * 256 * 34 / 32;
  CHECK(one.at(BlockPart::Experts).bytes == doctest::Approx(6 * expert_bytes));
  CHECK(many.at(BlockPart::Experts).bytes == doctest::Approx(16 * expert_bytes));
  CHECK(one.at(BlockPart::Experts).multiply_adds == 6 * 3 * 256 * 256);
  CHECK(many.at(BlockPart::Experts).multiply_adds == 256.0 * 6 * 3 * 256 * 256);
  CHECK(one.at(BlockPart::SharedExpert).bytes == many.at(BlockPart::SharedExpert).bytes);
  CHECK(many.at(BlockPart::Attention).bytes - one.at(BlockPart::Attention).bytes == 156 * 1000);
  CHECK(!one.contains(BlockPart::DenseNetwork));
  CHECK(work_of(0, tiny.file(), *tiny.model, 1, 0, {}).contains(BlockPart::DenseNetwork));
}

TEST_CASE("layers of the same types are one kind of block, named by what differs most") {
  const TinyModel same("tiny-glm:q8_0"), mixed("tiny-glm:q4_k_m");
  const auto names = [](const TinyModel& m) {
    std::string text;
    for (const BlockKind& kind : block_kinds(m.file(), *m.model))
      text += kind.name + " x" + std::to_string(kind.layers.size()) + "; ";
    return text;
  };
  CHECK(names(same) == "dense block x1; MoE block x2; ");
  CHECK(names(mixed) == "dense block x1; MoE block, ffn_down_exps Q4_K x1; MoE block, ffn_down_exps Q6_K x1; ");
}

TEST_CASE("bench --block times the parts of each kind of block") {
  const Outcome run = smelt::test::smelt(
      {"bench", "--synthetic", "tiny-lite:q4_0:2", "--block", "-p", "8", "-t", "1", "-r", "3", "-o", "json"});
  CAPTURE(run.err);
  REQUIRE(run.exit_code == 0);
  const auto rows = nlohmann::json::parse(run.out);
  std::string parts;
  for (const auto& row : rows) {
    parts += row["part"].get<std::string>() + "; ";
    CHECK(row["microseconds"]["median"] > 0);
    CHECK(row["samples"] == 3);
    CHECK(row["kernels"] > 0);
    CHECK(row["bytes"] > 0);
    CHECK(row["emptied_caches"] == true);  // they hold all of so small a model
  }
  const std::string blocks =
      "whole block; attention; dense network; "
      "whole block; attention; router; experts; shared expert; ";
  CHECK(parts == blocks + blocks);  // for the prompt and for decoding
  // Medians of times, so that shares need not add up on a busy machine.
  for (size_t block : {0, 3, 8, 11}) CHECK(rows[block]["share_of_block"] == 1);
  for (size_t part : {12, 13, 14, 15}) CHECK(rows[part]["share_of_block"] > 0);
}

TEST_CASE("bench --block prints a table for each test") {
  BlockReport report("md", true);
  BlockResult result{.test = {.tokens = 1}, .threads = 2, .runs = 2, .bandwidth = 2e10};
  result.rows = {{.block = "MoE block",
                  .layers = 3,
                  .seconds = {1e-3, 2e-3, 3e-3},
                  .ratios = {1, 2, 3},
                  .work = {2e7, 1e6},
                  .launches = 10},
                 {.block = "MoE block",
                  .layers = 3,
                  .part = BlockPart::Router,
                  .seconds = {1e-5, 2e-5, 3e-5},
                  .launches = 1,
                  .shared_launches = 1,
                  .share = 0.01}};
  const std::string text = report.begin() + report.result(result) + report.end();
  CAPTURE(text);
  CHECK(contains(text, "embedded model, tg1, 2 threads"));
  CHECK(contains(text, "| MoE block | whole block   |    2000 |"));
  CHECK(contains(text, "20.0 MB |   10.0 |        50 % |"));
  CHECK(contains(text, "2.000x (1.000 to 3.000)"));
  CHECK(contains(text, "1 (1 shared)"));
  CHECK(contains(text, "MoE block: 2 runs of 3 layers"));
}
