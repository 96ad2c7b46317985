#include "engine/sampler.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace smelt;

namespace {

// Every filter off: what is drawn follows softmax(logits / temperature).
SamplerOptions plain(float temperature = 1) {
  return {.temperature = temperature, .top_k = 0, .top_p = 1, .min_p = 0, .repeat_penalty = 1, .seed = 7};
}

std::vector<double> frequencies(const SamplerOptions& options, const std::vector<float>& logits, int draws) {
  Sampler sampler(options);
  std::vector<double> counts(logits.size());
  for (int i = 0; i < draws; ++i) counts[*sampler.sample(logits)] += 1.0 / draws;
  return counts;
}

std::vector<float> logs(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

// Half a percent is five standard deviations at 200,000 draws.
void check_close(const std::vector<double>& found, const std::vector<double>& expected) {
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    if (expected[i] == 0) CHECK(found[i] == 0);
    CHECK(std::abs(found[i] - expected[i]) < 0.006);
  }
}

std::vector<Candidate> candidates(const std::vector<float>& logits) {
  std::vector<Candidate> result;
  for (size_t i = 0; i < logits.size(); ++i) result.push_back({static_cast<int32_t>(i), logits[i]});
  return result;
}

std::vector<int32_t> tokens(const std::vector<Candidate>& list) {
  std::vector<int32_t> result;
  for (const Candidate& c : list) result.push_back(c.token);
  return result;
}

using Tokens = std::vector<int32_t>;

}  // namespace

TEST_CASE("temperature 0 takes the largest logit, and the lowest token on ties") {
  Sampler sampler(plain(0));
  CHECK(*sampler.sample(std::vector<float>{1, 3, 2}) == 1);
  CHECK(*sampler.sample(std::vector<float>{-1, 5, 5, 5}) == 1);
  CHECK(*sampler.sample(std::vector<float>{-4}) == 0);
}

TEST_CASE("the same seed draws the same tokens, another seed others") {
  const std::vector<float> logits(50, 0.0f);
  const auto draw = [&](uint64_t seed) {
    SamplerOptions options = plain();
    options.seed = seed;
    Sampler sampler(options);
    Tokens drawn;
    for (int i = 0; i < 32; ++i) drawn.push_back(*sampler.sample(logits));
    return drawn;
  };
  CHECK(draw(1) == draw(1));
  CHECK(draw(1) != draw(2));
  // Threefry is, and all that is made of its words is of integers, so these hold on every machine.
  Tokens first = draw(1);
  first.resize(6);
  CHECK(first == Tokens{35, 45, 47, 17, 48, 4});
}

TEST_CASE("without filters tokens are drawn with their probabilities") {
  check_close(frequencies(plain(), logs({0.5, 0.3, 0.15, 0.05}), 200000), {0.5, 0.3, 0.15, 0.05});
}

TEST_CASE("temperature divides the logits") {
  // Probabilities 1/4 and 3/4 to the power 2, normalised: 0.1 and 0.9.
  check_close(frequencies(plain(0.5f), logs({0.25, 0.75}), 200000), {0.1, 0.9});
}

TEST_CASE("top-k keeps the k best and renormalises") {
  SamplerOptions options = plain();
  options.top_k = 2;
  check_close(frequencies(options, logs({0.1, 0.6, 0.2, 0.1}), 200000), {0, 0.75, 0.25, 0});
}

TEST_CASE("top-k keeps what is like the last it keeps, and sorts it; of one there is no other") {
  auto list = candidates({1, 2, 2, 0, 2});
  keep_top_k(list, 2);
  CHECK(tokens(list) == Tokens{1, 2, 4});
  keep_top_k(list, 1);
  CHECK(tokens(list) == Tokens{1});
  list = candidates({1, 2, 2, 0, 2});
  keep_top_k(list, 0);
  CHECK(tokens(list) == Tokens{1, 2, 4, 0, 3});
}

TEST_CASE(
    "top-p keeps the fewest tokens whose probabilities reach p, at least one, and what is like the last of them") {
  const auto kept = [](float p) {
    auto list = candidates(logs({0.5, 0.25, 0.125, 0.125}));
    keep_top_p(list, p);
    return list.size();
  };
  CHECK(kept(0) == 1);
  CHECK(kept(0.4f) == 1);
  CHECK(kept(0.6f) == 2);
  CHECK(kept(0.8f) == 4);
  CHECK(kept(0.9f) == 4);
  CHECK(kept(1) == 4);
}

TEST_CASE("min-p keeps tokens at least p times as likely as the best") {
  const auto kept = [](float p) {
    auto list = candidates(logs({0.5, 0.3, 0.15, 0.05}));
    keep_min_p(list, p);
    return list.size();
  };
  CHECK(kept(0) == 4);
  CHECK(kept(0.05f) == 4);
  CHECK(kept(0.2f) == 3);
  CHECK(kept(0.5f) == 2);
  CHECK(kept(1) == 1);
}

