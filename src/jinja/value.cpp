#include "jinja/value.h"

#include <algorithm>
#include <cmath>

#include "jinja/error.h"
#include "jinja/repr.h"

namespace smelt::jinja {
namespace {

void check_depth(int depth) {
  if (depth > kMaxNesting) {
    fail("lists and dicts are nested deeper than " + std::to_string(kMaxNesting) + " levels");
  }
}

bool are_equal(const Sequence& a, const Sequence& b) {
  const bool same_type = a.type == b.type || (a.is_tuple() && b.is_tuple());
  return same_type && std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(),
                                 [](const Value& x, const Value& y) { return jinja::are_equal(x, y); });
}

bool are_equal(const Dict& a, const Dict& b) {
  return a.size() == b.size() && std::all_of(a.entries().begin(), a.entries().end(), [&](const Dict::Entry& entry) {
           const Value* other = b.find(entry.first);
           return other && jinja::are_equal(entry.second, *other);
         });
}

template <class T>
int order(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

int compare_numbers(const Value& a, const Value& b) {
  return a.is_integral() && b.is_integral() ? order(a.integer(), b.integer()) : order(a.number(), b.number());
}

int compare_items(const Sequence& a, const Sequence& b) {
  for (size_t i = 0; i < std::min(a.items.size(), b.items.size()); ++i) {
    if (!are_equal(a.items[i], b.items[i])) return compare(a.items[i], b.items[i]);
  }
  return order(a.items.size(), b.items.size());
}

std::string number_key(double number) {
  // 1, 1.0 and true are one key.
  if (std::abs(number) < 9e15 && number == std::floor(number)) return "n" + std::to_string(std::llround(number));
  return "f" + float_repr(number);
}

}  // namespace

void fail(std::string what) { throw TemplateError(what); }

void fail_undefined(const Undefined& undefined) { fail(undefined.reason ? *undefined.reason : "a value is undefined"); }

Value make_undefined(std::string reason) { return Undefined{std::make_shared<const std::string>(std::move(reason))}; }

int Value::depth() const {
  if (is_sequence()) return sequence()->depth;
  return is_dict() ? dict()->depth() : 0;
}

Sequence::Sequence(Type sequence_type, std::vector<Value> elements) : type(sequence_type), items(std::move(elements)) {
  for (const Value& item : items) depth = std::max(depth, item.depth() + 1);
  check_depth(depth);
}

Value make_list(std::vector<Value> items) {
  return std::make_shared<const Sequence>(Sequence::Type::list, std::move(items));
}

Value make_tuple(std::vector<Value> items) {
  return std::make_shared<const Sequence>(Sequence::Type::tuple, std::move(items));
}

void Dict::set(Value key, Value value) {
  std::string hash = hash_key(key);
  depth_ = std::max({depth_, key.depth() + 1, value.depth() + 1});
  check_depth(depth_);
  if (const size_t at = position_of(key); at < entries_.size()) {
    entries_[at].second = std::move(value);
    return;
  }
  entries_.emplace_back(std::move(key), std::move(value));
  if (entries_.size() == kSmall + 1) {
    for (size_t i = 0; i < kSmall; ++i) index_.emplace(hash_key(entries_[i].first), i);
  }
  if (entries_.size() > kSmall) index_.emplace(std::move(hash), entries_.size() - 1);
}

size_t Dict::position_of(const Value& key) const {
  if (key.is_sequence() || key.is_dict()) hash_key(key);  // refuses what cannot be a key
  if (entries_.size() <= kSmall) {
    const auto is_it = [&](const Entry& entry) { return are_equal(entry.first, key); };
    return std::find_if(entries_.begin(), entries_.end(), is_it) - entries_.begin();
  }
  const auto at = index_.find(hash_key(key));
  return at == index_.end() ? entries_.size() : at->second;
}

const Value* Dict::find(const Value& key) const {
  const size_t at = position_of(key);
  return at < entries_.size() ? &entries_[at].second : nullptr;
}

const Value* Dict::find(std::string_view key) const {
  if (entries_.size() > kSmall) return find(Value(key));
  for (const auto& [name, value] : entries_) {
    if (name.is_text() && name.bytes() == key) return &value;
  }
  return nullptr;
}

Value Object::call(Interpreter&, const Arguments&) { fail(repr() + " is not callable"); }
Value Object::attribute(Interpreter&, std::string_view name) {
  return make_undefined(repr() + " has no attribute '" + std::string(name) + "'");
}
bool Object::set_attribute(std::string_view, const Value&) { return false; }
std::vector<Value> Object::take_items() { return {}; }

std::string_view type_name(const Value& value) {
  if (value.is_none()) return "NoneType";
  if (value.is_undefined()) return "Undefined";
  if (value.is_bool()) return "bool";
  if (value.is_integral()) return "int";
  if (value.is_number()) return "float";
  if (value.is_text()) return "str";
  if (value.is_dict()) return "dict";
  if (value.is_object()) return "object";
  switch (value.sequence()->type) {
    case Sequence::Type::list: return "list";
    case Sequence::Type::tuple:
    case Sequence::Type::group: return "tuple";
    case Sequence::Type::range: return "range";
    case Sequence::Type::keys: return "dict_keys";
    case Sequence::Type::values: return "dict_values";
    case Sequence::Type::items: return "dict_items";
  }
  return "object";
}

bool is_true(const Value& value) {
  if (value.is_none() || value.is_undefined()) return false;
  if (value.is_integral()) return value.integer() != 0;
  if (value.is_number()) return value.number() != 0;
  if (value.is_text()) return !value.text().empty();
  if (value.is_sequence()) return !value.sequence()->items.empty();
  if (value.is_dict()) return value.dict()->size() > 0;
  return true;
}

bool are_equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    return a.is_integral() && b.is_integral() ? a.integer() == b.integer() : a.number() == b.number();
  }
  if (a.is_text() && b.is_text()) return a.bytes() == b.bytes();
  if (a.is_sequence() && b.is_sequence()) return are_equal(*a.sequence(), *b.sequence());
  if (a.is_dict() && b.is_dict()) return are_equal(*a.dict(), *b.dict());
  if (a.is_object() && b.is_object()) return a.object() == b.object();
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

