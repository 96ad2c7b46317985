// The options that every command which computes has in common, and what they open: file, tokenizer, session.
#pragma once

#include <memory>
#include <string>

#include "app/draft_flags.h"
#include "app/opening.h"
#include "base/result.h"
#include "engine/session.h"
#include "gguf/gguf.h"
#include "runtime/device.h"
#include "text/tokenizer.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace smelt {

struct EngineFlags {
  std::string model;  // empty: the embedded model
  std::string device = "cpu";
  int threads = 0;
  int64_t context = 0;
  bool no_repack = false;
  bool pack_cache = false;
  std::string cache_type = "q8";
  std::string activations = "q8";
  bool deterministic = false;
  DraftFlags draft;
  // No flags: set by `smelt imatrix`, and by `smelt serve`.
  bool sums_inputs = false;
  bool one_prompt_plan = false;
};

void declare_model_flag(CLI::App& app, std::string& model);
// --device, of the commands that can run elsewhere than on the processor.
CLI::Option* declare_device_flag(CLI::App& app, std::string& device, const char* unless_given = "auto");
void declare_engine_flags(CLI::App& app, EngineFlags& flags);
void declare_engine_and_device_flags(CLI::App& app, EngineFlags& flags);

// What opens the same device again: its own name, with the changes to its machine that were asked for.
std::string name_of(const Device& device, const EngineFlags& flags);

// The file of `-m`, or the embedded model where `path` is empty.
Result<GgufFile> open_model(const std::string& path);

EngineOptions session_options(const EngineFlags& flags);

// Session::open and Engine::open; their notes, and on a terminal their progress, are seen on stderr. Ctrl-C ends them
// within 0.2 s.
Result<std::unique_ptr<Session>> open_session(const GgufFile& file, const EngineOptions& options,
                                              const OpenWatch& watch = {});
Result<std::unique_ptr<Engine>> open_sequences(const GgufFile& file, const EngineOptions& options);

// Members are destroyed last to first, and each one uses those before it.
struct OpenedModel {
  std::unique_ptr<GgufFile> file;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<Session> session;
  std::unique_ptr<Speculation> speculation;  // nothing where nothing is to be drafted
};

// Opens the model; compiling shows its progress on stderr. `sequences`: that the engine under the session has room for.
Result<OpenedModel> open_engine(const EngineFlags& flags, const OpenWatch& watch = {}, int64_t sequences = 1);

struct OpenedSequences {
  std::unique_ptr<GgufFile> file;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<BatchSpeculation> speculation;  // nothing where nothing is to be drafted
};

// The same for several sequences at a time, see EngineOptions.
Result<OpenedSequences> open_engine(const EngineFlags& flags, int64_t sequences, int64_t cache_tokens);

}  // namespace smelt
