#include "app/statistics.h"

#include <algorithm>

#include "app/text_of.h"
#include "base/progress.h"

namespace smelt {
namespace {

std::string tokens(int64_t count) { return std::to_string(count) + (count == 1 ? " token" : " tokens"); }

double rate(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

// "98 kernels and 8.21 MB a token, 3.30 GB/s"
std::string cost_of_a_token(const EngineStats& stats, double tokens_per_second, double cache_bytes) {
  const double read = static_cast<double>(stats.bytes_per_token) + cache_bytes;
  const double gigabytes = read * tokens_per_second / 1e9;
  const std::string bytes = bytes_text(static_cast<uint64_t>(read));
  return threads_text(stats) + text_of("%d %s and %s a token, %.2f GB/s", stats.kernels_per_token,
                                       stats.kernels_per_token == 1 ? "kernel" : "kernels", bytes.c_str(), gigabytes);
}

}  // namespace

std::string threads_text(const EngineStats& stats) {
  const bool are_all = stats.threads_per_token == 0 || stats.threads_per_token == stats.threads;
  return are_all ? "" : text_of("%d of %d threads, ", stats.threads_per_token, stats.threads);
}

std::string load_line(const EngineStats& stats) {
  return text_of("load %.2f s, compile %.2f s (%d %s compiled, %d from the cache)", stats.load_seconds,
                 stats.compile_seconds, stats.kernels_compiled, stats.kernels_compiled == 1 ? "kernel" : "kernels",
                 stats.kernels_cached);
}

std::string prompt_line(const Generation& generation) {
  const double speed = rate(static_cast<double>(generation.prompt_tokens), generation.prompt_seconds);
  return "prompt " + tokens(generation.prompt_tokens) + text_of(", %.1f tok/s", speed);
}

std::string decode_line(const EngineStats& stats, const Generation& generation, const CacheReads& reads) {
  const double speed = rate(static_cast<double>(generation.decode_steps), generation.decode_seconds);
  const int64_t first = generation.prompt_tokens, end = first + std::max<int64_t>(1, generation.decode_steps);
  return "decode " + tokens(generation.decode_steps) + text_of(", %.1f tok/s, ", speed) +
         cost_of_a_token(stats, speed, reads.each(first, end));
}

std::string draft_line(const DraftCounts& counts) {
  std::string line = "drafts " + std::to_string(counts.drafted()) + ", " + std::to_string(counts.accepted()) + " right";
  std::string places;
  for (const DraftCounts::Place& place : counts.places)
    if (place.drafted > 0)
      places += text_of("%s%.0f %%", places.empty() ? "" : ", ",
                        100 * static_cast<double>(place.accepted) / static_cast<double>(place.drafted));
  if (!places.empty()) line += " (by place " + places + ")";
  if (counts.steps > 0)
    line += text_of(", %.2f tokens a step", static_cast<double>(counts.tokens) / static_cast<double>(counts.steps));
  if (counts.net_ratio() > 0) line += text_of(", %.2f times as fast as without", counts.net_ratio());
  return line;
}

std::string benchmark_line(const EngineStats& stats, std::vector<double> step_seconds, const CacheReads& reads) {
  std::sort(step_seconds.begin(), step_seconds.end());
  const double median = step_seconds[step_seconds.size() / 2];
  return "decode " + tokens(static_cast<int64_t>(step_seconds.size())) +
         text_of(", median %.1f tok/s (slowest %.1f, fastest %.1f), ", rate(1, median), rate(1, step_seconds.back()),
                 rate(1, step_seconds.front())) +
         cost_of_a_token(stats, rate(1, median), reads.each(0, std::ssize(step_seconds)));
}

}  // namespace smelt
