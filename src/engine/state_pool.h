// StatePool: which places of recurrent states are taken, and by how many. It keeps numbers alone; the states lie in
// memory of the device, and none is changed while somebody uses it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace smelt {

// The state before any token, zeros; where those of padding tokens go; and the first one that is handed out.
constexpr int32_t kZeroState = 0, kPaddingState = 1, kFirstState = 2;

class StatePool {
 public:
  // Places `first` .. `end` - 1.
  StatePool(int32_t first, int32_t end);

  std::optional<int32_t> take();  // a place with one user
  // Numbers below `first` are of states that are always there: nothing is counted for them.
  void use(int32_t place);
  void drop(int32_t place);  // one user less

  int users(int32_t place) const { return place < first_ ? 0 : users_[index(place)]; }
  int64_t available() const { return static_cast<int64_t>(free_.size()); }

 private:
  size_t index(int32_t place) const { return static_cast<size_t>(place - first_); }

  int32_t first_;
  std::vector<int> users_;
  std::vector<int32_t> free_;
};

}  // namespace smelt
