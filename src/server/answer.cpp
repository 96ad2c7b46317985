#include "server/answer.h"

namespace smelt {

std::vector<GenerationRequest> repeated(const GenerationRequest& request, int64_t times) {
  std::vector<GenerationRequest> all(static_cast<size_t>(times), request);
  for (size_t i = 0; i < all.size(); ++i) all[i].sampler.seed += i;
  return all;
}

Json json_of(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.tokens},
          {"total_tokens", usage.prompt_tokens + usage.tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

Json timings_of(const GenerationEnd& end) {
  const int64_t computed = end.prompt_tokens - end.cached_tokens;
  const auto rate = [](int64_t tokens, double seconds) { return seconds > 0 ? double(tokens) / seconds : 0.0; };
  Json timings = {{"cache_n", end.cached_tokens},
                  {"prompt_n", computed},
                  {"prompt_ms", end.prompt_seconds * 1e3},
                  {"prompt_per_second", rate(computed, end.prompt_seconds)},
                  {"predicted_n", end.tokens},
                  {"predicted_ms", end.decode_seconds * 1e3},
                  {"predicted_per_second", rate(end.tokens, end.decode_seconds)}};
  if (end.drafted == 0) return timings;
  timings["draft_n"] = end.drafted;
  timings["draft_n_accepted"] = end.accepted;
  return timings;
}

}  // namespace smelt
