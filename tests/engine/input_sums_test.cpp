// Sums of what matrices are multiplied with, beside those of a direct pass.
#include "engine/input_sums.h"

#include <doctest/doctest.h>

#include <cmath>

#include "engine/session.h"
#include "model/small_transformer.h"

using namespace smelt;
using namespace smelt::test;

namespace {

using Totals = std::map<std::string, std::vector<float>>;

const std::vector<int32_t> kTokens = {5, 17, 30, 3, 3, 39, 21, 8, 1, 2, 3, 4, 5, 6, 7, 11};

Totals totals_of(const Traits& traits, int64_t runs) {
  const std::vector<std::byte> bytes = SmallTransformer(traits).writer.bytes();
  const auto file = GgufFile::open_memory(bytes);
  REQUIRE(file.ok());
  auto session = Session::open(*file, {.threads = 1, .context = 64, .sums_inputs = true}, {});
  REQUIRE_MESSAGE(session.ok(), session.error().message);
  for (int64_t i = 0; i < runs; ++i) {
    (*session)->reset();
    REQUIRE((*session)->append(kTokens).ok());
  }
  CHECK((*session)->loaded().input_sums().tokens() == runs * std::ssize(kTokens));
  return (*session)->loaded().input_sums().totals();
}

double sum_of(const std::vector<float>& values) {
  double sum = 0;
  for (float v : values) sum += v;
  return sum;
}

}  // namespace

TEST_CASE("the first matrices of a model are multiplied with normalised embeddings") {
  const Traits traits;
  const SmallTransformer small(traits);
  std::vector<double> wanted(kHidden);
  for (int32_t id : kTokens) {
    const std::vector<double> in = small.first_input(id);
    for (int i = 0; i < kHidden; ++i) wanted[i] += 2 * in[i] * in[i];
  }
  const Totals totals = totals_of(traits, 2);
  for (const char* name : {"attn_q", "attn_k", "attn_v"}) {
    const std::vector<float>& sums = totals.at("blk.0." + std::string(name) + ".weight.in_sum2");
    REQUIRE(sums.size() == size_t{kHidden});
    for (int i = 0; i < kHidden; ++i) CHECK(sums[i] == doctest::Approx(wanted[i]).epsilon(1e-4));
  }
  CHECK(totals.at("blk.1.ffn_down.weight.in_sum2").size() == size_t{kInner});
  CHECK(!totals.contains("blk.0.attn_q.weight.counts"));
}

TEST_CASE("of experts each has the sums of the tokens that chose it") {
  const Totals totals = totals_of({.has_experts = true}, 1);
  for (const char* name : {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"}) {
    const std::string prefix = "blk.1." + std::string(name) + ".weight";
    const std::vector<float>&counts = totals.at(prefix + ".counts"), &sums = totals.at(prefix + ".in_sum2");
    REQUIRE(counts.size() == size_t{kExperts});
    CHECK(sum_of(counts) == double(kUsed) * double(kTokens.size()));
    const size_t k = sums.size() / kExperts;
    for (int e = 0; e < kExperts; ++e)
      CHECK((sum_of({sums.begin() + e * k, sums.begin() + (e + 1) * k}) > 0) == (counts[e] > 0));
  }
  // What goes in has been normalised: the mean of its squares is that of the norm's weights, about 1.
  const double all = sum_of(totals.at("blk.0.ffn_up_exps.weight.in_sum2"));
  CHECK(all / (kUsed * double(kTokens.size()) * kHidden) == doctest::Approx(1).epsilon(0.3));
}
