// Tokens chosen by a graph: what the compiled kernels choose is what the rule chooses one number after the other, and
// what the interpreter makes of the graph.
#include "model/choice_graph.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "engine/sampler.h"
#include "model/token_choice.h"
#include "support/run_graph.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

using Numbers = std::vector<int64_t>;

// As written in token_choice.h.
int64_t chosen_by_rule(const std::vector<float>& logits, const Numbers& choice) {
  const auto number = [&](Choice c) { return choice[static_cast<size_t>(c)]; };
  if (number(Choice::IsGreedy)) return std::max_element(logits.begin(), logits.end()) - logits.begin();
  std::vector<int64_t> distance, sorted;
  const int64_t best = level_of(*std::max_element(logits.begin(), logits.end()));
  for (float logit : logits) distance.push_back(std::min(best - level_of(logit), kMostDistance));
  sorted = distance;
  std::sort(sorted.begin(), sorted.end());
  const int64_t top_k = sorted[std::min(static_cast<size_t>(number(Choice::TopK)), sorted.size()) - 1];
  std::erase_if(sorted, [&](int64_t d) { return d > top_k; });
  int64_t all = 0, top_p = top_k, sum = 0;
  for (int64_t d : sorted) all += weight_of(d, scale_of(1));
  if (number(Choice::TopP) < kWholeShare)
    for (size_t i = sorted.size(); i-- > 0 || (top_p = sorted[0], false);) {
      sum += weight_of(sorted[i], scale_of(1));
      // Without the tokens from here on the others have too little.
      if (all - sum < part_to_reach(all, number(Choice::TopP))) {
        top_p = sorted[i];
        break;
      }
    }
  const int64_t most = std::min({top_k, top_p, number(Choice::MinP)});
  const auto weight = [&](size_t i) { return distance[i] <= most ? weight_of(distance[i], number(Choice::Scale)) : 0; };
  int64_t total = 0;
  for (size_t i = 0; i < distance.size(); ++i) total += weight(i);
  int64_t left = part_to_pass(total, number(Choice::Random));
  size_t token = 0;
  while (left >= weight(token)) left -= weight(token++);
  return static_cast<int64_t>(token);
}

std::vector<float> random_logits(int64_t n, std::mt19937_64& random) {
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits(static_cast<size_t>(n));
  for (float& x : logits) x = random() % 8 == 0 ? std::round(normal(random)) : normal(random);  // some are equal
  return logits;
}

Numbers random_choice(int64_t vocabulary, std::mt19937_64& random) {
  const auto one_of = [&](std::vector<double> list) { return list[random() % list.size()]; };
  return {static_cast<int64_t>(one_of({1, 2, 5, 40, static_cast<double>(vocabulary)})),
          share_of(one_of({0, 0.1, 0.5, 0.95, 1})),
          distance_of(one_of({0, 0.05, 0.5})),
          scale_of(one_of({0.01, 0.5, 0.8, 1, 2, 50})),
          static_cast<int64_t>(random() >> (64 - kRandomBits)),
          random() % 6 == 0};
}

struct Chosen {
  std::vector<double> got, expected;
};

Chosen choose(int64_t rows, int64_t vocabulary, ChoiceKind kind, const std::vector<float>& logits,
              const Numbers& choices) {
  const Segment segment = choice_graph(rows, vocabulary, kind);
  Inputs in;
  in.buffers[0] = as_bytes(logits);
  if (kind == ChoiceKind::Drawn) in.buffers[1] = as_bytes(choices);
  const Comparison c = compare(segment.root, in);
  const int64_t out = std::ssize(segment.slots) - 1;
  return {c.got.at(out), c.expected.at(out)};
}

}  // namespace

TEST_CASE("random words are those of Threefry") {
  // Known answers of the authors' library Random123.
  CHECK(threefry(0, 0, 0).first == 0x6b200159);
  CHECK(threefry(0, 0, 0).second == 0x99ba4efe);
  CHECK(threefry(~uint64_t{0}, ~0u, ~0u).first == 0x1cb996fc);
  CHECK(threefry(~uint64_t{0}, ~0u, ~0u).second == 0xbb002be7);
}

TEST_CASE("weights are exponentials of distances") {
  const double one = int64_t{1} << kLevelBits;
  for (double temperature : {0.1, 0.8, 1.0, 3.0})
    for (double logits : {0.0, 0.001, 0.5, 1.0, 4.0, 12.0}) {
      CAPTURE(temperature);
      CAPTURE(logits);
      const double expected = std::exp(-logits / temperature) * 0x1p32;
      const auto weight = static_cast<double>(weight_of(static_cast<int64_t>(logits * one), scale_of(temperature)));
      CHECK(std::abs(weight - expected) <= 1 + expected * 4e-5);
    }
  CHECK(weight_of(kMostDistance, kMostScale) == 0);
}

