// The figures below a text.
#include "app/statistics.h"

#include <doctest/doctest.h>

using namespace smelt;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("bytes of a token are those of the weights and of the attention cache at its depth") {
  EngineStats stats;
  stats.kernels_per_token = 1;
  stats.bytes_per_token = 1'000'000;
  const Generation generation{
      .prompt_tokens = 90, .prompt_seconds = 1, .tokens = 21, .decode_steps = 20, .decode_seconds = 2};
  CHECK(contains(decode_line(stats, generation, 0),
                 "decode 20 tokens, 10.0 tok/s, 1 kernel and 1.00 MB a token, 0.01 GB/s"));
  // 100 tokens deep on average
  CHECK(contains(decode_line(stats, generation, 10'000), "1 kernel and 2.00 MB a token, 0.02 GB/s"));
}
