#include "base/machine_changes.h"

#include <algorithm>
#include <type_traits>

#include "base/from_chars.h"

namespace smelt {
namespace {

// What is in front of the first `mark`, which goes with it.
std::string_view take_until(std::string_view& text, char mark) {
  const size_t end = text.find(mark);
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return part;
}

template <class T>
bool set(T& field, std::string_view value) {
  if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, double>) {
    T number{};
    const auto [stopped, problem] = from_chars(value.data(), value.data() + value.size(), number);
    if (problem != std::errc() || stopped != value.data() + value.size() || !(number >= 0)) return false;
    field = number;
    return true;
  }
  return false;
}

Status change_field(Machine& machine, std::string_view name, std::string_view value) {
  const std::string given = "[machine] " + std::string(name) + "=" + std::string(value);
#define FIELD(type, field, fallback, doc)  \
  if (name == #field)                      \
    return set<type>(machine.field, value) \
               ? Status()                  \
               : Status(Error{given + ": it takes a number that is not negative, if it is a number at all"});
#include "base/machine.def"
#undef FIELD
  if (int64_t units = 0; name == "matrix_units" && set(units, value)) {
    machine.matrix_units.resize(std::min(machine.matrix_units.size(), static_cast<size_t>(units)));
    return {};
  }
  return Error{given + ": a machine has no such field; `smelt machines NAME` lists them"};
}

}  // namespace

ChangedName split_changes(std::string_view text) {
  const std::string_view name = take_until(text, ',');
  return {std::string(name), std::string(text)};
}

Status change(Machine& machine, std::string_view changes) {
  while (!changes.empty()) {
    std::string_view value = take_until(changes, ',');
    const std::string_view name = take_until(value, '=');
    SMELT_CHECK(change_field(machine, name, value));
  }
  return {};
}

}  // namespace smelt
