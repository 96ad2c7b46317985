#include "app/random_tokens.h"

#include <random>

namespace smelt {

std::vector<int32_t> random_tokens(const Session& session, int64_t count) {
  std::mt19937_64 random;
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t& t : tokens) t = static_cast<int32_t>(random() % static_cast<uint64_t>(session.vocabulary_size()));
  return tokens;
}

}  // namespace smelt
