// Penalties, filters and logprobs against what their definitions say, written out plainly.
#include "engine/sampler_filters.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "engine/logprobs.h"
#include "engine/sampler.h"

using namespace smelt;

namespace {

using Tokens = std::vector<int32_t>;

// Candidates with these probabilities, which are given best first.
std::vector<Candidate> likely(const std::vector<double>& probabilities) {
  std::vector<Candidate> list;
  for (double p : probabilities) list.push_back({static_cast<int32_t>(list.size()), static_cast<float>(std::log(p))});
  return list;
}

Tokens tokens(const std::vector<Candidate>& list) {
  Tokens result;
  for (const Candidate& c : list) result.push_back(c.token);
  return result;
}

SamplerOptions greedy() { return {.temperature = 0}; }

// The token that is best behind `history`.
int32_t best(const SamplerOptions& options, const Tokens& history, const std::vector<float>& logits) {
  Sampler sampler(options);
  for (int32_t token : history) sampler.accept(token);
  return *sampler.sample(logits);
}

// DRY by its definition: every earlier place, every length.
std::vector<DryPenalty> plain_dry(const DryOptions& o, const Tokens& all) {
  const size_t n = o.last_n < 0 ? all.size() : std::min(all.size(), static_cast<size_t>(o.last_n));
  const Tokens text(all.end() - static_cast<std::ptrdiff_t>(n), all.end());
  const auto breaks = [&](int32_t t) { return std::count(o.breaks.begin(), o.breaks.end(), t) > 0; };
  std::map<int32_t, size_t> longest;
  for (size_t next = 1; next < n; ++next) {
    size_t length = 0;
    while (length < next && text[next - 1 - length] == text[n - 1 - length] && !breaks(text[n - 1 - length])) ++length;
    if (length >= static_cast<size_t>(o.allowed_length) && !breaks(text[next]))
      longest[text[next]] = std::max(longest[text[next]], length);
  }
  std::vector<DryPenalty> penalties;
  for (const auto& [token, length] : longest)
    penalties.push_back({token, o.multiplier * std::pow(o.base, float(length) - float(o.allowed_length))});
  return penalties;
}

}  // namespace

TEST_CASE("the best whose probabilities reach p are the same whether all are sorted or only they") {
  std::mt19937 random(3);
  for (const size_t size : {1, 2, 127, 128, 600, 5000, 40000})
    for (const float spread : {0.0f, 0.5f, 4.0f})
      for (const float p : {0.0f, 0.3f, 0.95f, 0.9999f, 1.0f}) {
        std::normal_distribution<float> logit(0, spread > 0 ? spread : 1);
        std::vector<Candidate> all;
        for (size_t i = 0; i < size; ++i) all.push_back({static_cast<int32_t>(i), spread > 0 ? logit(random) : 1.0f});
        std::shuffle(all.begin(), all.end(), random);
        std::vector<Candidate> wanted = all, got = all;
        keep_top_k(wanted, 0);
        keep_top_p(wanted, p);
        sort_top_p(got, p);
        CAPTURE(size);
        CAPTURE(spread);
        CAPTURE(p);
        CHECK(got == wanted);
      }
}

TEST_CASE("presence is punished once, frequency as often as a token occurred") {
  SamplerOptions presence = greedy(), frequency = greedy();
  presence.presence_penalty = 1;
  frequency.frequency_penalty = 1;
  const std::vector<float> logits{5, 3.5f, 0};
  CHECK(best(presence, {}, logits) == 0);
  CHECK(best(presence, {0, 0, 0}, logits) == 0);  // 4
  CHECK(best(presence, {0, 0, 0}, {5, 4.5f, 0}) == 1);
  CHECK(best(frequency, {0}, logits) == 0);     // 4
  CHECK(best(frequency, {0, 0}, logits) == 1);  // 3
  frequency.repeat_last_n = 1;
  CHECK(best(frequency, {0, 0}, logits) == 0);
  SamplerOptions reward = greedy();
  reward.presence_penalty = -2;
  CHECK(best(reward, {1}, logits) == 1);
}

TEST_CASE("a bias is added to the logits, before penalties") {
  SamplerOptions options = greedy();
  options.bias = {{1, 3}, {2, -100}, {-1, 50}, {1000, 50}};
  CHECK(best(options, {}, {1, 0, 9}) == 1);
  options.bias = {{2, -std::numeric_limits<float>::infinity()}};
  CHECK(best(options, {}, {1, 0, 9}) == 0);
  options.bias = {{0, 2}};
  options.repeat_penalty = 2;
  CHECK(best(options, {0}, {2, 2.5f, 0}) == 1);  // (2 + 2) / 2
}

TEST_CASE("typical keeps what is closest to the expected surprise") {
  // Entropy of 0.5 0.2 0.2 0.1 is 1.22; surprises are 0.69, 1.61, 1.61, 2.30: the nearest are 1, 2, then 0, then 3.
  const auto kept = [](float p) {
    auto list = likely({0.5, 0.2, 0.2, 0.1});
    keep_typical(list, p);
    return tokens(list);
  };
  CHECK(kept(0) == Tokens{1});
  CHECK(kept(0.3f) == Tokens{1, 2});
  CHECK(kept(0.5f) == Tokens{0, 1, 2});
  CHECK(kept(0.95f) == Tokens{0, 1, 2, 3});
  CHECK(kept(1) == Tokens{0, 1, 2, 3});
}

