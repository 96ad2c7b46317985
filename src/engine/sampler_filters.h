// The filters of the sampler, one function each: which tokens a draw is among. Candidates are sorted, best first (ties:
// lower token first), except where noted; each filter leaves at least one of them. Top-k, top-p and min-p follow the
// rule of model/token_choice.h: of tokens that are alike they keep all or none.
#pragma once

#include <cstdint>
#include <vector>

namespace smelt {

struct Candidate {
  int32_t token;
  float logit;
  bool operator==(const Candidate&) const = default;
};

bool is_better(const Candidate& a, const Candidate& b);

// The weight of each candidate, in any order, beside the best of them, and the sum of weights.
int64_t softmax_weights(const std::vector<Candidate>& candidates, double temperature, std::vector<int64_t>& weights);

// In any order before; sorts them. Of one there is no other.
void keep_top_k(std::vector<Candidate>& candidates, int32_t k);
void keep_top_p(std::vector<Candidate>& candidates, float p);
// The same for candidates in any order; sorts what it keeps. A vocabulary has some hundred thousand tokens, of which
// few are likely: to sort all of them would take longer than a token of a fast model.
void sort_top_p(std::vector<Candidate>& candidates, float p);
void keep_min_p(std::vector<Candidate>& candidates, float p);  // in any order

// Those whose surprise, -log(probability), is closest to the one to be expected, until their probabilities reach p.
void keep_typical(std::vector<Candidate>& candidates, float p);

// "Exclude top choices": of those at least as likely as `threshold`, only the least likely stays.
void drop_top_choices(std::vector<Candidate>& candidates, float threshold);

// From temperature - range where one candidate is sure to temperature + range where all are alike, by the entropy of
// their probabilities, as a part of the largest one there could be, to the power `exponent`.
double dynamic_temperature(const std::vector<Candidate>& candidates, double temperature, double range, double exponent);

}  // namespace smelt
