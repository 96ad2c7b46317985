#include "server/stop_text.h"

#include <algorithm>

namespace smelt {

// Where the longest end of what is held begins that a stop string begins with.
size_t StopText::possible_start() const {
  size_t longest = 0;
  for (const std::string& stop : stops_) longest = std::max(longest, stop.size() - 1);
  for (size_t at = held_.size() - std::min(held_.size(), longest); at < held_.size(); ++at)
    for (const std::string& stop : stops_)
      if (stop.starts_with(std::string_view(held_).substr(at))) return at;
  return held_.size();
}

std::string StopText::push(std::string_view text) {
  if (!found_.empty()) return {};
  held_ += text;
  size_t first = std::string::npos;
  for (const std::string& stop : stops_)
    if (const size_t at = held_.find(stop); at < first) {
      first = at;
      found_ = stop;
    }
  const size_t end = found_.empty() ? possible_start() : first;
  std::string out = held_.substr(0, end);
  held_.erase(0, end);
  return out;
}

}  // namespace smelt