TEST_CASE("XTC drops all but the last of the likely ones") {
  const auto kept = [](float threshold) {
    auto list = likely({0.4, 0.3, 0.2, 0.1});
    drop_top_choices(list, threshold);
    return tokens(list);
  };
  CHECK(kept(0.15f) == Tokens{2, 3});
  CHECK(kept(0.25f) == Tokens{1, 2, 3});
  CHECK(kept(0.35f) == Tokens{0, 1, 2, 3});  // one alone is no choice
  CHECK(kept(0.5f) == Tokens{0, 1, 2, 3});
  CHECK(kept(0.0f) == Tokens{3});
}

TEST_CASE("XTC acts as often as its probability says") {
  SamplerOptions options{.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 3};
  options.xtc_threshold = 0.3f;
  options.xtc_probability = 0.25f;
  std::vector<float> logits;
  for (const Candidate& c : likely({0.6, 0.4})) logits.push_back(c.logit);
  Sampler sampler(options);
  int first = 0;
  for (int i = 0; i < 100'000; ++i) first += *sampler.sample(logits) == 0;
  CHECK(first / 1e5 == doctest::Approx(0.75 * 0.6).epsilon(0.02));
  options.xtc_probability = 0;  // off: the same draws as without it
  SamplerOptions without{.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 3};
  Sampler a(options), b(without);
  for (int i = 0; i < 100; ++i) CHECK(*a.sample(logits) == *b.sample(logits));
}

TEST_CASE("the dynamic temperature follows the entropy") {
  CHECK(dynamic_temperature(likely({0.25, 0.25, 0.25, 0.25}), 1, 0.5, 1) == doctest::Approx(1.5));
  CHECK(dynamic_temperature(likely({1, 1e-30, 1e-30, 1e-30}), 1, 0.5, 1) == doctest::Approx(0.5));
  CHECK(dynamic_temperature(likely({1}), 1, 0.5, 1) == doctest::Approx(0.5));
  CHECK(dynamic_temperature(likely({1}), 0.2, 0.5, 1) == 0);
  // 0.9 and 0.1: an entropy of 0.325 of 0.693.
  CHECK(dynamic_temperature(likely({0.9, 0.1}), 1, 0.5, 1) == doctest::Approx(0.5 + 0.46900));
  CHECK(dynamic_temperature(likely({0.9, 0.1}), 1, 0.5, 2) == doctest::Approx(0.5 + 0.46900 * 0.46900));
  SamplerOptions options{.temperature = 0.1f, .temperature_range = 0.5f, .top_k = 1, .seed = 1};
  CHECK(best(options, {}, {1, 3, 2}) == 1);
}

TEST_CASE("DRY punishes what goes on with a repetition, the longer the more") {
  const DryOptions options{.multiplier = 1, .base = 2, .allowed_length = 2};
  const Tokens text{1, 2, 3, 4, 9, 1, 2, 3};
  CHECK(dry_penalties(options, text) == std::vector<DryPenalty>{{4, 2}});
  CHECK(dry_penalties(options, Tokens{1, 2, 9, 1}).empty());  // one token is allowed
  DryOptions broken = options;
  broken.breaks = {2};
  CHECK(dry_penalties(broken, text).empty());  // "3" alone goes on behind the break
  broken.breaks = {4};
  CHECK(dry_penalties(broken, text).empty());
  DryOptions near = options;
  near.last_n = 5;
  CHECK(dry_penalties(near, text).empty());
  CHECK(dry_penalties(options, Tokens{}).empty());
  CHECK(dry_penalties({.multiplier = 1, .base = 2}, Tokens(10'000, 7))[0].penalty == doctest::Approx(1e30));

  SamplerOptions sampler = greedy();
  sampler.dry = options;
  CHECK(best(sampler, text, {0, 0, 0, 0, 5, 3.5f}) == 5);
  sampler.dry.multiplier = 0;
  CHECK(best(sampler, text, {0, 0, 0, 0, 5, 3.5f}) == 4);
}

TEST_CASE("DRY is what its definition says, on random texts of few tokens") {
  std::mt19937 random(11);
  int found = 0;
  for (int round = 0; round < 3000; ++round) {
    DryOptions options{.multiplier = 0.5f, .base = 1.5f};
    options.allowed_length = 1 + static_cast<int32_t>(random() % 3);
    options.last_n = random() % 3 ? -1 : static_cast<int32_t>(random() % 20);
    if (random() % 2) options.breaks = {0};
    Tokens text(random() % 40);
    for (int32_t& token : text) token = static_cast<int32_t>(random() % 4);
    const auto got = dry_penalties(options, text), expected = plain_dry(options, text);
    REQUIRE(got.size() == expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      CHECK(got[i].token == expected[i].token);
      CHECK(got[i].penalty == doctest::Approx(expected[i].penalty));
    }
    found += static_cast<int>(got.size());
  }
  CHECK(found > 1000);
}

TEST_CASE("logprobs are those of the logits, best first") {
  const std::vector<float> logits{1, 3, 3, -200};
  const double whole = std::log(std::exp(1.0) + 2 * std::exp(3.0));
  const Logprobs found = logprobs_of(logits, 0, 3);
  CHECK(found.chosen.token == 0);
  CHECK(found.chosen.logprob == doctest::Approx(1 - whole));
  REQUIRE(found.top.size() == 3);
  CHECK(found.top[0].token == 1);
  CHECK(found.top[1].token == 2);
  CHECK(found.top[1].logprob == doctest::Approx(3 - whole));
  CHECK(found.top[2] == found.chosen);
  CHECK(logprobs_of(logits, 3, 0).top.empty());
  CHECK(logprobs_of(logits, 3, 100).top.size() == 4);
  CHECK(logprobs_of(std::vector<float>{3e38f, -3e38f}, 0, 1).top[0].logprob == 0);
}
