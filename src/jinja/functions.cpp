#include "jinja/functions.h"

#include <algorithm>

namespace smelt::jinja {
namespace {

FilterFunction find_in(std::span<const NamedFilter> table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const NamedFilter& f) { return f.name == name; });
  return found == table.end() ? nullptr : found->function;
}

}  // namespace

FilterFunction find_filter(std::string_view name) {
  for (const auto table : {text_filters(), number_filters(), sequence_filters(), selection_filters()}) {
    if (const FilterFunction function = find_in(table, name)) return function;
  }
  return nullptr;
}

FilterFunction find_method(const Value& object, std::string_view name) {
  return find_in(object.is_text() ? text_methods() : container_methods(object), name);
}

Parameters::Parameters(const char* function, const Arguments& given, std::initializer_list<std::string_view> names)
    : function_(function), names_(names), values_(names.size(), nullptr) {
  if (given.positional.size() > names_.size()) {
    fail(std::string(function) + " takes at most " + std::to_string(names_.size()) + " arguments");
  }
  for (size_t i = 0; i < given.positional.size(); ++i) values_[i] = &given.positional[i];
  for (const auto& [name, value] : given.named) {
    const size_t at = std::find(names_.begin(), names_.end(), name) - names_.begin();
    if (at == names_.size()) fail(std::string(function) + " takes no argument '" + name + "'");
    if (values_[at]) fail(std::string(function) + " was given '" + name + "' twice");
    values_[at] = &value;
  }
}

const Value& Parameters::operator[](size_t i) const {
  if (!values_[i]) fail(std::string(function_) + " needs the argument '" + std::string(names_[i]) + "'");
  return *values_[i];
}

int64_t Parameters::integer(size_t i, int64_t fallback) const {
  if (!has(i)) return fallback;
  if (!values_[i]->is_integral()) fail(std::string(function_) + ": '" + std::string(names_[i]) + "' is no integer");
  return values_[i]->integer();
}

const Text& Parameters::text(size_t i) const {
  const Value& value = (*this)[i];
  if (!value.is_text()) {
    fail(std::string(function_) + ": '" + std::string(names_[i]) + "' is no string but a " +
         std::string(type_name(value)));
  }
  return value.text();
}

}  // namespace smelt::jinja
