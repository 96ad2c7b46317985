#include "app/engine_flags.h"

#include <CLI/CLI.hpp>

#include "app/checks.h"
#include "app/embedded.h"
#include "app/interrupt.h"
#include "app/model_names.h"
#include "app/opening.h"
#include "app/usual_checks.h"
#include "runtime/devices.h"
#include "runtime/target.h"
#include "safetensors/folder.h"

namespace smelt {
namespace {

// What `open` gives. From here on Ctrl-C is asked for; it ends the opening within 0.2 s, with a word on how far it
// came.
template <class Open>
auto until_interrupted(const Open& open, const OpenWatch& watch = {}) {
  (void)interrupted();
  note_unusable_cache();
  Opening opening(watch);
  auto opened = [&] {
    const EndSoon end_soon([&] { opening.say_where_it_stopped(); });
    return open(opening);
  }();
  if (!opened && was_interrupted()) opening.say_where_it_stopped();
  return opened;
}

DType cache_type_of(const std::string& name) {
  return name == "q8" ? DType::U8 : name == "f32" ? DType::F32 : DType::F16;
}

void note_crowded_cores(int threads) {
  const int cores = thread_count(0);
  if (threads > cores)
    std::fprintf(stderr, "smelt: -t %d: this program may use %d %s; threads that take turns are slow\n", threads, cores,
                 cores == 1 ? "core" : "cores");
}

// The file and the tokenizer of what is being opened.
template <class Opened>
Status open_file(const EngineFlags& flags, Opened& opened) {
  SMELT_TRY(file, open_model(flags.model));
  opened.file = std::make_unique<GgufFile>(std::move(file));
  SMELT_TRY(tokenizer, Tokenizer::from_gguf(*opened.file));
  opened.tokenizer = std::make_unique<Tokenizer>(std::move(tokenizer));
  return {};
}

// With a context as long as that of the model that verifies.
Result<DraftModel> open_draft_model(const EngineFlags& flags, const Tokenizer& tokenizer, const Engine& engine,
                                    Opening& opening) {
  DraftModel out;
  if (flags.draft.model.empty()) return out;
  SMELT_TRY(file, open_model(flags.draft.model));
  out.file = std::make_shared<GgufFile>(std::move(file));
  SMELT_TRY(drafts, Tokenizer::from_gguf(*out.file));
  SMELT_CHECK(check_same_tokens(drafts, tokenizer, flags.draft.model));
  EngineOptions options = session_options(flags);
  options.context = engine.context();
  options.sequences = engine.most_sequences();
  options.back_steps = options.drafts;
  options.drafts = 0;
  SMELT_TRY(session, Session::open(*out.file, options, opening.hooks()));
  out.session = std::move(session);
  return out;
}

}  // namespace

void declare_model_flag(CLI::App& app, std::string& model) {
  app.add_option("-m,--model", model,
                 "GGUF file, the first shard of one, a folder with config.json and *.safetensors, or the name of a "
                 "model (smelt list); without it, the model inside the program")
      ->type_name("MODEL")
      ->check(not_empty());
  app.add_option_function<std::string>(
         "--hf", [&model](const std::string& name) { model = kFetch + name; },
         "the same by name, user/repo:QUANT or a short one, fetched first if it is not there (also spelled -hf)")
      ->type_name("NAME");
}

CLI::Option* declare_device_flag(CLI::App& app, std::string& device, const char* unless_given) {
  device = unless_given;
  return app
      .add_option(
          "--device", device,
          "what to compute on: cpu, cuda (the first GPU) or cuda:N, metal (the GPU of a Mac), see `smelt devices`; "
          "auto: cuda where there is one and the model fits, else cpu; metal-shim: the kernels of a GPU of Apple, each "
          "access checked, slowly")
      ->type_name("NAME")
      ->check([](const std::string& name) {
        return is_device_name(name)
                   ? std::string()
                   : "there is no device " + name + "; use auto, cpu, cuda, cuda:N, metal or metal-shim";
      });
}

void declare_engine_flags(CLI::App& app, EngineFlags& flags) {
  declare_model_flag(app, flags.model);
  app.add_option("-c,--ctx-size", flags.context, "tokens of context; 0: what the model was made for, at most 4096")
      ->type_name("N")
      ->check(whole_number(0, int64_t{1} << 30));
  app.add_option("-t,--threads", flags.threads, "processor cores to use; 0: of all so many as are fastest")
      ->type_name("N")
      ->check(thread_number());
  app.add_flag("--no-repack", flags.no_repack,
               "read the weights in place, from the mapped file, instead of copying them into a "
               "faster layout");
  app.add_flag("--pack-cache", flags.pack_cache,
               "keep these copies on disk, in the cache folder, so that the next start maps them");
  app.add_option("--cache-type", flags.cache_type,
                 "numbers of the attention cache: q8, bytes with a scale for each row, fastest with long "
                 "contexts; f16; or f32, exact. q8 keeps keys in two orders, so that it takes 5 % less memory than "
                 "f16, not half")
      ->type_name("KIND")
      ->check(one_of({"q8", "f16", "f32"}));
  app.add_option("--activations", flags.activations,
                 "numbers that quantised weights are multiplied with: q8, integers with a scale for "
                 "each block of up to 128, or f32, slower; with --cache-type f32 exact")
      ->type_name("KIND")
      ->check(one_of({"q8", "f32"}));
  app.add_flag(
      "--deterministic", flags.deterministic,
      "logits of the same bits however tokens are computed, one by one, in batches or as a prompt; else prompts "
      "round as suits a matrix unit (bf16 with wgmma, and with AMX from 1024 tokens on except in `smelt serve`; fewer "
      "with AMX in wider blocks of bytes), and so do batches of 16 tokens and more with wgmma, faster; and there a "
      "token alone adds up a context of up to 1024 positions in another order");
}

void declare_engine_and_device_flags(CLI::App& app, EngineFlags& flags) {
  declare_engine_flags(app, flags);
  declare_device_flag(app, flags.device);
}

std::string name_of(const Device& device, const EngineFlags& flags) {
  const size_t changes = flags.device.find(',');
  return device.name() + (changes == std::string::npos ? "" : flags.device.substr(changes));
}

Result<GgufFile> open_model(const std::string& path) {
  if (!path.empty()) {
    SMELT_TRY(file, model_path(path));
    auto opened = open_model_files(file);
    if (opened || opened.error().message.find(file) != std::string::npos) return opened;
    return Error{file + ": " + without_tag(opened.error().message)};
  }
  return GgufFile::open_memory(embedded_model(), "embedded model");
}

EngineOptions session_options(const EngineFlags& flags) {
  EngineOptions options;
  options.device = flags.device;
  options.threads = flags.threads;
  options.context = flags.context;
  options.repack = !flags.no_repack;
  options.pack_cache = flags.pack_cache;
  options.cache_type = cache_type_of(flags.cache_type);
  options.quantise_activations = flags.activations == "q8";
  options.deterministic = flags.deterministic;
  options.drafts = most_drafts(flags.draft);
  options.mtp = flags.draft.mtp.has_value();
  options.sums_inputs = flags.sums_inputs;
  options.one_prompt_plan = flags.one_prompt_plan;
  return options;
}

Result<std::unique_ptr<Session>> open_session(const GgufFile& file, const EngineOptions& options,
                                              const OpenWatch& watch) {
  return until_interrupted([&](Opening& opening) { return Session::open(file, options, opening.hooks()); }, watch);
}

Result<std::unique_ptr<Engine>> open_sequences(const GgufFile& file, const EngineOptions& options) {
  return until_interrupted([&](Opening& opening) { return Engine::open(file, options, opening.hooks()); });
}

Result<OpenedModel> open_engine(const EngineFlags& flags, const OpenWatch& watch, int64_t sequences) {
  note_crowded_cores(flags.threads);
  SMELT_CHECK(check_draft_flags(flags.draft));
  return until_interrupted(
      [&](Opening& opening) -> Result<OpenedModel> {
        OpenedModel opened;
        SMELT_CHECK(open_file(flags, opened));
        EngineOptions options = session_options(flags);
        options.sequences = sequences;
        SMELT_TRY(session, Session::open(*opened.file, options, opening.hooks()));
        opened.session = std::move(session);
        SMELT_TRY(drafts, open_draft_model(flags, *opened.tokenizer, opened.session->engine(), opening));
        opened.speculation = make_speculation(flags.draft, *opened.session, std::move(drafts));
        return opened;
      },
      watch);
}

Result<OpenedSequences> open_engine(const EngineFlags& flags, int64_t sequences, int64_t cache_tokens) {
  note_crowded_cores(flags.threads);
  SMELT_CHECK(check_draft_flags(flags.draft));
  if (flags.draft.draw)
    return Error{"[draft] --draft-draw: answers of a server are those without drafts; leave it out"};
  return until_interrupted([&](Opening& opening) -> Result<OpenedSequences> {
    OpenedSequences opened;
    SMELT_CHECK(open_file(flags, opened));
    EngineOptions options = session_options(flags);
    options.sequences = sequences;
    options.cache_tokens = cache_tokens;
    SMELT_TRY(engine, Engine::open(*opened.file, options, opening.hooks()));
    opened.engine = std::move(engine);
    SMELT_TRY(drafts, open_draft_model(flags, *opened.tokenizer, *opened.engine, opening));
    SMELT_TRY(speculation, make_speculation(flags.draft, *opened.engine, std::move(drafts)));
    opened.speculation = std::move(speculation);
    return opened;
  });
}

}  // namespace smelt
