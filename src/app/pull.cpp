#include "app/pull.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "app/checks.h"
#include "app/command.h"
#include "app/interrupt.h"
#include "base/progress.h"

namespace smelt {
namespace {

// The bar of one file; a second one while it is verified.
class FileBar {
 public:
  explicit FileBar(std::string file) : file_(std::move(file)) {}

  DownloadEvents events(std::shared_ptr<FileBar> self) {
    return {.begin = [self](uint64_t total, uint64_t there) { self->begin("fetching ", total, there); },
            .received =
                [self](uint64_t bytes) {
                  if (self->bar_) self->bar_->add(bytes);
                },
            .verifying = [self] { self->begin("verifying ", self->total_, 0); },
            .note = [](const std::string& text) { std::fprintf(stderr, "smelt: %s\n", text.c_str()); }};
  }

 private:
  void begin(const std::string& what, uint64_t total, uint64_t there) {
    total_ = total;
    bar_.reset();
    bar_ = std::make_unique<Progress>(what + file_.substr(file_.rfind('/') + 1), total, ProgressUnit::bytes);
    bar_->begin_at(there);
  }

  std::string file_;
  uint64_t total_ = 0;
  std::unique_ptr<Progress> bar_;
};

struct PullFlags {
  std::vector<std::string> names;
  int connections = 4;
};

Result<int> run(const PullFlags& flags) {
  for (const std::string& name : flags.names) {
    SMELT_TRY(model, pull_with_progress(name, {.connections = flags.connections}));
    for (const std::string& path : model.paths) std::printf("%s\n", path.c_str());
  }
  return 0;
}

std::string explanation() {
  return "Fetches a model and prints where its files lie. From then on its name works wherever a file does. Cut\n"
         "downloads go on where they ended, every byte is checked, and other tools of the Hugging Face hub share the\n"
         "files.\n"
         "\nExamples:\n"
         "  smelt pull glm-4.7-flash                       its usual file, Q4_K_M\n"
         "  smelt pull glm-4.7:flash-q6_k                  another quantisation\n"
         "  smelt pull unsloth/GLM-4.7-Flash-GGUF:Q4_0     of any repository\n"
         "  smelt pull https://host/folder/model.gguf      a file of any server\n"
         "\nShort names:\n" +
         known_models_text() + "\ndocs/models.md tells more.\n";
}

}  // namespace

Result<PulledModel> pull_with_progress(const std::string& name, PullOptions options) {
  options.cancel = &interrupted();
  options.events = [](const std::string& file) {
    const auto bar = std::make_shared<FileBar>(file);
    return bar->events(bar);
  };
  auto model = pull(name, options);
  if (!model && was_interrupted()) std::fprintf(stderr, "stopped: interrupted; the same command goes on from here\n");
  return model;
}

Action declare_pull(CLI::App& app) {
  const auto flags = std::make_shared<PullFlags>();
  app.add_option("name", flags->names, "models to fetch: a short name, user/repo:QUANT, or a URL")
      ->type_name("NAME")
      ->required();
  app.add_option("-j,--connections", flags->connections, "connections at the same time")
      ->type_name("N")
      ->check(whole_number(1, 16));
  app.footer(explanation());
  return [flags] { return run(*flags); };
}

}  // namespace smelt
