// The tables of what templates may call by name, and how they read their arguments.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "jinja/value.h"

namespace smelt::jinja {

struct Scope;

using FilterFunction = Value (*)(Interpreter& interpreter, const Value& subject, const Arguments& arguments);
using TestFunction = bool (*)(Interpreter& interpreter, const Value& subject, const Arguments& arguments);

// Null for an unknown name.
FilterFunction find_filter(std::string_view name);
TestFunction find_test(std::string_view name);
// Methods of str, dict, list and tuple; null where the type has no such method.
FilterFunction find_method(const Value& object, std::string_view name);

void add_globals(Scope& scope);

struct NamedFilter {
  std::string_view name;
  FilterFunction function;
};
// The parts of the tables, each in a file of its own.
std::span<const NamedFilter> text_filters();
std::span<const NamedFilter> number_filters();
std::span<const NamedFilter> sequence_filters();
std::span<const NamedFilter> selection_filters();
std::span<const NamedFilter> text_methods();
std::span<const NamedFilter> container_methods(const Value& object);

// The arguments of a call by position and name, as Python matches them. Throws TemplateError where there are more than
// names, or others.
class Parameters {
 public:
  Parameters(const char* function, const Arguments& given, std::initializer_list<std::string_view> names);

  bool has(size_t i) const { return values_[i] != nullptr; }
  // Not given, or None.
  bool is_absent(size_t i) const { return !has(i) || values_[i]->is_none(); }
  const Value& operator[](size_t i) const;  // throws where it was not given
  Value get(size_t i, Value fallback) const { return has(i) ? *values_[i] : fallback; }
  int64_t integer(size_t i, int64_t fallback) const;
  bool flag(size_t i, bool fallback) const { return has(i) ? is_true(*values_[i]) : fallback; }
  const Text& text(size_t i) const;  // throws where it is no string
  Text text(size_t i, const char* fallback) const { return has(i) ? text(i) : Text(fallback); }

 private:
  const char* function_;
  std::vector<std::string_view> names_;
  std::vector<const Value*> values_;
};

}  // namespace smelt::jinja
