#include "app/bench_flags.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "app/checks.h"
#include "app/model_names.h"
#include "app/number_list.h"
#include "app/synthetic_shapes.h"

namespace smelt {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 24;

// Not two names with a comma between them.
bool is_one_model(const std::string& given) { return given.starts_with(kFetch) || ::access(given.c_str(), F_OK) == 0; }

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return parts;
}

// One argument of comma-separated values; the flag may also be given several times.
template <class T>
CLI::Option* add_list(CLI::App& app, const char* names, std::vector<T>& values, const char* type,
                      const std::string& help) {
  return app.add_option(names, values, help)->type_name(type)->delimiter(',')->allow_extra_args(false);
}

// As a shell splits them: quotes keep a path with spaces together.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  char quote = 0;
  bool begun = false;
  for (const char c : text + " ") {
    if (quote ? c == quote : c == '\'' || c == '"') {
      quote = quote ? 0 : c;
      begun = true;
    } else if (quote || c != ' ') {
      word += c;
      begun = true;
    } else if (begun) {
      words.push_back(word == "-pg" ? "--pg" : word);
      word.clear();
      begun = false;
    }
  }
  return words;
}

}  // namespace

void declare_bench_flags(CLI::App& app, BenchFlags& flags) {
  app.add_option("-m,--model", flags.models,
                 "models; without it, the one inside the program; a file with a comma in "
                 "its name has an -m to itself")
      ->type_name("MODEL,...")
      ->allow_extra_args(false)
      ->default_str("");
  app.add_option_function<std::vector<std::string>>(
         "--hf",
         [&flags](const std::vector<std::string>& names) {
           for (const std::string& name : names) flags.models.push_back(kFetch + name);
         },
         "models by name, fetched first if they are not there (also spelled -hf)")
      ->type_name("NAME,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  add_list(app, "--synthetic", flags.synthetic, "SHAPE:MIX,...",
           "models of random weights in memory, no file needed: glm-4.7-flash:q4_k_m, or its first "
           "4 layers as glm-4.7-flash:q4_k_m:4; without a mix q4_k_m; shapes: " +
               listed(synthetic_shapes()) + "; mixes: " + listed(synthetic_mixes()) + ", or one type such as q8_0")
      ->default_str("");
  add_number_list(app, "-p,--n-prompt", flags.prompt, 0, kMostTokens, "N,...",
                  "tests ppN: tokens of a prompt, read in chunks; 0: none; 128-1024*2 is 128,256,512,1024, and "
                  "128-512+128 is 128,256,384,512");
  add_number_list(app, "-n,--n-gen", flags.tokens, 0, kMostTokens, "N,...",
                  "tests tgN: tokens generated one after the other; 0: none");
  add_number_list(app, "--pg", flags.both, 1, kMostTokens, "P,N,...",
                  "tests ppP+tgN: a prompt, then tokens after it (also spelled -pg)");
  add_number_list(app, "-d,--n-depth", flags.depth, 0, kMostTokens, "N,...",
                  "tokens in the context before a test begins");
  add_number_list(app, "-t,--threads", flags.threads, 0, most_threads(), "N,...", "processor cores to use; 0: all");
  add_number_list(app, "-b,--batch-size", flags.batch, 0, 1 << 16, "N,...",
                  "tokens of a prompt that are computed together; 0: as suits the device");
  add_list(app, "--cache-type", flags.cache_types, "KIND,...", "numbers of the attention cache: q8, f16 or f32")
      ->check(one_of({"q8", "f16", "f32"}));
  add_list(app, "--activations", flags.activations, "KIND,...", "numbers that weights are multiplied with: q8 or f32")
      ->check(one_of({"q8", "f32"}));
  declare_device_flag(app, flags.device);
  app.add_flag("--deterministic", flags.deterministic,
               "prompts with the same bits as single tokens, without what suits a matrix unit better");
  app.add_flag("--no-repack", flags.no_repack,
               "read the weights in place instead of copying them into a faster layout");
  app.add_flag("--no-kernel-cache", flags.no_kernel_cache, "compile everything anew and leave nothing on disk");
}

std::string name_of(const BenchTest& test) {
  std::string name;
  if (test.prompt) name = "pp" + std::to_string(test.prompt);
  if (test.tokens) name += (name.empty() ? "tg" : "+tg") + std::to_string(test.tokens);
  if (test.depth) name += " @ d" + std::to_string(test.depth);
  return name;
}

