#include "app/bench_predict.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/bench_table.h"
#include "app/command.h"
#include "app/interrupt.h"
#include "app/known_rates.h"
#include "app/profile_estimate.h"
#include "app/profile_run.h"

namespace smelt {
namespace {

struct Prediction {
  BenchTest test;
  double tokens = 1;
  double seconds = 0, stages = 0, bytes = 0;  // of all these tokens
  double bandwidth = 0;                       // of the machine

  bool is_decode() const { return test.prompt == 0; }
  double rate() const { return tokens / seconds; }
  double share_of_roofline() const { return bytes / seconds / bandwidth; }
};

// Of decoding a token stands for all: one in the middle of those that the test generates.
Result<Prediction> predict(const Listed& listed, const BenchTest& test) {
  const int64_t depth = test.depth + (test.prompt ? 0 : test.tokens / 2);
  SMELT_TRY(profile, estimated_profile(listed.listing(), listed.machine(), test.prompt, depth));
  const ProfiledPlan& plan = profile.plans.back();
  return Prediction{.test = test,
                    .tokens = plan.tokens,
                    .seconds = plan.seconds(),
                    .stages = plan.calls(),
                    .bytes = plan.bytes(),
                    .bandwidth = listed.machine().bandwidth};
}

std::vector<Column> columns(size_t model_width) {
  return {{"model", std::max<size_t>(5, model_width), false},
          {"machine", 15, false},
          {"test", 10, false},
          {"stages", 7, true},
          {"GB", 6, true},
          {"ms", 8, true},
          {"tok/s", 8, true},
          {"of roofline", 11, true}};
}

std::string line_of(const Prediction& p, const std::string& model, const std::string& machine,
                    const std::vector<Column>& columns) {
  return table_line({model, machine, name_of(p.test), text_of("%.0f", p.stages), text_of("%.2f", p.bytes / 1e9),
                     text_of("%.2f", 1e3 * p.seconds), text_of("%.1f", p.rate()),
                     p.is_decode() ? text_of("%.0f %%", 100 * p.share_of_roofline()) : ""},
                    columns);
}

nlohmann::ordered_json json_of(const Prediction& p, const std::string& model, const std::string& machine) {
  return {{"model", model},           {"machine", machine},
          {"test", name_of(p.test)},  {"stages", p.stages},
          {"bytes", p.bytes},         {"seconds", p.seconds},
          {"tokens", p.tokens},       {"tokens_per_second", p.rate()},
          {"bandwidth", p.bandwidth}, {"share_of_roofline", p.share_of_roofline()}};
}

std::string text_of_known(const KnownRate& rate) {
  const std::string figures =
      rate.least == rate.most ? text_of("%g", rate.least) : text_of("%g to %g", rate.least, rate.most);
  return rate.machine + ", " + rate.model + ", " + rate.test + ": " + figures + " tok/s, " + rate.whose + "\n";
}

uint64_t weight_bytes(const GgufFile& file) {
  uint64_t bytes = 0;
  for (const GgufTensor& tensor : file.tensors()) bytes += tensor.bytes;
  return bytes;
}

class Predictions {
 public:
  Predictions(const BenchFlags& flags, size_t model_width)
      : is_table_(flags.output == "md"), columns_(columns(model_width)), data_(flags.output) {}

  Status add(const BenchConfig& config, const std::string& machine, const std::vector<BenchTest>& tests) {
    ProfiledFlags flags;
    flags.engine = config.engine;
    flags.engine.context = std::max<int64_t>(context_for(tests) + 1, 64);
    flags.machine = machine;
    flags.synthetic = config.synthetic;
    SMELT_TRY(listed, Listed::open(flags));
    for (const BenchTest& test : tests) {
      SMELT_TRY(prediction, predict(listed, test));
      if (!std::exchange(begun_, true)) print(is_table_ ? table_head(columns_) : data_.begin());
      print(is_table_ ? line_of(prediction, config.model_name(), machine, columns_)
                      : data_.row(json_of(prediction, config.model_name(), machine)));
    }
    for (const KnownRate& rate :
         known_rates(listed.machine().name, listed.listing().model(), weight_bytes(listed.file())))
      notes_ += text_of_known(rate);
    return {};
  }

  void end() {
    if (!is_table_) return print(data_.end());
    print("\nEstimates from instructions, bytes and launches; what they leave out makes them too good.\n" + notes_);
  }

 private:
  static void print(const std::string& text) {
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  const bool is_table_;
  const std::vector<Column> columns_;
  DataRows data_;
  std::string notes_;
  bool begun_ = false;
};

}  // namespace

Result<int> run_predictions(const BenchFlags& flags) {
  SMELT_TRY(configs, configs_of(flags));
  SMELT_TRY(tests, tests_of(flags));
  for (const BenchTest& test : tests)
    if (test.prompt && (test.tokens || test.depth))
      return Error{"[bench] --predict: " + name_of(test) +
                   ": only prompts at an empty context are predicted, and "
                   "tokens; leave -pg out, or -d with -p"};
  size_t width = 0;
  for (const BenchConfig& config : configs) width = std::max(width, config.model_name().size());
  const std::vector<std::string> machines = flags.machines.empty() ? std::vector<std::string>{"host"} : flags.machines;
  Predictions predictions(flags, width);
  for (const BenchConfig& config : configs)
    for (const std::string& machine : machines) {
      const Status added = predictions.add(config, machine, tests);
      if (interrupted()) return kExitInterrupted;
      SMELT_CHECK(added);
    }
  predictions.end();
  return 0;
}

}  // namespace smelt
