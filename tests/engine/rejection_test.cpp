// The rejection rule: texts with drafts are as likely as without. All draws come from fixed seeds.
#include "engine/rejection.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "engine/draft_choice.h"
#include "engine/sampler.h"
#include "support/effort.h"

using namespace smelt;

namespace {

using Probabilities = std::vector<TokenProbability>;

const int kDraws = test::repetitions(100000);

// Random ones of some of `tokens` tokens, `sharpness` apart.
Probabilities random_probabilities(std::mt19937_64& rng, int32_t tokens, double sharpness) {
  Probabilities out;
  double sum = 0;
  for (int32_t token = 0; token < tokens; ++token) {
    if (rng() % 4 == 0) continue;
    out.push_back({token, std::exp(sharpness * static_cast<double>(rng() % 1000) / 1000)});
    sum += out.back().probability;
  }
  if (out.empty()) return {{0, 1}};
  for (TokenProbability& t : out) t.probability /= sum;
  return out;
}

double probability_of(const Probabilities& p, int32_t token) {
  for (const TokenProbability& t : p)
    if (t.token == token) return t.probability;
  return 0;
}

// Pearson's statistic beside its number of degrees of freedom: a sum of n squares of normal numbers, so above
// n + 5 sqrt(2 n) + 10 less than once in a million times.
bool fits(const std::map<int32_t, int64_t>& counts, const Probabilities& p, int64_t draws) {
  double statistic = 0, degrees = -1;
  for (const auto& [token, count] : counts)
    if (probability_of(p, token) == 0) return false;
  for (const TokenProbability& t : p) {
    if (t.probability == 0) continue;
    const double expected = t.probability * static_cast<double>(draws);
    const auto found = counts.find(t.token);
    const double got = found == counts.end() ? 0 : static_cast<double>(found->second);
    statistic += (got - expected) * (got - expected) / expected;
    degrees += 1;
  }
  CAPTURE(statistic);
  CAPTURE(degrees);
  return statistic < degrees + 5 * std::sqrt(2 * std::max(degrees, 0.0)) + 10;
}

std::vector<float> random_logits(std::mt19937_64& rng, size_t count) {
  std::vector<float> out(count);
  for (float& x : out) x = static_cast<float>(rng() % 4000) / 1000;
  return out;
}

}  // namespace

TEST_CASE("what the rejection rule gives is distributed as wanted, and keeps as many drafts as can be") {
  std::mt19937_64 rng(1);
  Sampler drafter({.seed = 2});
  const auto uniform = [&] { return static_cast<double>(rng() >> 11) * 0x1p-53; };
  for (int round = 0; round < 6; ++round) {
    CAPTURE(round);
    const Probabilities p = random_probabilities(rng, 12, round), q = random_probabilities(rng, 12, 3);
    std::map<int32_t, int64_t> counts;
    int64_t kept = 0;
    for (int i = 0; i < kDraws; ++i) {
      const int32_t draft = drafter.draw(q), token = keep_or_replace(draft, q, p, uniform);
      ++counts[token];
      kept += token == draft;
    }
    CHECK(fits(counts, p, kDraws));
    double both = 0;
    for (const TokenProbability& t : p) both += std::min(t.probability, probability_of(q, t.token));
    CHECK(std::abs(static_cast<double>(kept) / kDraws - both) < 4 * std::sqrt(0.25 / kDraws));
  }
}

TEST_CASE("a test of distributions sees a rule that is wrong") {
  std::mt19937_64 rng(1);
  Sampler drafter({.seed = 2});
  const Probabilities p = random_probabilities(rng, 12, 1), q = random_probabilities(rng, 12, 3);
  std::map<int32_t, int64_t> counts;
  for (int i = 0; i < kDraws; ++i) ++counts[drafter.draw(i % 10 ? p : q)];
  CHECK_FALSE(fits(counts, p, kDraws));
}