Result<BenchFlags> with_versus(const BenchFlags& base) {
  BenchFlags given;
  CLI::App app;
  app.set_help_flag();
  declare_bench_flags(app, given);
  std::vector<std::string> words = words_of(base.versus);
  std::reverse(words.begin(), words.end());  // the order that CLI11 wants them in
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    return Error{"--vs \"" + base.versus + "\": " + error.what()};
  }
  BenchFlags out = base;
  const auto take = [&](const char* name, auto& to, const auto& from) {
    if (app.get_option(name)->count() > 0) to = from;
  };
  if (!given.models.empty()) out.models = given.models;  // of -m or --hf
  take("--synthetic", out.synthetic, given.synthetic);
  // Another model takes the place of the first one, wherever that came from.
  if (out.models.size() && given.synthetic.size() && given.models.empty()) out.models.clear();
  if (out.synthetic.size() && given.models.size() && given.synthetic.empty()) out.synthetic.clear();
  take("--n-prompt", out.prompt, given.prompt);
  take("--n-gen", out.tokens, given.tokens);
  take("--pg", out.both, given.both);
  take("--n-depth", out.depth, given.depth);
  take("--threads", out.threads, given.threads);
  take("--batch-size", out.batch, given.batch);
  take("--cache-type", out.cache_types, given.cache_types);
  take("--activations", out.activations, given.activations);
  take("--device", out.device, given.device);
  take("--deterministic", out.deterministic, given.deterministic);
  take("--no-repack", out.no_repack, given.no_repack);
  take("--no-kernel-cache", out.no_kernel_cache, given.no_kernel_cache);
  return out;
}

std::string BenchConfig::model_name() const {
  if (!synthetic.empty()) return synthetic;
  if (engine.model.empty()) return "embedded model";
  const std::string name =
      engine.model.starts_with(kFetch) ? engine.model.substr(std::string(kFetch).size()) : engine.model;
  return name.substr(name.find_last_of('/') + 1);
}

Result<std::vector<BenchConfig>> configs_of(const BenchFlags& flags) {
  std::vector<BenchConfig> models;
  for (const std::string& given : flags.models)
    for (const std::string& path : is_one_model(given) ? std::vector{given} : split_at_commas(given))
      models.push_back({.engine = {.model = path}});
  for (const std::string& name : flags.synthetic) {
    SMELT_TRY(spec, parse_synthetic(name));
    models.push_back({.synthetic = spec.name});
  }
  if (models.empty()) models.emplace_back();
  std::vector<BenchConfig> configs;
  for (BenchConfig config : models)
    for (const std::string& activations : flags.activations)
      for (const std::string& cache_type : flags.cache_types)
        for (int64_t batch : flags.batch)
          for (int64_t threads : flags.threads) {
            config.engine.threads = static_cast<int>(threads);
            config.engine.cache_type = cache_type;
            config.engine.device = flags.device;
            config.engine.activations = activations;
            config.engine.deterministic = flags.deterministic;
            config.engine.no_repack = flags.no_repack;
            if (batch > 0) config.batch = batch;
            config.use_kernel_cache = !flags.no_kernel_cache;
            config.times_compile = flags.compile;
            configs.push_back(config);
          }
  return configs;
}

Result<std::vector<BenchTest>> tests_of(const BenchFlags& flags) {
  if (flags.both.size() % 2) return Error{"-pg: it takes pairs, such as 512,128: a prompt and the tokens after it"};
  std::vector<BenchTest> tests;
  for (int64_t depth : flags.depth) {
    for (int64_t prompt : flags.prompt)
      if (prompt > 0) tests.push_back({.prompt = prompt, .depth = depth});
    for (int64_t tokens : flags.tokens)
      if (tokens > 0) tests.push_back({.tokens = tokens, .depth = depth});
    for (size_t i = 0; i < flags.both.size(); i += 2)
      tests.push_back({.prompt = flags.both[i], .tokens = flags.both[i + 1], .depth = depth});
  }
  if (tests.empty()) return Error{"nothing to measure: -p and -n are 0 and there is no -pg"};
  return tests;
}

int64_t context_for(const std::vector<BenchTest>& tests) {
  int64_t context = 1;
  for (const BenchTest& test : tests) context = std::max(context, test.depth + test.total());
  return context;
}

}  // namespace smelt