int compare(const Value& a, const Value& b) {
  if (a.is_undefined()) fail_undefined(a.undefined());
  if (b.is_undefined()) fail_undefined(b.undefined());
  if (a.is_number() && b.is_number()) return compare_numbers(a, b);
  // Bytes of UTF-8 have the order of the characters.
  if (a.is_text() && b.is_text()) return order(a.bytes(), b.bytes());
  if (a.is_sequence() && b.is_sequence()) {
    const Sequence &x = *a.sequence(), &y = *b.sequence();
    if (x.is_tuple() && y.is_tuple()) return compare_items(x, y);
    if (x.type == Sequence::Type::list && y.type == Sequence::Type::list) return compare_items(x, y);
  }
  fail("there is no order between " + std::string(type_name(a)) + " and " + std::string(type_name(b)));
}

std::string hash_key(const Value& key) {
  if (key.is_none()) return "N";
  if (key.is_undefined()) return "U";
  if (key.is_number()) return number_key(key.number());
  if (key.is_text()) return "s" + key.bytes();
  if (key.is_object()) return "o" + std::to_string(reinterpret_cast<uintptr_t>(key.object().get()));
  if (!key.is_sequence() || !key.sequence()->is_tuple()) {
    fail("a " + std::string(type_name(key)) + " cannot be a key of a dict");
  }
  std::string hash = "t";
  for (const Value& item : key.sequence()->items) {
    const std::string part = hash_key(item);
    hash += std::to_string(part.size()) + ":" + part;
  }
  return hash;
}

}  // namespace smelt::jinja
