#include "app/bench_drafts.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/bench_sample.h"
#include "app/bench_table.h"
#include "app/command.h"
#include "app/generate.h"
#include "app/interrupt.h"
#include "base/file.h"
#include "base/progress.h"
#include "runtime/target.h"

namespace smelt {
namespace {

constexpr size_t kPromptTokens = 48;  // of a piece of a file

// What texts begin with where no file is given.
constexpr const char* kOpenings[] = {"Once upon a time, there was a little girl who",
                                     "One day, a boy and his dog went to the", "The old man sat down by the river and",
                                     "Mom said that it was time to",
                                     "There was a big tree in the garden. Every morning"};

struct DraftRow {
  int64_t length = 0;                 // of drafts; 0: as many as pay
  std::vector<double> rates, ratios;  // tokens per second with drafts, and as times those without in the same round
  DraftCounts counts;                 // of all rounds
};

void add(DraftCounts& sum, const DraftCounts& counts) {
  sum.places.resize(std::max(sum.places.size(), counts.places.size()));
  for (size_t i = 0; i < counts.places.size(); ++i) {
    sum.places[i].drafted += counts.places[i].drafted;
    sum.places[i].accepted += counts.places[i].accepted;
  }
  sum.steps += counts.steps;
  sum.tokens += counts.tokens;
}

double tokens_a_step(const DraftCounts& counts) {
  return counts.steps > 0 ? static_cast<double>(counts.tokens) / static_cast<double>(counts.steps) : 0;
}

std::string right_by_place(const DraftCounts& counts) {
  std::string out;
  for (const DraftCounts::Place& place : counts.places)
    if (place.drafted > 0)
      out += text_of("%s%.0f %%", out.empty() ? "" : ", ",
                     100 * static_cast<double>(place.accepted) / static_cast<double>(place.drafted));
  return out;
}

// One configuration: a model, and its drafts.
class DraftBench {
 public:
  DraftBench(const BenchFlags& flags, const BenchConfig& config) : flags_(flags), config_(config) {}

  Status open(int64_t tokens) {
    tokens_ = tokens;
    EngineFlags engine = config_.engine;
    engine.draft = flags_.draft;
    engine.context = static_cast<int64_t>(kPromptTokens) + tokens;
    SMELT_TRY(opened, open_engine(engine));
    opened_ = std::move(opened);
    return read_prompts();
  }

  // Lengths that fill a plan, and the greatest one.
  std::vector<int64_t> lengths() const {
    const int64_t most = most_drafts(flags_.draft);
    std::vector<int64_t> out;
    for (int64_t rows = 2; rows - 1 < most; rows *= 2) out.push_back(rows - 1);
    out.push_back(most);
    if (!flags_.draft.always) out.push_back(0);
    return out;
  }

  Result<std::vector<DraftRow>> run(Progress& progress) {
    std::vector<DraftRow> rows;
    for (int64_t length : lengths()) rows.push_back({.length = length, .rates = {}, .ratios = {}, .counts = {}});
    for (int64_t round = flags_.no_warmup ? 0 : -1; round < flags_.repetitions; ++round) {
      const std::vector<int32_t>& prompt = prompts_[static_cast<size_t>(std::max<int64_t>(round, 0)) % prompts_.size()];
      SMELT_TRY(plain, write(prompt, nullptr));
      for (DraftRow& row : rows) {
        Speculation speculation(opened_.speculation->drafter(), options_of(row.length));
        SMELT_TRY(drafted, write(prompt, &speculation));
        progress.add(1);
        if (!flags_.draft.draw && drafted.tokens != plain.tokens)
          return Error{"[bench] drafts have changed a text; please report this"};
        if (round < 0) continue;
        row.rates.push_back(drafted.rate);
        row.ratios.push_back(drafted.rate / plain.rate);
        add(row.counts, speculation.counts());
      }
      if (round >= 0) rates_.push_back(plain.rate);
    }
    return rows;
  }

  double plain_rate() const { return sample_of(rates_).median; }
  int threads() const { return thread_count(config_.engine.threads); }

 private:
  struct Text {
    std::vector<int32_t> tokens;
    double rate = 0;  // tokens per second behind the first one
  };

  DraftOptions options_of(int64_t length) const {
    return {.most = length ? length : most_drafts(flags_.draft),
            .least = flags_.draft.least.value_or(0),
            .adaptive = length == 0};
  }

  Status read_prompts() {
    std::vector<std::vector<int32_t>> texts;
    if (flags_.text.empty()) {
      for (const char* opening : kOpenings) texts.push_back(opened_.tokenizer->encode(opening));
    } else {
      SMELT_TRY(text, read_file(flags_.text));
      const std::vector<int32_t> ids = opened_.tokenizer->encode(text);
      for (size_t begin = 0; begin + kPromptTokens <= ids.size(); begin += kPromptTokens)
        texts.emplace_back(ids.begin() + static_cast<std::ptrdiff_t>(begin),
                           ids.begin() + static_cast<std::ptrdiff_t>(begin + kPromptTokens));
    }
    for (std::vector<int32_t>& text : texts)
      if (!text.empty() && text.size() <= kPromptTokens) prompts_.push_back(std::move(text));
    if (prompts_.empty())
      return Error{"[bench] --text " + flags_.text + ": it has fewer than " + std::to_string(kPromptTokens) +
                   " tokens; give a longer one"};
    return {};
  }

