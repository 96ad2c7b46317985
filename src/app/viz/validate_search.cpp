#include "app/viz/validate_search.h"

namespace smelt {
namespace {

constexpr size_t kMostSearches = 20'000;
constexpr int64_t kMostGenerations = 1'000'000;

// parent, generation, estimate, ratio, last ratio, options, perhaps a problem. Parents come before their trials, so
// that paths end.
void check_trial(const CheckedValue& trial, size_t number) {
  const size_t fields = trial.list(6, 7);
  trial[size_t{0}].whole(-1, static_cast<int64_t>(number) - 1);
  trial[1].whole(0, kMostGenerations);
  for (size_t f : {size_t{2}, size_t{3}, size_t{4}}) trial[f].size();
  for (size_t f = 5; f < fields; ++f) trial[f].text();
}

void check_search(const CheckedValue& search) {
  for (const char* key : {"kernel", "plan", "stage", "what", "layout", "problem", "before", "after"})
    search[key].text();
  for (const char* key :
       {"calls", "before_us", "after_us", "floor_us", "considered", "hopeless", "compiled", "wrong", "judged"})
    search[key].size();
  search["share"].number(0, 1);
  for (const char* key : {"improved", "interrupted"}) search[key].flag();
  size_t number = 0;
  search["trials"].each(kMostItems, [&](const CheckedValue& trial) { check_trial(trial, number++); });
  search["winner"].whole(-1, static_cast<int64_t>(number) - 1);
}

}  // namespace

void check_searches(const CheckedValue& searches) { searches.each(kMostSearches, check_search); }

}  // namespace smelt
