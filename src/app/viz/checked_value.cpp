#include "app/viz/checked_value.h"

#include <cmath>

namespace smelt {

void CheckedValue::fail(const std::string& what) const { throw WrongValue{(at_.empty() ? "" : at_ + ": ") + what}; }

CheckedValue CheckedValue::operator[](const char* key) const {
  if (!json_.is_object()) fail("is no object");
  const auto found = json_.find(key);
  if (found == json_.end()) fail("has no \"" + std::string(key) + "\"");
  return {*found, at_.empty() ? key : at_ + "." + key};
}

CheckedValue CheckedValue::operator[](size_t i) const { return {json_[i], at_ + "[" + std::to_string(i) + "]"}; }

void CheckedValue::text() const {
  if (!json_.is_string()) fail("is no text");
}

void CheckedValue::flag() const {
  if (!json_.is_boolean()) fail("is neither true nor false");
}

double CheckedValue::number(double least, double most) const {
  if (!json_.is_number()) fail("is no number");
  const double value = json_.get<double>();
  if (!std::isfinite(value) || value < least || value > most) fail(json_.dump() + " is out of range");
  return value;
}

void CheckedValue::size() const { number(0, kLargestExact); }

int64_t CheckedValue::whole(int64_t least, int64_t most) const {
  if (!json_.is_number_integer()) fail("is no whole number");
  number(static_cast<double>(least), static_cast<double>(most));
  return json_.get<int64_t>();
}

void CheckedValue::index(size_t count, const char* thing) const {
  if (!json_.is_number_integer()) fail("is no number of a " + std::string(thing));
  const bool is_there = json_.is_number_unsigned() ? json_.get<uint64_t>() < count
                                                   : json_.get<int64_t>() >= 0 && json_.get<uint64_t>() < count;
  if (!is_there) fail(json_.dump() + " is no " + thing + "; there are " + std::to_string(count));
}

size_t CheckedValue::list(size_t least, size_t most) const {
  if (!json_.is_array()) fail("is no list");
  if (json_.size() < least || json_.size() > most)
    fail("has " + std::to_string(json_.size()) + " entries; " + std::to_string(least) + " to " + std::to_string(most) +
         " are possible");
  return json_.size();
}

void CheckedValue::each(size_t most, const std::function<void(const CheckedValue&)>& check) const {
  const size_t count = list(0, most);
  for (size_t i = 0; i < count; ++i) check((*this)[i]);
}

}  // namespace smelt
