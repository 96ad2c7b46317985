// Attributes, items, slices and iteration of values.
#include <algorithm>

#include "jinja/functions.h"
#include "jinja/interpreter.h"
#include "jinja/objects.h"
#include "jinja/repr.h"
#include "jinja/unicode.h"

namespace smelt::jinja {
namespace {

Value method_or_undefined(const Value& object, std::string_view name) {
  if (const FilterFunction function = find_method(object, name)) {
    return ObjectRef(std::make_shared<Method>(object, std::string(name), function));
  }
  return make_undefined("'" + std::string(type_name(object)) + " object' has no attribute '" + std::string(name) + "'");
}

Value item_of(const Sequence& sequence, int64_t index) {
  const auto size = static_cast<int64_t>(sequence.items.size());
  if (index < 0) index += size;
  if (index < 0 || index >= size)
    return make_undefined("an index lies outside of its " + std::to_string(size) + " items");
  return sequence.items[static_cast<size_t>(index)];
}

Value character_of(const Text& text, int64_t index) {
  const std::vector<size_t> starts = character_starts(text.bytes());
  const auto size = static_cast<int64_t>(starts.size()) - 1;
  if (index < 0) index += size;
  if (index < 0 || index >= size) return make_undefined("an index lies outside of its string");
  return text.slice(starts[static_cast<size_t>(index)], starts[static_cast<size_t>(index) + 1]);
}

// The indices that start:stop:step means for so many items, as Python has it.
struct SliceRange {
  int64_t start, stop, step;

  SliceRange(const Value& from, const Value& to, const Value& by, int64_t size) {
    step = by.is_none() ? 1 : integer(by);
    if (step == 0) fail("the step of a slice cannot be zero");
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
    const auto clamp = [&](const Value& value, int64_t fallback) {
      if (value.is_none()) return fallback;
      const int64_t index = integer(value);
      return std::clamp(index < 0 && index >= -size ? index + size : index < 0 ? low : index, low, high);
    };
    start = clamp(from, step > 0 ? 0 : size - 1);
    stop = clamp(to, step > 0 ? size : -1);
  }

  template <class Visit>
  void for_each(const Visit& visit) const {
    // The distance first: adding a large step to an index could overflow.
    for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step) {
      visit(static_cast<size_t>(i));
      if (step > 0 ? step >= stop - i : step <= stop - i) break;
    }
  }

 private:
  static int64_t integer(const Value& value) {
    if (value.is_undefined()) fail_undefined(value.undefined());
    if (!value.is_integral()) fail("the bounds of a slice are integers");
    return value.integer();
  }
};

Value slice_text(const Text& text, const Value& start, const Value& stop, const Value& step) {
  const std::vector<size_t> starts = character_starts(text.bytes());
  const SliceRange range(start, stop, step, static_cast<int64_t>(starts.size()) - 1);
  if (range.step == 1) {
    const auto begin = static_cast<size_t>(range.start), end = static_cast<size_t>(std::max(range.start, range.stop));
    return text.slice(starts[begin], starts[end]);
  }
  Text out;
  range.for_each([&](size_t i) { out.append(text.slice(starts[i], starts[i + 1])); });
  return out;
}

std::vector<Value> characters_of(const Text& text) {
  const std::vector<size_t> starts = character_starts(text.bytes());
  std::vector<Value> characters;
  characters.reserve(starts.size());
  for (size_t i = 0; i + 1 < starts.size(); ++i) characters.emplace_back(text.slice(starts[i], starts[i + 1]));
  return characters;
}

}  // namespace

Value Interpreter::attribute(const Value& object, std::string_view name) {
  if (object.is_undefined()) fail_undefined(object.undefined());
  if (object.is_object()) return object.object()->attribute(*this, name);
  if (object.is_sequence() && object.sequence()->type == Sequence::Type::group) {
    if (name == "grouper") return object.sequence()->items[0];
    if (name == "list") return object.sequence()->items[1];
  }
  if (object.is_dict() && !find_method(object, name)) {
    if (const Value* value = object.dict()->find(name)) return *value;
  }
  return method_or_undefined(object, name);
}

Value Interpreter::item(const Value& object, const Value& key) {
  if (object.is_undefined()) fail_undefined(object.undefined());
  if (object.is_dict()) {
    const bool can_be_key = !key.is_dict() && (!key.is_sequence() || key.sequence()->is_tuple());
    if (const Value* value = can_be_key ? object.dict()->find(key) : nullptr) return *value;
  }
  if (key.is_integral()) {
    if (object.is_sequence() && object.sequence()->has_index()) return item_of(*object.sequence(), key.integer());
    if (object.is_text()) {
      charge_for(object);
      return character_of(object.text(), key.integer());
    }
  }
  if (key.is_text()) {
    if (object.is_object()) return object.object()->attribute(*this, key.bytes());
    return method_or_undefined(object, key.bytes());
  }
  return make_undefined("'" + std::string(type_name(object)) + " object' has no element " + to_repr(key).bytes());
}

Value Interpreter::slice(const Value& object, const Value& start, const Value& stop, const Value& step) {
  charge_for(object);
  if (object.is_text()) return slice_text(object.text(), start, stop, step);
  if (object.is_undefined()) fail_undefined(object.undefined());
  if (!object.is_sequence() || !object.sequence()->has_index()) {
    fail("a " + std::string(type_name(object)) + " cannot be sliced");
  }
  const auto& items = object.sequence()->items;
  std::vector<Value> part;
  SliceRange(start, stop, step, static_cast<int64_t>(items.size())).for_each([&](size_t i) {
    part.push_back(items[i]);
  });
  charge(static_cast<int64_t>(part.size()));
  return object.sequence()->is_tuple() ? make_tuple(std::move(part)) : make_list(std::move(part));
}

SequenceRef Interpreter::items_of(const Value& iterable) {
  if (iterable.is_sequence()) return iterable.sequence();
  std::vector<Value> items;
  if (iterable.is_text()) {
    items = characters_of(iterable.text().as_plain());
  } else if (iterable.is_dict()) {
    for (const auto& [key, value] : iterable.dict()->entries()) items.push_back(key);
  } else if (iterable.is_object() && iterable.object()->is_iterable()) {
    items = iterable.object()->take_items();
  } else if (!iterable.is_undefined()) {
    fail("a " + std::string(type_name(iterable)) + " cannot be iterated");
  }
  charge(static_cast<int64_t>(items.size()));
  return make_list(std::move(items)).sequence();
}

}  // namespace smelt::jinja
