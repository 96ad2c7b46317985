#include "app/engine_flags.h"

#include <CLI/CLI.hpp>
#include <optional>

#include "app/checks.h"
#include "app/embedded.h"
#include "app/interrupt.h"
#include "base/progress.h"

namespace smelt {
namespace {

constexpr uint64_t kPercent = 100;

// One bar for each stage that the session names.
class StageProgress {
 public:
  void operator()(const char* stage, double fraction) {
    if (stage != stage_) {
      bar_.reset();
      bar_.emplace(stage, kPercent);
      stage_ = stage;
    }
    bar_->set(static_cast<uint64_t>(fraction * kPercent));
  }

 private:
  std::string stage_;
  std::optional<Progress> bar_;
};

}  // namespace

void declare_model_flag(CLI::App& app, std::string& model) {
  app.add_option("-m,--model", model,
                 "GGUF file, or the first shard of one; without it, the model inside the program")
      ->type_name("FILE");
}

void declare_engine_flags(CLI::App& app, EngineFlags& flags) {
  declare_model_flag(app, flags.model);
  app.add_option("-c,--ctx-size", flags.context,
                 "tokens of context; 0: what the model was made for, at most 4096")
      ->type_name("N")
      ->check(whole_number(0, int64_t{1} << 30));
  app.add_option("-t,--threads", flags.threads, "processor cores to use; 0: all")
      ->type_name("N")
      ->check(whole_number(0, 4096));
  app.add_flag("--no-repack", flags.no_repack,
               "read the weights in place, from the mapped file, instead of copying them into a "
               "faster layout");
  app.add_option("--cache-type", flags.cache_type,
                 "numbers of the attention cache: f32, or f16 in half the memory")
      ->type_name("KIND")
      ->check(one_of({"f32", "f16"}));
  app.add_option("--activations", flags.activations,
                 "numbers that quantised weights are multiplied with: q8, integers with a scale for "
                 "each 32, or f32, slower and exact")
      ->type_name("KIND")
      ->check(one_of({"q8", "f32"}));
}

Result<GgufFile> open_model(const std::string& path) {
  if (!path.empty()) return GgufFile::open(path);
  return GgufFile::open_memory(embedded_model(), "embedded model");
}

SessionOptions session_options(const EngineFlags& flags) {
  SessionOptions options;
  options.threads = flags.threads;
  options.context = flags.context;
  options.repack = !flags.no_repack;
  options.cache_type = flags.cache_type == "f16" ? DType::F16 : DType::F32;
  options.quantise_activations = flags.activations == "q8";
  return options;
}

// Elsewhere than on a terminal, the figures at the end say how long it took.
Result<std::unique_ptr<Session>> open_session(const GgufFile& file, const SessionOptions& options) {
  if (!stderr_is_terminal()) return Session::open(file, options, {});
  StageProgress progress;
  return Session::open(file, options, std::ref(progress));
}

Result<Engine> open_engine(const EngineFlags& flags) {
  Engine engine;
  SMELT_TRY(file, open_model(flags.model));
  engine.file = std::make_unique<GgufFile>(std::move(file));
  SMELT_TRY(tokenizer, Tokenizer::from_gguf(*engine.file));
  engine.tokenizer = std::make_unique<Tokenizer>(std::move(tokenizer));
  SMELT_TRY(session, open_session(*engine.file, session_options(flags)));
  engine.session = std::move(session);
  // Until here Ctrl-C just ends the program; from here on it is asked for between tokens.
  (void)interrupted();
  return engine;
}

}  // namespace smelt