TEST_CASE("a draft that was not drawn is one of which all probability is there") {
  std::mt19937_64 rng(3);
  const auto uniform = [&] { return static_cast<double>(rng() >> 11) * 0x1p-53; };
  const Probabilities p = random_probabilities(rng, 9, 2);
  for (int32_t draft : {p[2].token, 100}) {
    std::map<int32_t, int64_t> counts;
    for (int i = 0; i < kDraws; ++i) ++counts[keep_or_replace(draft, {}, p, uniform)];
    CHECK(fits(counts, p, kDraws));
  }
}

TEST_CASE("equal probabilities keep every draft, disjoint ones none") {
  std::mt19937_64 rng(4);
  const auto uniform = [&] { return static_cast<double>(rng() >> 11) * 0x1p-53; };
  const Probabilities p = {{1, 0.25}, {2, 0.75}}, other = {{3, 1}};
  for (int i = 0; i < 1000; ++i) {
    CHECK(keep_or_replace(1, p, p, uniform) == 1);
    CHECK(keep_or_replace(3, other, p, uniform) != 3);
  }
}

TEST_CASE("a sampler draws what it tells of, with and without drafts, under its filters and masks") {
  std::mt19937_64 rng(5);
  const std::vector<float> logits = random_logits(rng, 50), of_drafter = random_logits(rng, 50);
  const std::vector<uint64_t> mask = {0x3ffffffff0f0f};
  struct Case {
    SamplerOptions options;
    std::span<const uint64_t> allowed;
  };
  const Case cases[] = {{{.temperature = 0.8f, .seed = 1}, {}},
                        {{.temperature = 1.4f, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 2}, {}},
                        {{.temperature = 1, .top_k = 9, .top_p = 0.9f, .seed = 3}, mask},
                        {{.temperature = 0.7f, .repeat_penalty = 1.5f, .typical_p = 0.9f, .seed = 4}, {}}};
  for (const Case& c : cases) {
    Sampler sampler(c.options);
    sampler.accept(7);
    const auto p = sampler.probabilities(logits, c.allowed);
    REQUIRE(p.ok());
    double sum = 0;
    for (const TokenProbability& t : *p) sum += t.probability;
    CHECK(sum == doctest::Approx(1));
    DraftChoice choice(0, true);
    choice.sample_like(c.options);
    std::map<int32_t, int64_t> plain, with_drafts;
    const int draws = kDraws / 4;
    for (int i = 0; i < draws; ++i) {
      ++plain[*sampler.sample(logits, c.allowed)];
      const auto draft = choice.choose(of_drafter);
      REQUIRE(draft.has_value());
      ++with_drafts[*sampler.sample_with_draft(logits, draft->id, draft->drawn_from, c.allowed)];
    }
    CHECK(fits(plain, *p, draws));
    CHECK(fits(with_drafts, *p, draws));
  }
}

TEST_CASE("tokens that are dropped by chance are dropped as often with drafts") {
  std::mt19937_64 rng(6);
  const std::vector<float> logits = {3, 2.9f, 2, 1};
  const SamplerOptions options{.temperature = 1, .xtc_probability = 0.5f, .xtc_threshold = 0.2f, .seed = 5};
  Sampler plain(options), sampler(options);
  std::map<int32_t, int64_t> counts, expected;
  for (int i = 0; i < kDraws; ++i) {
    ++expected[*plain.sample(logits)];
    ++counts[*sampler.sample_with_draft(logits, 0, {})];
  }
  for (int32_t token = 0; token < 4; ++token)
    CHECK(std::abs(static_cast<double>(counts[token] - expected[token])) < 5 * std::sqrt(kDraws / 2.0));
}

TEST_CASE("a drafter draws as the text is sampled; at temperature 0 it takes the most likely token") {
  const std::vector<float> logits = {0, 2, 1};
  DraftChoice choice(0, true), likely(0, false);
  for (DraftChoice* c : {&choice, &likely}) c->sample_like({.temperature = 0});
  CHECK(choice.choose(logits)->id == 1);
  CHECK(choice.choose(logits)->drawn_from.empty());
  for (DraftChoice* c : {&choice, &likely}) c->sample_like({.temperature = 1, .min_p = 0});
  CHECK(choice.choose(logits)->drawn_from.size() == 3);
  CHECK(likely.choose(logits)->drawn_from.empty());
}
