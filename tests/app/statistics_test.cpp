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
      .prompt_tokens = 90, .prompt_seconds = 1, .tokens = 21, .decode_steps = 19, .decode_seconds = 2};
  CHECK(contains(decode_line(stats, generation, {}),
                 "decode 19 tokens, 9.5 tok/s, 1 kernel and 1.00 MB a token, 0.01 GB/s"));
  stats.threads = stats.threads_per_token = 16;
  CHECK(contains(decode_line(stats, generation, {}), "9.5 tok/s, 1 kernel"));
  stats.threads_per_token = 8;
  CHECK(contains(decode_line(stats, generation, {}), "9.5 tok/s, 8 of 16 threads, 1 kernel"));
  // 100 tokens deep on average; where the window begins in the second chunk, 256 of them are not read.
  const CacheReads reads{{{0, 10'000}}}, windows{{{0, 5'000}, {64, 5'000}}};
  CHECK(contains(decode_line(stats, generation, reads), "1 kernel and 2.00 MB a token, 0.02 GB/s"));
  CHECK(contains(decode_line(stats, generation, windows), "1 kernel and 2.00 MB a token, 0.02 GB/s"));
  Generation later = generation;
  later.prompt_tokens += 256;
  CHECK(contains(decode_line(stats, later, windows), "1 kernel and 3.28 MB a token, 0.03 GB/s"));
}
