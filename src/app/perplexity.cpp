// `smelt perplexity`: how well a model predicts a text: exp of the mean of
// -log p(token | tokens before it in its chunk).
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>

#include "app/checks.h"
#include "app/choices.h"
#include "app/chunk_logits.h"
#include "app/command.h"
#include "app/engine_flags.h"
#include "app/interrupt.h"
#include "app/sources.h"
#include "base/file.h"
#include "base/progress.h"
#include "evaluation/divergence.h"
#include "evaluation/logits_file.h"
#include "evaluation/token_loss.h"

namespace smelt {
namespace {

struct PerplexityFlags {
  EngineFlags engine;
  std::string text = "-";
  int64_t chunk = 512;
  int64_t parallel = 0;                                // chunks side by side, token by token; 0: read as prompts
  std::string save;                                    // a file for the probabilities of the second halves of chunks
  std::string kl_base;                                 // such a file of another run, to compare with
  std::string hellaswag, winogrande, multiple_choice;  // files of tasks in place of a text
  int64_t tasks = 0;                                   // 0: all
};

constexpr const char* kExplanation =
    "The text is cut into chunks of tokens, each read from an empty context; the rest of the last "
    "one is dropped and\n"
    "nothing is added. Two figures are printed with their standard errors, lower is better:\n"
    "  all_positions  scores every token of a chunk but the first\n"
    "  second_half    scores the tokens after the middle one, as llama-perplexity does\n"
    "With --kl-base the text is the one of that run, and the Kullback-Leibler divergence of its probabilities from\n"
    "this run's is printed for the second halves: mean, median, 99th percentile, greatest, and how often both have "
    "the\n"
    "same likeliest token. Files are of the form that llama-perplexity reads and writes.\n"
    "\n--hellaswag, --winogrande and --multiple-choice take a file of questions in place of a text, in the form that\n"
    "llama-perplexity has for it. The answer whose tokens are likeliest in the mean is the model's; accuracy is the\n"
    "share of questions where that is the right one, with its interval of 95 %.\n"
    "\nExample, what a quantisation costs:\n"
    "  smelt perplexity -m model-F16.gguf -f text.txt --save-logits base.logits\n"
    "  smelt perplexity -m model-Q4_K_M.gguf --kl-base base.logits\n"
    "\nExample, questions:\n"
    "  smelt perplexity -m model.gguf --hellaswag hellaswag_val_full.txt --tasks 400\n";

struct Mean {
  double sum = 0, squares = 0;
  int64_t count = 0;
  void add(double value) { sum += value, squares += value * value, ++count; }
  double mean() const { return sum / static_cast<double>(count); }
  double perplexity() const { return std::exp(mean()); }
  // The standard error of the perplexity, as if all losses were independent.
  double error() const {
    if (count < 2) return 0;
    const double variance = squares / static_cast<double>(count) - mean() * mean();
    return perplexity() * std::sqrt(std::max(0.0, variance) / static_cast<double>(count - 1));
  }
};

struct Score {
  Mean all_positions;
  Mean second_half;
  Divergence divergence;
};

// What is done with the logits of second halves besides scoring them.
struct Comparison {
  std::optional<LogitsWriter> save;
  std::optional<LogitsReader> base;
};

// The logits at `index` of a chunk predict its token at `index` + 1.
void add_logits(const ChunkRange& range, Comparison& comparison, Score& score, int64_t number, int64_t index,
                std::span<const float> logits) {
  if (index == range.length - 1) return;
  const double loss = negative_log_probability(logits, range.chunk(number)[static_cast<size_t>(index) + 1]);
  score.all_positions.add(loss);
  if (index < range.length / 2) return;
  score.second_half.add(loss);
  if (comparison.save) comparison.save->add(logits);
  if (comparison.base) score.divergence.add(comparison.base->log_probabilities(number, index), logits);
}

Status check_length(int64_t tokens, int64_t chunk, const std::string& path) {
  if (tokens >= chunk) return {};
  return Error{"[perplexity] " + path + ": " + std::to_string(tokens) + " tokens are fewer than one chunk of " +
               std::to_string(chunk) + "; take a longer text or a smaller --chunk"};
}

void print(const Score& score, int64_t chunks, int64_t chunk) {
  std::printf("chunks %lld of %lld tokens\n", static_cast<long long>(chunks), static_cast<long long>(chunk));
  std::printf("all_positions %.6f +- %.6f\n", score.all_positions.perplexity(), score.all_positions.error());
  std::printf("second_half %.6f +- %.6f\n", score.second_half.perplexity(), score.second_half.error());
}

void print(const Divergence& d) {
  std::printf("kl_mean %.6f +- %.6f\nkl_median %.6f\nkl_99 %.6f\nkl_greatest %.6f\nsame_top_token %.4f\n", d.mean(),
              d.error(), d.percentile(0.5), d.percentile(0.99), d.percentile(1), d.same_top());
}

// How the figure settles, for those who watch: chunks 1, 2, 4, 8, ... and after each tenth.
bool is_shown(int64_t done, int64_t chunks) {
  const int64_t tenth = std::max<int64_t>(1, chunks / 10);
  return done < chunks && ((done & (done - 1)) == 0 || done % tenth == 0);
}

void print_running(const Score& score, int64_t done, int64_t chunks) {
  std::fprintf(stderr, "chunk %lld of %lld: second_half %.4f +- %.4f\n", static_cast<long long>(done),
               static_cast<long long>(chunks), score.second_half.perplexity(), score.second_half.error());
}

// The tokens to score, whole chunks.
Result<std::vector<int32_t>> tokens_of(const PerplexityFlags& flags, const std::string& text, const OpenedModel& engine,
                                       const Comparison& comparison) {
  if (!comparison.base) {
    std::vector<int32_t> ids = engine.tokenizer->encode(text, false, false);
    SMELT_CHECK(check_length(static_cast<int64_t>(ids.size()), flags.chunk, flags.text));
    ids.resize(ids.size() / static_cast<size_t>(flags.chunk) * static_cast<size_t>(flags.chunk));
    return ids;
  }
  if (comparison.base->header().vocabulary != engine.session->vocabulary_size())
    return Error{"[perplexity] " + flags.kl_base + ": a vocabulary of " +
                 std::to_string(comparison.base->header().vocabulary) + " tokens, and this model has " +
                 std::to_string(engine.session->vocabulary_size()) + "; compare models of the same vocabulary"};
  return comparison.base->tokens();
}

void print_running(const ChoiceScore& score, int64_t tasks) {
  std::fprintf(stderr, "task %lld of %lld: accuracy %.4f\n", static_cast<long long>(score.done),
               static_cast<long long>(tasks), score.accuracy());
}

void print(const ChoiceScore& score) {
  const ChoiceScore::Interval interval = score.interval();
  std::printf("tasks %lld\nright %lld\naccuracy %.4f\ninterval_95 %.4f %.4f\n", static_cast<long long>(score.done),
              static_cast<long long>(score.right), score.accuracy(), interval.low, interval.high);
}

Result<std::vector<ChoiceTask>> tasks_of(const PerplexityFlags& flags) {
  if (!flags.hellaswag.empty()) return read_choice_tasks(flags.hellaswag, ChoiceForm::HellaSwag);
  if (!flags.winogrande.empty()) return read_choice_tasks(flags.winogrande, ChoiceForm::Winogrande);
  return read_choice_tasks(flags.multiple_choice, ChoiceForm::MultipleChoice);
}

// The first of equals.
size_t likeliest(const std::vector<double>& means) {
  return static_cast<size_t>(std::max_element(means.begin(), means.end()) - means.begin());
}

Result<int> run_tasks(const PerplexityFlags& flags) {
  SMELT_TRY(tasks, tasks_of(flags));
  if (flags.tasks && static_cast<size_t>(flags.tasks) < tasks.size()) tasks.resize(static_cast<size_t>(flags.tasks));
  SMELT_TRY(engine, open_engine(flags.engine));
  Progress progress("questions", tasks.size());
  ChoiceScore score;
  for (const ChoiceTask& task : tasks) {
    const auto means = score_answers(*engine.session, *engine.tokenizer, task, &interrupted());
    if (interrupted()) break;
    if (!means) return means.error();
    ++score.done;
    score.right += likeliest(*means) == task.right;
    progress.add(1);
    if (!is_shown(score.done, std::ssize(tasks))) continue;
    progress.hide();
    print_running(score, std::ssize(tasks));
  }
  progress.finish();
  if (interrupted())
    std::fprintf(stderr, "stopped: interrupted after %lld of %zu tasks\n", static_cast<long long>(score.done),
                 tasks.size());
  if (score.done > 0) print(score);
  return interrupted() ? kExitInterrupted : 0;
}

Result<int> run_text(PerplexityFlags flags) {
  Comparison comparison;
  std::string text;
  if (!flags.kl_base.empty()) {
    SMELT_TRY(base, LogitsReader::open(flags.kl_base));
    flags.chunk = base.header().chunk;
    comparison.base = std::move(base);
  } else {
    SMELT_TRY(read, read_stream(flags.text));
    text = std::move(read);
  }
  if (flags.engine.context == 0) flags.engine.context = flags.chunk;
  SMELT_TRY(engine, open_engine(flags.engine, OpenWatch{}, std::max<int64_t>(1, flags.parallel)));
  if (!flags.save.empty()) {
    std::vector<std::string> sources = files_of(*engine.file);
    sources.push_back(comparison.base ? flags.kl_base : flags.text);
    SMELT_CHECK(check_is_no_source("perplexity", flags.save, sources));
  }
  SMELT_TRY(ids, tokens_of(flags, text, engine, comparison));
  const int64_t chunks = static_cast<int64_t>(ids.size()) / flags.chunk;
  if (!flags.save.empty()) {
    SMELT_TRY(writer, LogitsWriter::create(flags.save, {flags.chunk, engine.session->vocabulary_size(), chunks}, ids));
    comparison.save = std::move(writer);
  }
  Progress progress("perplexity", static_cast<uint64_t>(chunks));
  Score score;
  ChunkRange range{.ids = ids, .length = flags.chunk};
  const auto sink = [&](int64_t number, int64_t index, std::span<const float> logits) {
    add_logits(range, comparison, score, number, index, logits);
  };
  int64_t done = 0;
  while (done < chunks) {
    range.first = done, range.count = std::min(std::max<int64_t>(1, flags.parallel), chunks - done);
    const Status scored = flags.parallel ? decode_chunks(*engine.session, range, sink, &interrupted())
                                         : read_chunks(*engine.session, range, sink, &interrupted());
    if (interrupted()) break;
    SMELT_CHECK(scored);
    done += range.count;
    progress.add(static_cast<uint64_t>(range.count));
    if (!is_shown(done, chunks)) continue;
    progress.hide();
    print_running(score, done, chunks);
  }
  progress.finish();
  if (interrupted())
    std::fprintf(stderr, "stopped: interrupted after %lld of %lld chunks\n", static_cast<long long>(done),
                 static_cast<long long>(chunks));
  else if (comparison.save)
    SMELT_CHECK(comparison.save->publish());
  if (done > 0) print(score, done, flags.chunk);
  if (score.divergence.positions() > 0) print(score.divergence);
  return interrupted() ? kExitInterrupted : 0;
}

Result<int> run(const PerplexityFlags& flags) {
  const bool has_tasks = !(flags.hellaswag + flags.winogrande + flags.multiple_choice).empty();
  return has_tasks ? run_tasks(flags) : run_text(flags);
}

}  // namespace

Action declare_perplexity(CLI::App& app) {
  const auto flags = std::make_shared<PerplexityFlags>();
  app.add_option("-f,--file", flags->text, "the text to predict; -: standard input")->type_name("FILE");
  app.add_option("--chunk", flags->chunk, "tokens in a chunk")->type_name("N")->check(whole_number(4, 1 << 20));
  CLI::Option* parallel =
      app.add_option("--parallel", flags->parallel,
                     "so many chunks side by side, token by token, as answers are generated; 0: each as a prompt")
          ->type_name("N")
          ->check(whole_number(0, 64));
  app.add_option("--save-logits", flags->save, "keep the probabilities of this run for a later --kl-base")
      ->type_name("FILE")
      ->excludes(parallel);
  app.add_option("--kl-base,--kl-divergence-base", flags->kl_base,
                 "compare with the run that wrote this file; its text is taken")
      ->type_name("FILE");
  const std::array questions = {
      app.add_option("--hellaswag", flags->hellaswag, "questions of six lines each: which of four texts ends right?"),
      app.add_option("--winogrande", flags->winogrande, "questions of a line each: which of two words fills the gap?"),
      app.add_option("--multiple-choice", flags->multiple_choice, "questions with any number of answers (binary)")};
  for (CLI::Option* one : questions) {
    one->type_name("FILE");
    for (CLI::Option* other : questions)
      if (one != other) one->excludes(other);
  }
  app.add_option("--tasks", flags->tasks, "of these questions only the first N; 0: all")
      ->type_name("N")
      ->check(whole_number(0, 1 << 30));
  declare_engine_and_device_flags(app, flags->engine);
  app.footer(kExplanation);
  return [flags] { return run(*flags); };
}

}  // namespace smelt
