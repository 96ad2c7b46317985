// `smelt run`: text after a prompt, as it is made.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>

#include "app/benchmark.h"
#include "app/cache_size.h"
#include "app/chat.h"
#include "app/checks.h"
#include "app/command.h"
#include "app/engine_flags.h"
#include "app/generate.h"
#include "app/grammar_flags.h"
#include "app/input.h"
#include "app/interrupt.h"
#include "app/model_names.h"
#include "app/printing.h"
#include "app/sampling_flags.h"
#include "app/statistics.h"
#include "base/file.h"

namespace smelt {
namespace {

constexpr const char* kDefaultPrompt = "Once upon a time";
constexpr int kDefaultBenchmarkTokens = 128;

constexpr const char* kExamples =
    "Examples:\n"
    "  smelt run -p \"The little dragon\"             go on with this text\n"
    "  smelt run -m model.gguf -p \"Hello\" --temp 0  always the most likely token\n"
    "  smelt run model.gguf \"Hello\"                the same in short\n"
    "  smelt run -m model.gguf                      talk with it, on a terminal (`smelt chat`)\n"
    "  smelt run -m model.gguf < prompt.txt         the prompt from a pipe or file\n"
    "  smelt run -m model.gguf --benchmark          how fast it is here\n"
    "\nThe text goes to standard output, figures to standard error. Ctrl-C stops.\n";

struct RunFlags {
  EngineFlags engine;
  std::optional<std::string> prompt;
  std::optional<std::string> prompt_file;
  bool echo = false;
  bool special = false;
  GenerateOptions generate;
  SamplingFlags sampling;
  GrammarFlags grammar;
  std::vector<std::string> words;  // [MODEL] [PROMPT]
  CLI::Option* benchmark = nullptr;
  int benchmark_tokens = kDefaultBenchmarkTokens;
};

struct Prompt {
  std::string text;
  bool echo = false;
};

void declare_prompt(CLI::App& app, RunFlags& flags) {
  app.add_option("words", flags.words, "a model, where -m names none, and the prompt, where -p gives none")
      ->type_name("[MODEL] [PROMPT]")
      ->expected(0, 2);
  app.add_option("-p,--prompt", flags.prompt, "the text to go on with")->type_name("TEXT");
  app.add_option("-f,--file", flags.prompt_file, "a file with that text; -: standard input")->type_name("FILE");
  app.add_flag("--echo", flags.echo, "print the prompt before the answer");
  app.add_flag("--special", flags.special, "print control tokens such as <|user|> too");
}

int usage(const char* message) {
  std::fprintf(stderr, "smelt: %s\nTry `smelt run --help`.\n", message);
  return kExitUsage;
}

// Editors end a file with a newline that the author of the prompt did not mean.
std::string without_last_newline(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

// Where the prompt comes from, in order: -p, -f, stdin unless it is a terminal, the story start of the embedded model.
Result<Prompt> find_prompt(const RunFlags& flags) {
  if (flags.prompt) return Prompt{*flags.prompt, flags.echo};
  if (flags.prompt_file) {
    SMELT_TRY(text, read_stream(*flags.prompt_file));
    return Prompt{without_last_newline(std::move(text)), flags.echo};
  }
  SMELT_TRY(given, piped_text());
  std::string piped = without_last_newline(std::move(given));
  if (!piped.empty()) return Prompt{std::move(piped), flags.echo};
  // Nobody asked for these words, so they belong to the answer.
  if (flags.engine.model.empty()) return Prompt{kDefaultPrompt, true};
  return Prompt{};
}

Status check_length(const Session& session, size_t tokens) {
  if (tokens <= static_cast<size_t>(session.context())) return {};
  return Error{"[run] prompt: its " + std::to_string(tokens) + " tokens do not fit a context of " +
               std::to_string(session.context()) + "; make it shorter, or the context longer with -c"};
}

const char* note(StopReason reason) {
  switch (reason) {
    case StopReason::length: return nullptr;
    case StopReason::stop_token: return nullptr;
    case StopReason::complete: return nullptr;
    case StopReason::context_full: return "stopped: the context is full (-c makes it longer)";
    case StopReason::interrupted: return "stopped: interrupted";
    case StopReason::unwanted: return nullptr;  // an error says why
  }
  return nullptr;
}

void print_statistics(const EngineStats& stats, const Generation& generation, const SamplerOptions& sampler,
                      const CacheReads& reads) {
  if (const char* text = note(generation.stopped)) std::fprintf(stderr, "%s\n", text);
  std::fprintf(stderr, "%s\n", load_line(stats).c_str());
  if (generation.prompt_tokens > 0) std::fprintf(stderr, "%s\n", prompt_line(generation).c_str());
  if (generation.decode_steps > 0) std::fprintf(stderr, "%s\n", decode_line(stats, generation, reads).c_str());
  if (sampler.temperature > 0) {
    std::fprintf(stderr, "seed %llu\n", static_cast<unsigned long long>(sampler.seed));
  }
}

Result<int> write_text(const RunFlags& flags, const Prompt& prompt) {
  SMELT_TRY(grammar, read_grammar(flags.grammar));
  SMELT_TRY(engine, open_engine(flags.engine));
  const std::vector<int32_t> ids = engine.tokenizer->encode(prompt.text);
  if (ids.empty()) return Error{"[run] prompt: the vocabulary of this model has no token for it; try another text"};
  SMELT_CHECK(check_length(*engine.session, ids.size()));
  SMELT_TRY(options, sampling_of(flags.sampling, {}, *engine.tokenizer));
  if (flags.generate.ignore_stop) options.banned = engine.tokenizer->stop_tokens();
  Sampler sampler(options);
  for (int32_t id : ids) sampler.accept(id);

  GenerateOptions generation_options = flags.generate;
  generation_options.speculation = engine.speculation.get();
  std::optional<Constraint> constraint;
  if (grammar) {
    SMELT_TRY(masks, TokenMasks::make(*grammar, TokenTable::of(*engine.tokenizer)));
    generation_options.constraint = &constraint.emplace(std::move(masks));
  }

  if (prompt.echo) print_now(prompt.text);
  StreamDecoder decoder(*engine.tokenizer, !flags.special);
  const auto emit = [&](int32_t id) { return print_now(decoder.push(id)); };
  SMELT_TRY(generation,
            generate(*engine.session, *engine.tokenizer, sampler, ids, generation_options, emit, interrupted()));
  print_now(decoder.flush() + "\n");
  print_statistics(engine.session->stats(), generation, options, cache_reads(*engine.file, flags.engine.cache_type));
  if (engine.speculation) std::fprintf(stderr, "%s\n", draft_line(engine.speculation->counts()).c_str());
  SMELT_CHECK(all_printed());
  return generation.stopped == StopReason::interrupted ? kExitInterrupted : 0;
}

// `smelt run model.gguf "Once upon"`, `smelt run "Once upon"`: a word that names no model is the prompt.
std::string take_words(RunFlags& flags) {
  for (const std::string& word : flags.words) {
    const bool is_model =
        flags.engine.model.empty() && &word == &flags.words[0] && (flags.words.size() == 2 || names_a_model(word));
    if (is_model)
      flags.engine.model = word;
    else if (!flags.prompt && !flags.prompt_file)
      flags.prompt = word;
    else
      return "'" + word + "' is a second prompt; give one, and quote it";
  }
  return {};
}

// On a terminal, without a prompt and with a model of one's own: a conversation, with what was said of sampling.
bool wants_conversation(const RunFlags& flags) {
  const bool has_prompt = flags.prompt || flags.prompt_file;
  return !has_prompt && !flags.engine.model.empty() && ::isatty(STDIN_FILENO) && ::isatty(STDOUT_FILENO);
}

Result<int> converse(const RunFlags& flags) {
  ChatFlags chat_flags;
  chat_flags.engine = flags.engine;
  chat_flags.sampling = flags.sampling;
  if (flags.generate.max_tokens != GenerateOptions{}.max_tokens) chat_flags.max_tokens = flags.generate.max_tokens;
  return chat(chat_flags);
}

Result<int> run(RunFlags& flags) {
  if (const std::string wrong = take_words(flags); !wrong.empty()) return usage(wrong.c_str());
  if (flags.benchmark->count() > 0) {
    if (flags.prompt || flags.prompt_file) return usage("--benchmark times random tokens; leave the prompt out");
    return run_benchmark(flags.engine, flags.benchmark_tokens);
  }
  if (flags.prompt && flags.prompt_file) return usage("--prompt and --file are two prompts; give one of them");
  if (wants_conversation(flags)) return converse(flags);
  SMELT_TRY(prompt, find_prompt(flags));
  if (prompt.text.empty()) return usage("no prompt: give -p TEXT, -f FILE, or text on standard input");
  return write_text(flags, prompt);
}

}  // namespace

Action declare_run(CLI::App& app) {
  const auto flags = std::make_shared<RunFlags>();
  declare_prompt(app, *flags);
  app.add_option("-n,--predict", flags->generate.max_tokens, "tokens to write; -1: until the text ends")
      ->type_name("N")
      ->check(whole_number(-1, int64_t{1} << 30));
  declare_engine_and_device_flags(app, flags->engine);
  declare_sampling_flags(app, flags->sampling, "0.8, 40, 0.95, 0.05");
  app.add_flag("--ignore-eos", flags->generate.ignore_stop, "never choose a token that ends the text");
  declare_grammar_flags(app, flags->grammar);
  declare_draft_flags(app, flags->engine.draft);
  flags->benchmark = app.add_option("--benchmark", flags->benchmark_tokens, "time N decode steps and write nothing")
                         ->type_name("[N]")
                         ->expected(0, 1)
                         ->check(whole_number(1, 1 << 20));
  app.footer(kExamples);
  return [flags] { return run(*flags); };
}

}  // namespace smelt