  // The most likely tokens; with drawn drafts drawn ones.
  Result<Text> write(const std::vector<int32_t>& prompt, Speculation* speculation) {
    opened_.session->reset();
    Sampler sampler({.temperature = flags_.draft.draw ? 0.8f : 0, .seed = 1});
    for (int32_t token : prompt) sampler.accept(token);
    Text out;
    const auto keep = [&](int32_t token) {
      out.tokens.push_back(token);
      return true;
    };
    const GenerateOptions options{.max_tokens = tokens_, .ignore_stop = true, .speculation = speculation};
    SMELT_TRY(done, generate(*opened_.session, *opened_.tokenizer, sampler, prompt, options, keep, interrupted()));
    if (interrupted()) return Error{"[bench] interrupted"};
    if (done.decode_seconds > 0) out.rate = static_cast<double>(done.decode_steps) / done.decode_seconds;
    return out;
  }

  const BenchFlags& flags_;
  const BenchConfig& config_;
  int64_t tokens_ = 0;
  OpenedModel opened_;
  std::vector<std::vector<int32_t>> prompts_;
  std::vector<double> rates_;  // without drafts
};

std::vector<Column> columns(size_t model_width) {
  return {{"model", std::max<size_t>(model_width, 5), false},
          {"threads", 7, true},
          {"test", 7, true},
          {"drafts", 11, true},
          {"tok/s", 17, true},
          {"without", 8, true},
          {"times that", 10, true},
          {"tokens a step", 13, true},
          {"right by place", 24, false}};
}

std::string drafts_text(const DraftRow& row) { return row.length ? std::to_string(row.length) : "as they pay"; }

std::string line_of(const DraftRow& row, const DraftBench& bench, const BenchConfig& config, int64_t tokens,
                    const std::vector<Column>& list) {
  const Sample rate = sample_of(row.rates);
  return table_line({config.model_name(), std::to_string(bench.threads()), "tg" + std::to_string(tokens),
                     drafts_text(row), text_of("%.1f ± %.1f", rate.mean, rate.deviation),
                     text_of("%.1f", bench.plain_rate()), text_of("%.2fx", sample_of(row.ratios).median),
                     text_of("%.2f", tokens_a_step(row.counts)), right_by_place(row.counts)},
                    list);
}

nlohmann::ordered_json json_of(const DraftRow& row, const DraftBench& bench, const BenchConfig& config,
                               int64_t tokens) {
  nlohmann::ordered_json drafted = nlohmann::ordered_json::array(), accepted = drafted;
  for (const DraftCounts::Place& place : row.counts.places) {
    drafted.push_back(place.drafted);
    accepted.push_back(place.accepted);
  }
  return {{"model", config.model_name()},
          {"threads", bench.threads()},
          {"test", "tg" + std::to_string(tokens)},
          {"drafts", row.length},
          {"is_adaptive", row.length == 0},
          {"tokens_per_second", sample_of(row.rates).median},
          {"samples", row.rates},
          {"tokens_per_second_without", bench.plain_rate()},
          {"ratio", sample_of(row.ratios).median},
          {"ratios", row.ratios},
          {"tokens_per_step", tokens_a_step(row.counts)},
          {"drafted_by_place", drafted},
          {"accepted_by_place", accepted}};
}

}  // namespace

Result<int> run_draft_bench(const BenchFlags& flags) {
  SMELT_CHECK(check_draft_flags(flags.draft));
  SMELT_TRY(configs, configs_of(flags));
  size_t width = 0;
  for (const BenchConfig& config : configs) {
    if (!config.synthetic.empty())
      return Error{"[bench] --synthetic " + config.synthetic + ": drafts need a model that writes texts; name a file"};
    width = std::max(width, config.model_name().size());
  }
  const std::vector<Column> list = columns(width);
  const bool is_table = flags.output == "md";
  DataRows data(flags.output);
  bool begun = false;
  for (const BenchConfig& config : configs)
    for (int64_t tokens : flags.tokens) {
      if (tokens < 2) continue;  // the first one comes with the prompt
      DraftBench bench(flags, config);
      SMELT_CHECK(bench.open(tokens));
      const auto rounds = static_cast<uint64_t>(flags.repetitions + (flags.no_warmup ? 0 : 1));
      Progress progress("benchmark runs", rounds * bench.lengths().size());
      auto rows = bench.run(progress);
      progress.finish();
      if (interrupted()) return kExitInterrupted;
      if (!rows) return rows.error();
      if (!std::exchange(begun, true)) std::fputs((is_table ? table_head(list) : data.begin()).c_str(), stdout);
      for (const DraftRow& row : *rows)
        std::fputs(
            (is_table ? line_of(row, bench, config, tokens, list) : data.row(json_of(row, bench, config, tokens)))
                .c_str(),
            stdout);
    }
  if (!begun) return Error{"[bench] drafts are measured on -n tokens, which have to be 2 or more"};
  if (!is_table) std::fputs(data.end().c_str(), stdout);
  return 0;
}

}  // namespace smelt
