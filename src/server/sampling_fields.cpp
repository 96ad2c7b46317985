#include "server/sampling_fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <random>

#include "engine/dry_breaks.h"

namespace smelt {
namespace {

constexpr size_t kMostBiases = 4096, kMostBreakers = 64, kLongestBreaker = 64;
constexpr double kMostBias = 1e6;

void read_float(Fields& fields, const char* name, double least, double most, float& value) {
  value = static_cast<float>(fields.number(name, least, most, value));
}

void read_int(Fields& fields, const char* name, int64_t least, int32_t& value) {
  value = static_cast<int32_t>(fields.whole(name, least, INT32_MAX, value));
}

DryOptions read_dry(Fields& fields, const ServedModel& model) {
  DryOptions dry = model.sampling().dry;
  read_float(fields, "dry_multiplier", 0, 100, dry.multiplier);
  read_float(fields, "dry_base", 1, 100, dry.base);
  read_int(fields, "dry_allowed_length", 1, dry.allowed_length);
  read_int(fields, "dry_penalty_last_n", -1, dry.last_n);
  const bool given = fields.find("dry_sequence_breakers") != nullptr;
  const auto breakers = fields.texts("dry_sequence_breakers", kMostBreakers, kLongestBreaker);
  if (dry.multiplier > 0 && (given || dry.breaks.empty()) && !fields.problem())
    dry.breaks = dry_breaks(model.tokenizer(), given ? breakers : usual_dry_breakers());
  return dry;
}

// The tokens that a key of logit_bias names: an id, or a text.
std::vector<int32_t> tokens_of(const Json& key, const ServedModel& model) {
  int64_t id = -1;
  if (key.is_number_unsigned()) id = key.get<int64_t>();
  if (key.is_string()) {
    const auto& text = key.get_ref<const std::string&>();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
    if (error != std::errc() || end != text.data() + text.size()) return model.tokenizer().encode(text, false, false);
  }
  if (id < 0 || id >= model.tokenizer().size()) return {};
  return {static_cast<int32_t>(id)};
}

// {"id": bias}, or llama.cpp's [[id or text, bias or false], ...].
void read_bias(Fields& fields, const ServedModel& model, SamplerOptions& sampler) {
  const Json* given = fields.find("logit_bias");
  if (!given) return;
  const auto fail = [&] {
    fields.fail("logit_bias", "expected an object of up to " + std::to_string(kMostBiases) +
                                  " token ids, each with a number, or a list of [token, number or false]");
  };
  if ((!given->is_object() && !given->is_array()) || given->size() > kMostBiases) return fail();
  const auto add = [&](const Json& key, const Json& value) {
    const std::vector<int32_t> tokens = tokens_of(key, model);
    if (tokens.empty()) return fail();
    const bool is_number = value.is_number() && std::abs(value.get<double>()) <= kMostBias;
    if (!is_number && value != false) return fail();
    for (int32_t token : tokens) {
      if (is_number)
        sampler.bias.push_back({token, value.get<float>()});
      else
        sampler.banned.push_back(token);
    }
  };
  if (given->is_object()) {
    for (const auto& [key, value] : given->items()) add(key, value);
  } else {
    for (const Json& pair : *given) {
      if (!pair.is_array() || pair.size() != 2) return fail();
      add(pair[0], pair[1]);
    }
  }
}

void refuse_what_is_missing(Fields& fields) {
  fields.refuse("mirostat", 0, "use min_p or typical_p");
  fields.refuse("top_n_sigma", -1, "use min_p");
  fields.refuse("n_probs", 0, "use logprobs");
  fields.refuse("samplers", nullptr, "their order is fixed; leave it out");
}

}  // namespace

SamplerOptions read_sampler(Fields& fields, const ServedModel& model) {
  refuse_what_is_missing(fields);
  SamplerOptions s = model.sampling();
  read_float(fields, "temperature", 0, 100, s.temperature);
  read_float(fields, "dynatemp_range", 0, 100, s.temperature_range);
  read_float(fields, "dynatemp_exponent", 0, 100, s.temperature_exponent);
  read_int(fields, "top_k", -1, s.top_k);
  read_float(fields, "top_p", 0, 1, s.top_p);
  read_float(fields, "min_p", 0, 1, s.min_p);
  read_float(fields, "typical_p", 0, 1, s.typical_p);
  read_float(fields, "xtc_probability", 0, 1, s.xtc_probability);
  read_float(fields, "xtc_threshold", 0, 1, s.xtc_threshold);
  read_float(fields, "repeat_penalty", 0.01, 100, s.repeat_penalty);
  read_int(fields, "repeat_last_n", -1, s.repeat_last_n);
  read_float(fields, "presence_penalty", -100, 100, s.presence_penalty);
  read_float(fields, "frequency_penalty", -100, 100, s.frequency_penalty);
  s.dry = read_dry(fields, model);
  read_bias(fields, model, s);
  if (fields.flag("ignore_eos", false)) s.banned.insert(s.banned.end(), model.stops().begin(), model.stops().end());
  std::sort(s.banned.begin(), s.banned.end());
  const int64_t seed = fields.whole("seed", INT64_MIN, INT64_MAX, -1);
  s.seed = seed == -1 ? model.seed().value_or(std::random_device{}()) : static_cast<uint64_t>(seed);
  return s;
}

}  // namespace smelt
