// Value: what an expression of a template evaluates to, with the types and rules of Python that templates rely on.
//
// Values are immutable and shared, as the sandbox of Hugging Face has it (a list cannot be appended to); only Objects
// (namespaces, loops, joiners, generators) have a state. Containers know how deep they are nested, and there is a limit
// to that, so walking one needs no counter.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "jinja/text.h"

namespace smelt::jinja {

class Object;
class Interpreter;
struct Sequence;
class Dict;

struct None {};
// What a missing variable, attribute or item evaluates to: prints as nothing, is false, and most uses are an error.
struct Undefined {
  std::shared_ptr<const std::string> reason;  // "'x' is undefined"
};

using TextRef = std::shared_ptr<const Text>;
using SequenceRef = std::shared_ptr<const Sequence>;
using DictRef = std::shared_ptr<const Dict>;
using ObjectRef = std::shared_ptr<Object>;

class Value {
 public:
  Value() : data_(None{}) {}
  Value(Undefined undefined) : data_(std::move(undefined)) {}
  template <std::same_as<bool> B>
  Value(B value) : data_(value) {}
  template <std::integral I>
    requires(!std::same_as<I, bool>)
  Value(I value) : data_(static_cast<int64_t>(value)) {}
  Value(double value) : data_(value) {}
  Value(Text text) : data_(std::make_shared<const Text>(std::move(text))) {}
  Value(std::string trusted) : Value(Text(std::move(trusted))) {}
  Value(std::string_view trusted) : Value(std::string(trusted)) {}
  Value(const char* trusted) : Value(std::string(trusted)) {}
  Value(SequenceRef sequence) : data_(std::move(sequence)) {}
  Value(DictRef dict) : data_(std::move(dict)) {}
  Value(ObjectRef object) : data_(std::move(object)) {}

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(data_);
  }
  bool is_undefined() const { return is<Undefined>(); }
  bool is_none() const { return is<None>(); }
  bool is_bool() const { return is<bool>(); }
  bool is_text() const { return is<TextRef>(); }
  bool is_sequence() const { return is<SequenceRef>(); }
  bool is_dict() const { return is<DictRef>(); }
  bool is_object() const { return is<ObjectRef>(); }
  bool is_integral() const { return is<int64_t>() || is<bool>(); }  // to Python a bool is an int
  bool is_number() const { return is_integral() || is<double>(); }

  // REQUIRES: is such a value.
  const Undefined& undefined() const { return std::get<Undefined>(data_); }
  bool boolean() const { return std::get<bool>(data_); }
  int64_t integer() const { return is_bool() ? boolean() : std::get<int64_t>(data_); }
  double number() const { return is<double>() ? std::get<double>(data_) : static_cast<double>(integer()); }
  const Text& text() const { return *std::get<TextRef>(data_); }
  const std::string& bytes() const { return text().bytes(); }
  const SequenceRef& sequence() const { return std::get<SequenceRef>(data_); }
  const DictRef& dict() const { return std::get<DictRef>(data_); }
  const ObjectRef& object() const { return std::get<ObjectRef>(data_); }

  int depth() const;  // of nesting: 0 for what is no container

 private:
  std::variant<None, Undefined, bool, int64_t, double, TextRef, SequenceRef, DictRef, ObjectRef> data_;
};

// Containers nested deeper than this are refused.
inline constexpr int kMaxNesting = 128;

// Lists and what looks like one. All but lists, tuples and ranges can only be iterated and counted.
struct Sequence {
  enum class Type { list, tuple, range, group, keys, values, items };

  // Throws TemplateError where the nesting is too deep.
  Sequence(Type sequence_type, std::vector<Value> elements);
  bool has_index() const { return type <= Type::group; }
  bool is_tuple() const { return type == Type::tuple || type == Type::group; }

  Type type;  // group: the tuple (grouper, list) of the filter groupby
  std::vector<Value> items;
  int depth = 1;
};

Value make_list(std::vector<Value> items);
Value make_tuple(std::vector<Value> items);

// In the order of insertion.
class Dict {
 public:
  using Entry = std::pair<Value, Value>;

  // A later entry of an equal key replaces the value of the first one. Throws TemplateError where a key cannot be one
  // (a list, a dict) or the nesting is too deep.
  void set(Value key, Value value);
  const Value* find(const Value& key) const;  // null where it is missing
  const Value* find(std::string_view key) const;
  const std::vector<Entry>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }
  int depth() const { return depth_; }

 private:
  static constexpr size_t kSmall = 8;  // up to this many entries are looked through one by one
  size_t position_of(const Value& key) const;

  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t> index_;  // once there are more; by hash_key()
  int depth_ = 1;
};

// Positional and named arguments of a call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// Everything with a state or a call operator: functions, macros, methods, namespaces, loops, generators.
class Object : public std::enable_shared_from_this<Object> {
 public:
  virtual ~Object() = default;
  virtual std::string repr() const = 0;
  virtual bool is_callable() const { return false; }
  virtual Value call(Interpreter& interpreter, const Arguments& arguments);
  virtual Value attribute(Interpreter& interpreter, std::string_view name);  // undefined where there is none
  // False where attributes cannot be set.
  virtual bool set_attribute(std::string_view name, const Value& value);
  virtual bool is_iterable() const { return false; }
  virtual std::vector<Value> take_items();  // of an iterable: those not taken yet
  // Drops the references that may form a cycle. Called at the end of a rendering.
  virtual void release() {}
};

// --- rules of Python
std::string_view type_name(const Value& value);  // "str", "int", "list"
bool is_true(const Value& value);
bool are_equal(const Value& a, const Value& b);
// -1, 0 or 1. Throws TemplateError where Python has no order between them.
int compare(const Value& a, const Value& b);
// A text that is equal for equal keys of a dict. Throws TemplateError for what cannot be a key.
std::string hash_key(const Value& key);

[[noreturn]] void fail(std::string what);
// Throws what an Undefined says when it is used.
[[noreturn]] void fail_undefined(const Undefined& undefined);
Value make_undefined(std::string reason);

}  // namespace smelt::jinja
