// Filters over whole sequences: length, order, grouping, joining.
#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "jinja/functions.h"
#include "jinja/getter.h"
#include "jinja/objects.h"
#include "jinja/operators.h"
#include "jinja/repr.h"
#include "jinja/unicode.h"

namespace smelt::jinja {
namespace {

using Subject = const Value&;
using Given = const Arguments&;

Value length(Interpreter&, Subject value, Given given) {
  Parameters("length", given, {});
  if (value.is_text()) return count_characters(value.bytes());
  if (value.is_sequence()) return value.sequence()->items.size();
  if (value.is_dict()) return value.dict()->size();
  if (value.is_undefined()) return 0;
  fail("a " + std::string(type_name(value)) + " has no length");
}

Value first(Interpreter& interpreter, Subject value, Given given) {
  Parameters("first", given, {});
  if (value.is_object()) {
    if (auto* generator = dynamic_cast<Generator*>(value.object().get())) {
      return generator->take_first();
    }
  }
  const SequenceRef items = interpreter.items_of(value);
  return items->items.empty() ? make_undefined("No first item, sequence was empty.") : items->items.front();
}

Value last(Interpreter& interpreter, Subject value, Given given) {
  Parameters("last", given, {});
  if (value.is_object()) fail("last needs a sequence");
  if (value.is_undefined()) fail_undefined(value.undefined());
  const SequenceRef items = interpreter.items_of(value);
  return items->items.empty() ? make_undefined("No last item, sequence was empty.") : items->items.back();
}

Value list(Interpreter& interpreter, Subject value, Given given) {
  Parameters("list", given, {});
  return make_list(interpreter.items_of(value)->items);
}

Value items(Interpreter& interpreter, Subject value, Given given) {
  Parameters("items", given, {});
  if (value.is_undefined()) return make_generator({});
  if (!value.is_dict()) fail("items needs a mapping");
  return make_generator(interpreter.items_of(find_method(value, "items")(interpreter, value, {}))->items);
}

Value fallback(Interpreter&, Subject value, Given given) {
  const Parameters p("default", given, {"default_value", "boolean"});
  const bool is_missing = value.is_undefined() || (p.flag(1, false) && !is_true(value));
  return is_missing ? p.get(0, Value("")) : value;
}

Value join(Interpreter& interpreter, Subject value, Given given) {
  const Parameters p("join", given, {"d", "attribute"});
  const Getter get(interpreter, p.get(1, Value()));
  const Text separator = to_text(p.get(0, Value("")));
  const SequenceRef sequence = interpreter.items_of(value);
  Text out;
  for (size_t i = 0; i < sequence->items.size(); ++i) {
    if (i > 0) out.append(separator);
    const Text piece = to_text(get(sequence->items[i]));
    interpreter.charge_bytes(piece.size() + separator.size());
    out.append(piece);
    if (out.size() > interpreter.limits().output) interpreter.charge_bytes(out.size());
  }
  return out;
}

Value reverse(Interpreter& interpreter, Subject value, Given given) {
  Parameters("reverse", given, {});
  if (value.is_text()) return interpreter.slice(value, {}, {}, Value(-1));
  if (value.is_undefined()) return make_generator({});
  std::vector<Value> all = interpreter.items_of(value)->items;
  std::reverse(all.begin(), all.end());
  return make_generator(std::move(all));
}

// Texts in lower case unless the case matters.
Value sort_key(const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.is_text()) return value;
  return Value(to_lower(value.bytes()));
}

void charge_sorting(Interpreter& interpreter, size_t count) {
  interpreter.charge(static_cast<int64_t>(static_cast<double>(count) * std::log2(static_cast<double>(count) + 1)));
}

// Sorts by keys, stably, also in reverse.
std::vector<Value> sorted(Interpreter& interpreter, const std::vector<Value>& items,
                          const std::function<Value(const Value&)>& key, bool is_reverse) {
  charge_sorting(interpreter, items.size());
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : items) keyed.emplace_back(key(item), item);
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return is_reverse ? compare(b.first, a.first) < 0 : compare(a.first, b.first) < 0;
  });
  std::vector<Value> out;
  for (auto& [unused, item] : keyed) out.push_back(std::move(item));
  return out;
}

Value sort(Interpreter& interpreter, Subject value, Given given) {
  const Parameters p("sort", given, {"reverse", "case_sensitive", "attribute"});
  const bool case_sensitive = p.flag(1, false);
  // "a,b" sorts by both.
  std::vector<Getter> getters;
  const Value attribute = p.get(2, Value());
  if (attribute.is_text()) {
    const Arguments comma{{Value(",")}, {}};
    const Value parts = find_method(attribute, "split")(interpreter, attribute, comma);
    for (const Value& part : parts.sequence()->items) getters.emplace_back(interpreter, part);
  } else {
    getters.emplace_back(interpreter, attribute);
  }
  const auto key = [&](const Value& item) {
    std::vector<Value> keys;
    for (const Getter& get : getters) keys.push_back(sort_key(get(item), case_sensitive));
    return make_list(std::move(keys));
  };
  return make_list(sorted(interpreter, interpreter.items_of(value)->items, key, p.flag(0, false)));
}

Value dictsort(Interpreter& interpreter, Subject value, Given given) {
  const Parameters p("dictsort", given, {"case_sensitive", "by", "reverse"});
  if (value.is_undefined()) fail_undefined(value.undefined());
  if (!value.is_dict()) fail("dictsort needs a dict");
  const std::string by = p.text(1, "key").bytes();
  if (by != "key" && by != "value") fail("dictsort: by is either \"key\" or \"value\"");
  const auto key = [&](const Value& pair) {
    return sort_key(pair.sequence()->items[by == "key" ? 0 : 1], p.flag(0, false));
  };
  const Value pairs = find_method(value, "items")(interpreter, value, {});
  return make_list(sorted(interpreter, pairs.sequence()->items, key, p.flag(2, false)));
}

