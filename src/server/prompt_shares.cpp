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

namespace {

// Of prompts that do not come to their end in this step, no more than `most` in all: first of the one that came first.
void limit_unfinished(std::span<const int64_t> rests, int64_t most, std::vector<int64_t>& shares) {
  for (size_t prompt = 0; prompt < rests.size(); ++prompt) {
    if (shares[prompt] == rests[prompt]) continue;
    shares[prompt] = std::min(shares[prompt], most);
    most -= shares[prompt];
  }
}

}  // namespace

std::vector<int64_t> prompt_shares(std::span<const int64_t> rests, int64_t tokens) {
  std::vector<int64_t> shares(rests.size());
  int64_t left = tokens;
  const auto give = [&](size_t prompt, int64_t most) {
    const int64_t given = std::min({most, left, rests[prompt] - shares[prompt]});
    shares[prompt] += given;
    left -= given;
  };
  if (rests.empty()) return shares;
  give(0, (tokens + 1) / 2);
  for (size_t prompt : prompt_order(rests))
    if (prompt != 0) give(prompt, left);
  give(0, left);
  int64_t finished = 0;  // tokens of those that come to their end
  for (size_t prompt = 0; prompt < rests.size(); ++prompt)
    if (shares[prompt] == rests[prompt]) finished += shares[prompt];
  if (finished > 0) limit_unfinished(rests, std::max(finished, tokens / 16), shares);
  return shares;
}

}  // namespace smelt
