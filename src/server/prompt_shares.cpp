#include "server/prompt_shares.h"

#include <algorithm>
#include <numeric>

namespace smelt {

std::vector<size_t> prompt_order(std::span<const int64_t> rests) {
  std::vector<size_t> order(rests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return rests[a] < rests[b]; });
  return order;
}

std::vector<int64_t> prompt_shares(std::span<const int64_t> rests, int64_t tokens) {
  std::vector<int64_t> shares(rests.size());
  const auto give = [&](size_t prompt, int64_t most) {
    const int64_t given = std::min({most, tokens, rests[prompt] - shares[prompt]});
    shares[prompt] += given;
    tokens -= given;
  };
  if (rests.empty()) return shares;
  give(0, (tokens + 1) / 2);
  for (size_t prompt : prompt_order(rests))
    if (prompt != 0) give(prompt, tokens);
  give(0, tokens);
  return shares;
}

}  // namespace smelt
