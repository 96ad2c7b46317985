// What `smelt bench` is asked to measure: the flags, and the sessions and tests that they stand for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/engine_flags.h"
#include "base/result.h"

namespace CLI {
class App;
}

namespace smelt {

// Lists: one value or several, in which case every combination is measured.
struct BenchFlags {
  std::vector<std::string> models;     // paths; none, and no synthetic ones: the embedded model
  std::vector<std::string> synthetic;  // SHAPE:MIX:LAYERS, see synthetic_shapes.h
  std::string write;                   // a file for a synthetic model, in place of measuring it
  std::vector<int64_t> prompt = {512};
  std::vector<int64_t> tokens = {128};
  std::vector<int64_t> both;  // prompt and tokens in turn: p1, n1, p2, n2 ...
  std::vector<int64_t> depth = {0};
  DraftFlags draft;               // time texts with drafts in place of whole tests
  std::string text;               // with drafts: a file with texts to go on with
  std::vector<int64_t> parallel;  // sequences that generate side by side, in place of whole tests
  bool same_tokens = false;       // with parallel: all of them the same
  std::vector<int64_t> threads = {0};
  std::vector<int64_t> batch = {0};
  std::vector<std::string> cache_types = {"q8"};
  std::vector<std::string> activations = {"q8"};
  int64_t repetitions = 5;
  std::string output = "md";
  std::string device = "cpu";
  bool no_repack = false;
  bool no_kernel_cache = false;
  bool deterministic = false;
  bool compile = false;               // times compiling, cold and warm
  bool block = false;                 // times the parts of a block in place of whole tests
  bool grammar = false;               // times masks of grammars in place of models
  bool predict = false;               // estimates in place of measurements
  std::vector<std::string> machines;  // that these are for; none: this one
  bool no_warmup = false;
  std::string versus;   // flags of a second configuration, as one text
  bool reload = false;  // with versus: one side in memory at a time
};

// What a session is opened for.
struct BenchConfig {
  EngineFlags engine;            // but for the context, which follows from the tests
  std::string synthetic;         // in place of engine.model, unless empty
  std::optional<int64_t> batch;  // tokens of a prompt that are computed together; none: as suits the device
  bool use_kernel_cache = true;
  bool times_compile = false;
  std::string label;  // "" or the flags of --vs

  std::string model_name() const;  // as reports have it
};

// `prompt` tokens at once and then `tokens` one at a time, with `depth` tokens in the context already.
struct BenchTest {
  int64_t prompt = 0, tokens = 0, depth = 0;
  int64_t total() const { return prompt + tokens; }
  bool operator==(const BenchTest&) const = default;
};

std::string name_of(const BenchTest& test);  // "pp512", "tg128 @ d2048", "pp512+tg128"

void declare_bench_flags(CLI::App& app, BenchFlags& flags);

// The flags of --vs on top of `base`. An Error if they do not parse.
Result<BenchFlags> with_versus(const BenchFlags& base);

// An Error if a synthetic model is unknown.
Result<std::vector<BenchConfig>> configs_of(const BenchFlags& flags);
Result<std::vector<BenchTest>> tests_of(const BenchFlags& flags);  // an Error if there are none
int64_t context_for(const std::vector<BenchTest>& tests);

}  // namespace smelt
