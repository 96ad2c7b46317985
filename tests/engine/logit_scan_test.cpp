#include "engine/logit_scan.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <random>

#include "engine/sampler.h"
#include "model/token_choice.h"

using namespace smelt;

namespace {

std::vector<float> random_logits(size_t count, std::mt19937& random) {
  std::normal_distribution<float> normal(0, 4);
  std::vector<float> logits(count);
  for (float& x : logits) x = normal(random);
  return logits;
}

LogitScan scan_of(const std::vector<float>& logits) {
  LogitScan scan;
  scan.look_at(logits);
  return scan;
}

}  // namespace

TEST_CASE("the greatest logit is found wherever it is, the first of several") {
  std::mt19937 random(1);
  for (const size_t count : {size_t{1}, size_t{15}, size_t{16}, size_t{255}, size_t{256}, size_t{257}, size_t{5000}})
    for (int round = 0; round < 20; ++round) {
      std::vector<float> logits = random_logits(count, random);
      if (round % 2) logits[random() % count] = logits[random() % count] = 100;
      CHECK(scan_of(logits).greatest() ==
            static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    }
}

TEST_CASE("one number that is not finite is seen wherever it is") {
  for (const size_t count : {size_t{1}, size_t{17}, size_t{300}})
    for (size_t at = 0; at < count; ++at)
      for (const float wrong : {NAN, -NAN, INFINITY, -INFINITY}) {
        std::vector<float> logits(count, 1.5f);
        CHECK(scan_of(logits).are_finite());
        logits[at] = wrong;
        CHECK(!scan_of(logits).are_finite());
      }
}

TEST_CASE("at least as many logits as were asked for reach what blocks reach") {
  std::mt19937 random(2);
  const std::vector<float> logits = random_logits(20000, random);
  const LogitScan scan = scan_of(logits);
  for (const size_t count : {size_t{1}, size_t{2}, size_t{40}, size_t{79}}) {
    const float least = scan.reached_by(count);
    size_t seen = 0;
    scan.for_each_reaching(least, [&](size_t token, float logit) { seen += logits[token] == logit && logit >= least; });
    CHECK(seen >= count);
    CHECK(seen ==
          static_cast<size_t>(std::count_if(logits.begin(), logits.end(), [&](float x) { return x >= least; })));
    CHECK(seen < 20 * count);
  }
  CHECK(scan.reached_by(80) == -INFINITY);  // there are 79 blocks
}

// Logits in steps of a quarter of a level are alike in fours; those beyond 4096, and below -4096, all are.
TEST_CASE("a sampler that looks at the best alone finds those that are best of all") {
  std::mt19937 random(3);
  const double level = 1.0 / (int64_t{1} << kLevelBits);
  for (const double middle : {0.0, 50.0, 100.0, 5000.0, -5000.0})
    for (const int32_t k : {1, 2, 40, 200}) {
      std::vector<float> logits(30000);
      for (float& x : logits) x = static_cast<float>(middle + level / 4 * static_cast<double>(random() % 4000));
      std::vector<Candidate> best;
      const std::vector<int32_t> banned = {3, 100, 20000};
      for (size_t i = 0; i < logits.size(); ++i)
        if (std::find(banned.begin(), banned.end(), i) == banned.end())
          best.push_back({static_cast<int32_t>(i), logits[i]});
      keep_top_k(best, k);
      std::vector<int32_t> expected, tokens;
      for (const Candidate& c : best) expected.push_back(c.token);
      std::sort(expected.begin(), expected.end());
      Sampler sampler({.temperature = 1, .top_k = k, .top_p = 1, .min_p = 0, .banned = banned});
      for (const TokenProbability& p : sampler.probabilities(logits).take()) tokens.push_back(p.token);
      CAPTURE(middle);
      CAPTURE(k);
      CHECK(tokens == expected);
    }
}
