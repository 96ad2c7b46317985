#include "app/known_rates.h"

#include <cmath>

#include "app/synthetic_shapes.h"
#include "base/ensure.h"

namespace smelt {
namespace {

constexpr double kSameBytes = 0.03;  // two mixes of one name differ by less

const std::vector<KnownRate>& all_rates() {
  static const std::vector<KnownRate> rates = {
#define RATE(...) {__VA_ARGS__},
#include "app/known_rates.def"
#undef RATE
  };
  return rates;
}

bool is_like(const std::string& known, const Model& model, uint64_t bytes) {
  const auto spec = parse_synthetic(known);
  ENSURE(spec.ok(), "known_rates.def names a model that is none");
  const Hyperparameters &a = spec->model->numbers(), &b = model.numbers();
  const auto expected = static_cast<double>(weight_bytes(*spec));
  return a.layers == b.layers && a.hidden == b.hidden && a.vocabulary == b.vocabulary &&
         std::abs(static_cast<double>(bytes) - expected) <= kSameBytes * expected;
}

}  // namespace

std::vector<KnownRate> known_rates(const std::string& machine, const Model& model, uint64_t weight_bytes) {
  std::vector<KnownRate> found;
  for (const KnownRate& rate : all_rates())
    if (rate.machine == machine && is_like(rate.model, model, weight_bytes)) found.push_back(rate);
  return found;
}

}  // namespace smelt
