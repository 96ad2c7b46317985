#include "engine/state_pool.h"

#include "base/ensure.h"

namespace smelt {

StatePool::StatePool(int32_t first, int32_t end)
    : first_(first), users_(static_cast<size_t>(end > first ? end - first : 0)) {
  for (int32_t place = end; place-- > first;) free_.push_back(place);  // the first one on top
}

std::optional<int32_t> StatePool::take() {
  if (free_.empty()) return std::nullopt;
  const int32_t place = free_.back();
  free_.pop_back();
  users_[index(place)] = 1;
  return place;
}

void StatePool::use(int32_t place) {
  if (place < first_) return;
  ENSURE(users_[index(place)] > 0, "a state that nobody has");
  ++users_[index(place)];
}

void StatePool::drop(int32_t place) {
  if (place < first_) return;
  ENSURE(users_[index(place)] > 0, "a state that nobody has");
  if (--users_[index(place)] == 0) free_.push_back(place);
}

}  // namespace smelt
