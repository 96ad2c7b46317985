// Filters that choose or change the items of a sequence one by one: map, select and their kin.
#include <algorithm>

#include "jinja/functions.h"
#include "jinja/getter.h"
#include "jinja/objects.h"
#include "jinja/text_tools.h"

namespace smelt::jinja {

Getter::Getter(Interpreter& interpreter, const Value& attribute, Value fallback, bool has_fallback)
    : interpreter_(&interpreter), fallback_(std::move(fallback)), has_fallback_(has_fallback) {
  if (attribute.is_none()) return;
  if (!attribute.is_text()) {
    path_.push_back(attribute);
    return;
  }
  for (const Text& part : split(attribute.text(), ".", -1)) {
    const std::string& name = part.bytes();
    const bool is_index = !name.empty() && name.size() < 10 && name.find_first_not_of("0123456789") == name.npos;
    path_.push_back(is_index ? Value(std::stoi(name)) : Value(part));
  }
}

Value Getter::operator()(const Value& value) const {
  Value now = value;
  for (const Value& part : path_) {
    interpreter_->charge(1);
    now = interpreter_->item(now, part);
    if (has_fallback_ && now.is_undefined()) now = fallback_;
  }
  return now;
}

namespace {

using Subject = const Value&;
using Given = const Arguments&;

// The arguments behind the first `count`.
Arguments rest_of(Given given, size_t count) {
  return {{given.positional.begin() + std::min(count, given.positional.size()), given.positional.end()}, given.named};
}

const std::string& name_in(Given given, size_t i, const char* what) {
  if (i >= given.positional.size() || !given.positional[i].is_text())
    fail(std::string("expected the name of a ") + what);
  return given.positional[i].bytes();
}

Value map_attribute(Interpreter& interpreter, const std::vector<Value>& items, Given given) {
  const Parameters p("map", given, {"attribute", "default"});
  const Getter get(interpreter, p[0], p.get(1, Value()), p.has(1));
  std::vector<Value> out;
  for (const Value& item : items) out.push_back(get(item));
  return make_generator(std::move(out));
}

Value map(Interpreter& interpreter, Subject value, Given given) {
  if (!is_true(value)) return make_generator({});  // also of None, as jinja2 has it
  const SequenceRef items = interpreter.items_of(value);
  if (given.positional.empty()) return map_attribute(interpreter, items->items, given);
  const std::string& name = name_in(given, 0, "filter");
  const Arguments arguments = rest_of(given, 1);
  std::vector<Value> out;
  for (const Value& item : items->items) {
    interpreter.charge(1);
    out.push_back(interpreter.filter(name, item, arguments));
  }
  return make_generator(std::move(out));
}

// The items, or an attribute of theirs, that pass a test; without one, that are true.
template <bool by_attribute, bool wanted>
Value select(Interpreter& interpreter, Subject value, Given given) {
  if (!is_true(value)) return make_generator({});
  const Getter get(interpreter, by_attribute ? Value(name_in(given, 0, "attribute")) : Value());
  constexpr size_t kTest = by_attribute ? 1 : 0;
  const bool has_test = given.positional.size() > kTest;
  const std::string test = has_test ? name_in(given, kTest, "test") : "";
  const Arguments arguments = rest_of(given, kTest + 1);
  std::vector<Value> out;
  const SequenceRef items = interpreter.items_of(value);
  for (const Value& item : items->items) {
    interpreter.charge(1);
    const Value subject = get(item);
    if ((has_test ? interpreter.test(test, subject, arguments) : is_true(subject)) == wanted) out.push_back(item);
  }
  return make_generator(std::move(out));
}

// obj|attr("x"): the attribute, never the item.
Value attr(Interpreter& interpreter, Subject value, Given given) {
  const std::string name = Parameters("attr", given, {"name"}).text(0).bytes();
  if (value.is_dict() && !find_method(value, name)) return make_undefined("a dict has no attribute '" + name + "'");
  return interpreter.attribute(value, name);
}

constexpr NamedFilter kFilters[] = {{"map", map},
                                    {"select", select<false, true>},
                                    {"reject", select<false, false>},
                                    {"selectattr", select<true, true>},
                                    {"rejectattr", select<true, false>},
                                    {"attr", attr}};

}  // namespace

std::span<const NamedFilter> selection_filters() { return kFilters; }

}  // namespace smelt::jinja
