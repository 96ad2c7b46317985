// The rule by which a token is chosen from logits, in integers: what the host computes (engine/sampler.h) and what a
// graph computes (choice_graph.h) is then the same on every machine, whatever its order of sums and its exp.
//
// A logit has a level, in steps of 2^-18, and a token a distance: by how many levels it is below the best one. Tokens
// of equal distance are alike for every filter, which keeps all of them or none. So a filter is a limit:
//   top-k   the least one that k tokens are within
//   top-p   the least one whose tokens, of those within top-k, have p of their weight at temperature 1
//   min-p   the distance that makes a token so much less likely
// Of the tokens within all three one is drawn by its weight at the given temperature: the first, in the order of ids,
// at which the weights add up to more than a random part of all of them.
//
// Sums stay below 2^53, for vocabularies of up to 2^18 tokens 2^50, so that the interpreter has them, too.
#pragma once

#include <array>
#include <cstdint>

namespace smelt {

// The numbers that say how a token is drawn, in this order.
enum class Choice {
  TopK,      // how many at least; as many as there are tokens: all
  TopP,      // share_of()
  MinP,      // distance_of()
  Scale,     // scale_of()
  Random,    // kRandomBits of them
  IsGreedy,  // 1: the best one, the first of equal ones, whatever else is said
  kCount
};
constexpr int64_t kChoiceNumbers = static_cast<int64_t>(Choice::kCount);
using ChoiceNumbers = std::array<int64_t, kChoiceNumbers>;

constexpr int kLevelBits = 18;
constexpr double kMostLogit = 4096;  // logits beyond have its level
constexpr int kDistanceBits = 24;    // 64 logits: what is further is as far
constexpr int64_t kMostDistance = (int64_t{1} << kDistanceBits) - 1;
constexpr int kScaleBits = 20;
constexpr int64_t kMostScale = (int64_t{1} << 29) - 1;
constexpr int kWeightBits = 32;
constexpr int kShareBits = 16;
constexpr int64_t kWholeShare = int64_t{1} << kShareBits;
constexpr int kRandomBits = 26;

// Rounded down. REQUIRES: a finite number.
int32_t level_of(float logit);

// What makes exponents of distances: log2(e) / temperature, in steps of 2^-20. REQUIRES: temperature > 0
int64_t scale_of(double temperature);
// 2^32 * exp(-distance / temperature), rounded down. REQUIRES: 0 <= distance <= kMostDistance, 0 <= scale <= kMostScale
int64_t weight_of(int64_t distance, int64_t scale);
// 2^-x = the sum of kExp2[i] * x^i / 2^30, of 0 <= x < 1, within 2.1e-7 of it.
constexpr int64_t kExp2[] = {1073741824, -744256774, 257890191, -59375904, 9888282, -1016701};

// How far a token may be that is at least `p` times as likely as the best one; p <= 0: as far as it likes.
int64_t distance_of(double p);
// `p` of a weight in steps of 2^-16, and what top-p has to reach of a sum of weights; from kWholeShare on there is no
// limit to it.
int64_t share_of(double p);
int64_t part_to_reach(int64_t weights, int64_t share);
// The part of a sum of weights that a draw has to pass, less than all of it. `random`: kRandomBits of them.
int64_t part_to_pass(int64_t weights, int64_t random);

// The words of the generator Threefry-2x32 with 20 rounds (Salmon et al. 2011, "Parallel random numbers: as easy as
// 1, 2, 3"): a function of two numbers, which needs no state.
struct RandomWords {
  uint32_t first = 0, second = 0;
};
RandomWords threefry(uint64_t key, uint32_t counter, uint32_t index);

}  // namespace smelt