TEST_CASE("a graph takes the best token of each row, the first of equal ones") {
  std::mt19937_64 random(1);
  for (int64_t vocabulary : {1, 33, 1024, 2500})
    for (int64_t rows : {1, 3}) {
      const std::vector<float> logits = random_logits(rows * vocabulary, random);
      const Chosen c = choose(rows, vocabulary, ChoiceKind::Greedy, logits, {});
      CHECK(c.got == c.expected);
      for (int64_t r = 0; r < rows; ++r) {
        const auto row = logits.begin() + r * vocabulary;
        CHECK(c.got[static_cast<size_t>(r)] == static_cast<double>(std::max_element(row, row + vocabulary) - row));
        CHECK(c.got[static_cast<size_t>(rows + r)] == 0);
      }
    }
}

TEST_CASE("a graph says how many logits are no finite numbers") {
  std::vector<float> logits(1500, 1.0f);
  logits[3] = std::numeric_limits<float>::quiet_NaN();
  logits[1200] = std::numeric_limits<float>::infinity();
  logits[1201] = -std::numeric_limits<float>::infinity();
  const Chosen c = choose(1, 1500, ChoiceKind::Greedy, logits, {});
  CHECK(c.got[1] == 3);
  CHECK(c.got[0] == 0);
}

TEST_CASE("a graph draws the token that the rule draws, whatever filters a row has" *
          doctest::test_suite("generated")) {
  std::mt19937_64 random(2);
  for (int64_t vocabulary : {1, 40, 1024, 2500})
    for (int round = 0; round < 4; ++round) {
      const int64_t rows = 1 + round;
      std::vector<float> logits = random_logits(rows * vocabulary, random);
      Numbers choices;
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t number : random_choice(vocabulary, random)) choices.push_back(number);
      const Chosen c = choose(rows, vocabulary, ChoiceKind::Drawn, logits, choices);
      CHECK(c.got == c.expected);
      for (int64_t r = 0; r < rows; ++r) {
        const auto row = logits.begin() + r * vocabulary;
        const auto numbers = choices.begin() + r * kChoiceNumbers;
        CAPTURE(vocabulary);
        CAPTURE(r);
        CHECK(c.got[static_cast<size_t>(r)] ==
              static_cast<double>(chosen_by_rule({row, row + vocabulary}, {numbers, numbers + kChoiceNumbers})));
      }
    }
}

TEST_CASE("the host draws the token that a graph draws, for any sampler that a graph can be" *
          doctest::test_suite("generated")) {
  std::mt19937_64 random(3);
  const auto one_of = [&](std::vector<float> list) { return list[random() % list.size()]; };
  const int64_t vocabulary = 1500, rows = 4;
  for (int round = 0; round < 8; ++round) {
    const std::vector<float> logits = random_logits(rows * vocabulary, random);
    Numbers choices;
    std::vector<int32_t> expected;
    for (int64_t r = 0; r < rows; ++r) {
      const SamplerOptions options{.temperature = one_of({0, 0.3f, 0.8f, 1, 3}),
                                   .top_k = static_cast<int32_t>(one_of({0, 1, 3, 40, 5000})),
                                   .top_p = one_of({0, 0.4f, 0.95f, 1}),
                                   .min_p = one_of({0, 0.01f, 0.3f}),
                                   .seed = random()};
      Sampler sampler(options);
      const auto history = static_cast<int64_t>(random() % 5), ahead = static_cast<int64_t>(random() % 3);
      for (int64_t i = 0; i < history; ++i) sampler.accept(7);
      TokenChoice choice = *sampler.choice(vocabulary, ahead);
      if (choice.kind == ChoiceKind::Greedy) choice.numbers[static_cast<size_t>(Choice::IsGreedy)] = 1;
      choices.insert(choices.end(), choice.numbers.begin(), choice.numbers.end());
      for (int64_t i = 0; i < ahead; ++i) sampler.accept(7);
      expected.push_back(*sampler.sample(std::span(logits).subspan(static_cast<size_t>(r * vocabulary), vocabulary)));
    }
    const Chosen c = choose(rows, vocabulary, ChoiceKind::Drawn, logits, choices);
    for (size_t r = 0; r < expected.size(); ++r) CHECK(c.got[r] == expected[r]);
  }
}

TEST_CASE("samplers that a graph cannot be are the host's") {
  const auto can = [](const SamplerOptions& options) { return Sampler(options).choice(100, 0).has_value(); };
  CHECK(can({}));
  CHECK(can({.temperature = 0}));
  CHECK_FALSE(can({.repeat_penalty = 1.1f}));
  CHECK_FALSE(can({.frequency_penalty = 1}));
  CHECK_FALSE(can({.typical_p = 0.9f}));
  CHECK_FALSE(can({.xtc_probability = 0.5f}));
  CHECK_FALSE(can({.temperature_range = 0.5f}));
  CHECK_FALSE(can({.bias = {{1, 2}}}));
  CHECK_FALSE(can({.banned = {2}}));
}