template <bool wants_max>
Value extreme(Interpreter& interpreter, Subject value, Given given) {
  const Parameters p("min", given, {"case_sensitive", "attribute"});
  const Getter get(interpreter, p.get(1, Value()));
  const SequenceRef sequence = interpreter.items_of(value);
  if (sequence->items.empty()) return make_undefined("No aggregated item, sequence was empty.");
  const bool case_sensitive = p.flag(0, false);
  const Value* best = &sequence->items.front();
  Value best_key = sort_key(get(*best), case_sensitive);
  for (size_t i = 1; i < sequence->items.size(); ++i) {
    Value key = sort_key(get(sequence->items[i]), case_sensitive);
    if (wants_max ? compare(key, best_key) > 0 : compare(key, best_key) < 0) {
      best = &sequence->items[i];
      best_key = std::move(key);
    }
  }
  return *best;
}

Value sum(Interpreter& interpreter, Subject value, Given given) {
  const Parameters p("sum", given, {"attribute", "start"});
  const Getter get(interpreter, p.get(0, Value()));
  Value total = p.get(1, Value(0));
  if (total.is_text()) fail("sum does not add strings; use join");
  const SequenceRef sequence = interpreter.items_of(value);
  for (const Value& item : sequence->items) {
    total = apply(interpreter, BinaryOp::add, total, get(item));
  }
  return total;
}

Value unique(Interpreter& interpreter, Subject value, Given given) {
  const Parameters p("unique", given, {"case_sensitive", "attribute"});
  const Getter get(interpreter, p.get(1, Value()));
  std::unordered_set<std::string> seen;
  std::vector<Value> out;
  const SequenceRef sequence = interpreter.items_of(value);
  for (const Value& item : sequence->items) {
    if (seen.insert(hash_key(sort_key(get(item), p.flag(0, false)))).second) out.push_back(item);
  }
  return make_generator(std::move(out));
}

Value groupby(Interpreter& interpreter, Subject value, Given given) {
  const Parameters p("groupby", given, {"attribute", "default", "case_sensitive"});
  const Getter get(interpreter, p[0], p.get(1, Value()), p.has(1));
  const auto key = [&](const Value& item) { return sort_key(get(item), p.flag(2, false)); };
  const std::vector<Value> all = sorted(interpreter, interpreter.items_of(value)->items, key, false);
  std::vector<Value> groups;
  for (size_t begin = 0; begin < all.size();) {
    size_t end = begin;
    while (end < all.size() && are_equal(key(all[end]), key(all[begin]))) ++end;
    std::vector<Value> pair = {get(all[begin]), make_list({all.begin() + begin, all.begin() + end})};
    groups.emplace_back(std::make_shared<const Sequence>(Sequence::Type::group, std::move(pair)));
    begin = end;
  }
  return make_list(std::move(groups));
}

Value batch(Interpreter& interpreter, Subject value, Given given) {
  const Parameters p("batch", given, {"linecount", "fill_with"});
  p[0];
  const int64_t size = p.integer(0, 0);
  const SequenceRef sequence = interpreter.items_of(value);
  std::vector<Value> lines, line;
  for (const Value& item : sequence->items) {
    if (static_cast<int64_t>(line.size()) == size && !line.empty()) lines.push_back(make_list(std::exchange(line, {})));
    line.push_back(item);
  }
  if (!line.empty()) {
    if (!p.is_absent(1) && size > static_cast<int64_t>(line.size())) {
      interpreter.charge(size);
      line.resize(static_cast<size_t>(size), p[1]);
    }
    lines.push_back(make_list(std::move(line)));
  }
  return make_generator(std::move(lines));
}

Value slice(Interpreter& interpreter, Subject value, Given given) {
  const Parameters p("slice", given, {"slices", "fill_with"});
  p[0];
  const SequenceRef sequence = interpreter.items_of(value);
  const std::vector<Value>& all = sequence->items;
  const int64_t slices = p.integer(0, 0), size = static_cast<int64_t>(all.size());
  if (slices <= 0) fail("slice needs a number of slices above 0");
  interpreter.charge(slices);
  const int64_t each = size / slices, with_extra = size % slices;
  std::vector<Value> out;
  int64_t offset = 0;
  for (int64_t i = 0; i < slices; ++i) {
    const int64_t start = offset + i * each;
    if (i < with_extra) ++offset;
    std::vector<Value> part(all.begin() + start, all.begin() + offset + (i + 1) * each);
    if (!p.is_absent(1) && i >= with_extra) part.push_back(p[1]);
    out.push_back(make_list(std::move(part)));
  }
  return make_generator(std::move(out));
}

constexpr NamedFilter kFilters[] = {
    {"length", length}, {"count", length},      {"first", first},        {"last", last},         {"list", list},
    {"items", items},   {"default", fallback},  {"d", fallback},         {"join", join},         {"reverse", reverse},
    {"sort", sort},     {"dictsort", dictsort}, {"min", extreme<false>}, {"max", extreme<true>}, {"sum", sum},
    {"unique", unique}, {"groupby", groupby},   {"batch", batch},        {"slice", slice}};

}  // namespace

std::span<const NamedFilter> sequence_filters() { return kFilters; }

}  // namespace smelt::jinja
