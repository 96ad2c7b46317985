#include "app/sampling_flags.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <random>

#include "app/checks.h"
#include "engine/dry_breaks.h"

namespace smelt {
namespace {

template <class T>
void take_if_given(T& setting, const std::optional<T>& given) {
  if (given) setting = *given;
}

// "ID+BIAS" or "ID-BIAS", as llama.cpp has it.
std::string problem_of_bias(const std::string& text) {
  const size_t sign = text.find_first_of("+-");
  const bool has_id = sign != 0 && sign != text.npos && text.find_first_not_of("0123456789") == sign;
  if (!has_id || sign > 9) return "expected a token id, + or -, and a number, as in 29905-1.5";
  return number(0, 1e6)(text.substr(sign + 1));
}

Result<LogitBias> bias_of(const std::string& text, const Tokenizer& tokenizer) {
  const size_t sign = text.find_first_of("+-");
  const int32_t id = std::atoi(text.c_str());
  if (id >= tokenizer.size())
    return Error{"[sampling] --logit-bias " + text + ": the vocabulary has tokens 0 to " +
                 std::to_string(tokenizer.size() - 1)};
  return LogitBias{id, std::strtof(text.c_str() + sign, nullptr)};
}

void declare_usual(CLI::App& app, SamplingFlags& flags, const std::string& otherwise) {
  app.add_option("--temp", flags.temperature,
                 "how freely to choose; 0: always the most likely token; without this and "
                 "the next three: " +
                     otherwise)
      ->type_name("X")
      ->check(number(0, 100));
  app.add_option("--top-k", flags.top_k, "choose among the K most likely tokens; 0: all")
      ->type_name("K")
      ->check(whole_number(0, INT32_MAX));
  app.add_option("--top-p", flags.top_p, "choose among the tokens that make up this probability; 1: all")
      ->type_name("P")
      ->check(number(0, 1));
  app.add_option("--min-p", flags.min_p, "drop tokens less likely than P times the best; 0: none")
      ->type_name("P")
      ->check(number(0, 1));
  app.add_option("--seed", flags.seed, "the same seed gives the same text; -1: a new one each time")
      ->type_name("N")
      ->check(whole_number(-1, INT64_MAX));
}

void declare_penalties(CLI::App& app, SamplingFlags& flags) {
  app.add_option("--repeat-penalty", flags.repeat_penalty, "over 1: make recent tokens less likely; 1: off")
      ->type_name("X")
      ->check(number(0.01, 100));
  app.add_option("--presence-penalty", flags.presence_penalty, "take this from the logits of recent tokens")
      ->type_name("X")
      ->check(number(-100, 100));
  app.add_option("--frequency-penalty", flags.frequency_penalty, "the same, as often as they occurred")
      ->type_name("X")
      ->check(number(-100, 100));
  app.add_option("--repeat-last-n", flags.repeat_last_n, "how many tokens are recent, 64 without it; -1: all")
      ->type_name("N")
      ->check(whole_number(-1, INT32_MAX));
  app.add_option("--logit-bias", flags.biases, "add a number to the logit of a token, as in 29905+1.5; may be repeated")
      ->type_name("ID+X")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(problem_of_bias);
}

void declare_dry(CLI::App& app, SamplingFlags& flags) {
  app.add_option("--dry-multiplier", flags.dry_multiplier,
                 "make tokens less likely that would go on with a repetition (DRY); 0: off")
      ->type_name("X")
      ->check(number(0, 100));
  app.add_option("--dry-base", flags.dry_base, "how that grows with the length of the repetition; 1.75 without it")
      ->type_name("X")
      ->check(number(1, 100));
  app.add_option("--dry-allowed-length", flags.dry_allowed_length, "shorter repetitions are free; 2 without it")
      ->type_name("N")
      ->check(whole_number(1, INT32_MAX));
  app.add_option("--dry-penalty-last-n", flags.dry_last_n, "how many recent tokens DRY looks at; -1: all")
      ->type_name("N")
      ->check(whole_number(-1, INT32_MAX));
  app.add_option("--dry-sequence-breaker", flags.dry_breakers,
                 "no repetition goes across tokens with this text; may be repeated; without it: a new line, : \" and *")
      ->type_name("TEXT")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(not_empty());
}

void declare_others(CLI::App& app, SamplingFlags& flags) {
  app.add_option("--typical", flags.typical_p, "choose among the most typical tokens that make up this; 1: all")
      ->type_name("P")
      ->check(number(0, 1));
  app.add_option("--xtc-probability", flags.xtc_probability,
                 "how often to drop all but the last of several likely tokens (XTC); 0: never")
      ->type_name("P")
      ->check(number(0, 1));
  app.add_option("--xtc-threshold", flags.xtc_threshold, "from which probability on a token is likely; 0.1 without it")
      ->type_name("P")
      ->check(number(0, 1));
  app.add_option("--dynatemp-range", flags.temperature_range,
                 "how far the temperature moves up and down with what the model is unsure of; 0: not at all")
      ->type_name("X")
      ->check(number(0, 100));
  app.add_option("--dynatemp-exp", flags.temperature_exponent, "to which power that is taken; 1 without it")
      ->type_name("X")
      ->check(number(0, 100));
}

}  // namespace

void declare_sampling_flags(CLI::App& app, SamplingFlags& flags, const std::string& otherwise) {
  declare_usual(app, flags, otherwise);
  declare_penalties(app, flags);
  declare_dry(app, flags);
  declare_others(app, flags);
}

Result<SamplerOptions> sampling_of(const SamplingFlags& flags, SamplerOptions usual, const Tokenizer& tokenizer) {
  SamplerOptions s = std::move(usual);
  take_if_given(s.temperature, flags.temperature);
  take_if_given(s.temperature_range, flags.temperature_range);
  take_if_given(s.temperature_exponent, flags.temperature_exponent);
  take_if_given(s.top_k, flags.top_k);
  take_if_given(s.top_p, flags.top_p);
  take_if_given(s.min_p, flags.min_p);
  take_if_given(s.typical_p, flags.typical_p);
  take_if_given(s.xtc_probability, flags.xtc_probability);
  take_if_given(s.xtc_threshold, flags.xtc_threshold);
  take_if_given(s.repeat_penalty, flags.repeat_penalty);
  take_if_given(s.repeat_last_n, flags.repeat_last_n);
  take_if_given(s.presence_penalty, flags.presence_penalty);
  take_if_given(s.frequency_penalty, flags.frequency_penalty);
  take_if_given(s.dry.multiplier, flags.dry_multiplier);
  take_if_given(s.dry.base, flags.dry_base);
  take_if_given(s.dry.allowed_length, flags.dry_allowed_length);
  take_if_given(s.dry.last_n, flags.dry_last_n);
  if (s.dry.multiplier > 0)
    s.dry.breaks = dry_breaks(tokenizer, flags.dry_breakers.empty() ? usual_dry_breakers() : flags.dry_breakers);
  for (const std::string& text : flags.biases) {
    SMELT_TRY(bias, bias_of(text, tokenizer));
    s.bias.push_back(bias);
  }
  const int64_t seed = flags.seed.value_or(-1);
  s.seed = seed >= 0 ? static_cast<uint64_t>(seed) : std::random_device{}();
  return s;
}

}  // namespace smelt