TEST_CASE("top-p sees probabilities after top-k and before the temperature") {
  // top-k leaves 0.5 and 0.25, that is 2/3 and 1/3; top-p 0.6 then leaves one, whatever the temperature.
  SamplerOptions options = plain(100);
  options.top_k = 2;
  options.top_p = 0.6f;
  check_close(frequencies(options, logs({0.1, 0.5, 0.25, 0.15}), 1000), {0, 1, 0, 0});
}

TEST_CASE("the repetition penalty divides positive and multiplies negative logits, once a token") {
  SamplerOptions options = plain(0);
  options.repeat_penalty = 2;
  Sampler sampler(options);
  CHECK(*sampler.sample(std::vector<float>{4, 3, -1}) == 0);
  sampler.accept(0);
  sampler.accept(0);  // 4 becomes 2, not 1
  CHECK(*sampler.sample(std::vector<float>{4, 3, -1}) == 1);
  CHECK(*sampler.sample(std::vector<float>{4, 1.5f, -1}) == 0);
  sampler.accept(2);  // -1 becomes -2
  CHECK(*sampler.sample(std::vector<float>{-9, -1.5f, -1}) == 1);
}

TEST_CASE("the repetition penalty looks at the last n tokens only") {
  const auto after = [](int32_t last_n) {
    SamplerOptions options = plain(0);
    options.repeat_penalty = 10;
    options.repeat_last_n = last_n;
    Sampler sampler(options);
    for (int32_t token : {0, 1, 1}) sampler.accept(token);
    return *sampler.sample(std::vector<float>{5, 4, 3});
  };
  CHECK(after(0) == 0);
  CHECK(after(2) == 0);
  CHECK(after(3) == 2);
  CHECK(after(-1) == 2);
}

TEST_CASE("banned tokens are never chosen, and the others keep their proportions") {
  SamplerOptions options = plain();
  options.banned = {1, 3};
  check_close(frequencies(options, logs({0.2, 0.3, 0.3, 0.2}), 200000), {0.4, 0, 0.6, 0});
  options.temperature = 0;
  CHECK(*Sampler(options).sample(std::vector<float>{1, 9, 2, 9}) == 2);
}

TEST_CASE("a vocabulary of banned tokens only is an error, not a crash") {
  SamplerOptions options = plain();
  options.banned = {0, 1};
  CHECK(Sampler(options).sample(std::vector<float>{1, 2}).error().message.find("every token") != std::string::npos);
}

TEST_CASE("accepted tokens outside the vocabulary are no candidates") {
  SamplerOptions options = plain(0);
  options.repeat_penalty = 2;
  Sampler sampler(options);
  sampler.accept(-1);
  sampler.accept(1000);
  CHECK(*sampler.sample(std::vector<float>{1, 2}) == 1);
}

TEST_CASE("a logit that is not finite is an error that names the entry") {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (float temperature : {0.0f, 1.0f}) {
    Sampler sampler(plain(temperature));
    const auto message = [&](std::vector<float> logits) { return sampler.sample(logits).error().message; };
    CHECK(message({0, nan, 1}).find("[sampler] logits: entry 1 of 3 is not a number") == 0);
    CHECK(message({0, 1, inf}).find("[sampler] logits: entry 2 of 3 is infinite") == 0);
    CHECK(message({-inf, -inf}).find("[sampler] logits: entry 0 of 2 is infinite") == 0);
    CHECK(sampler.sample(std::vector<float>{3e38f, -3e38f}).ok());
  }
}

TEST_CASE("very large logits do not overflow the softmax") {
  check_close(frequencies(plain(), {3e38f, 3e38f, -3e38f}, 200000), {0.5, 0.5, 0});
}

TEST_CASE("only tokens that are allowed are chosen") {
  std::vector<float> logits(130, 0.0f);
  logits[5] = 9;
  logits[70] = 8;
  const std::vector<uint64_t> allowed{0, uint64_t{1} << 6 | uint64_t{1} << 9, 0};  // 70 and 73
  SamplerOptions greedy;
  greedy.temperature = 0;
  CHECK(*Sampler(greedy).sample(logits, allowed) == 70);
  Sampler sampler(SamplerOptions{.temperature = 2, .min_p = 0, .seed = 4});
  for (int i = 0; i < 50; ++i) {
    const int32_t token = *sampler.sample(logits, allowed);
    CHECK((token == 70 || token == 73));
  }
  const std::vector<uint64_t> none(3);
  CHECK(sampler.sample(logits, none).error().message == "[sampler] the grammar allows no token of the vocabulary");
}
