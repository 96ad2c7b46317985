// What has a state or can be called: functions, methods, macros, loops, namespaces, joiners, cyclers, generators.
#pragma once

#include <functional>
#include <optional>

#include "jinja/functions.h"
#include "jinja/interpreter.h"

namespace smelt::jinja {

// A function of the environment, such as range.
class Function : public Object {
 public:
  using Body = std::function<Value(Interpreter&, const Arguments&)>;
  Function(std::string name, Body body) : name_(std::move(name)), body_(std::move(body)) {}
  std::string repr() const override { return "<function " + name_ + ">"; }
  bool is_callable() const override { return true; }
  Value call(Interpreter& interpreter, const Arguments& arguments) override { return body_(interpreter, arguments); }

 private:
  std::string name_;
  Body body_;
};

// A method together with its object: message.items
class Method : public Object {
 public:
  Method(Value self, std::string name, FilterFunction function)
      : self_(std::move(self)), name_(std::move(name)), function_(function) {}
  std::string repr() const override { return "<built-in method " + name_ + ">"; }
  bool is_callable() const override { return true; }
  Value call(Interpreter& interpreter, const Arguments& arguments) override {
    interpreter.charge_for(self_);
    return function_(interpreter, self_, arguments);
  }

 private:
  Value self_;
  std::string name_;
  FilterFunction function_;
};

class Macro : public Object {
 public:
  Macro(const MacroDefinition& definition, ScopePtr closure) : definition_(&definition), closure_(std::move(closure)) {}
  std::string repr() const override { return "<Macro '" + definition_->name + "'>"; }
  bool is_callable() const override { return true; }
  Value call(Interpreter& interpreter, const Arguments& arguments) override {
    return interpreter.call_macro(*definition_, closure_, arguments);
  }
  Value attribute(Interpreter& interpreter, std::string_view name) override;
  void release() override { closure_.reset(); }

 private:
  const MacroDefinition* definition_;
  ScopePtr closure_;
};

// The variable `loop`.
class LoopObject : public Object {
 public:
  LoopObject(SequenceRef items, int depth) : items_(std::move(items)), depth_(depth) {}
  void go_to(size_t index) { index_ = index; }
  void can_recur(const For& loop, ScopePtr scope) { loop_ = &loop, scope_ = std::move(scope); }

  std::string repr() const override;
  bool is_callable() const override { return loop_ != nullptr; }
  Value call(Interpreter& interpreter, const Arguments& arguments) override;
  Value attribute(Interpreter& interpreter, std::string_view name) override;

 private:
  Value neighbour(size_t index, const char* what) const;
  Value cycle(const Arguments& arguments) const;
  Value changed(const Arguments& arguments);

  SequenceRef items_;
  int depth_;
  size_t index_ = 0;
  const For* loop_ = nullptr;
  ScopePtr scope_;
  std::optional<std::vector<Value>> last_changed_;
};

// namespace(a=1): the one thing whose attributes can be set.
class Namespace : public Object {
 public:
  explicit Namespace(std::vector<std::pair<std::string, Value>> attributes) : attributes_(std::move(attributes)) {}
  std::string repr() const override { return "<Namespace>"; }
  Value attribute(Interpreter& interpreter, std::string_view name) override;
  bool set_attribute(std::string_view name, const Value& value) override;
  void release() override { attributes_.clear(); }

 private:
  std::vector<std::pair<std::string, Value>> attributes_;
};

// joiner(", "): nothing when called first, the separator afterwards.
class Joiner : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  std::string repr() const override { return "<Joiner>"; }
  bool is_callable() const override { return true; }
  Value call(Interpreter&, const Arguments&) override { return std::exchange(used_, true) ? separator_ : Value(""); }

 private:
  Value separator_;
  bool used_ = false;
};

// cycler(a, b): next() goes round.
class Cycler : public Object {
 public:
  explicit Cycler(std::vector<Value> items) : items_(std::move(items)) {}
  std::string repr() const override { return "<Cycler>"; }
  Value attribute(Interpreter& interpreter, std::string_view name) override;
  Value next();
  void reset() { at_ = 0; }
  void release() override { items_.clear(); }

 private:
  std::vector<Value> items_;
  size_t at_ = 0;
};

// What lazy filters return: it can be iterated once, is always true, and has no length.
class Generator : public Object {
 public:
  explicit Generator(std::vector<Value> items) : items_(std::move(items)) {}
  std::string repr() const override { return "<generator object>"; }
  bool is_iterable() const override { return true; }
  std::vector<Value> take_items() override { return std::exchange(items_, {}); }
  Value take_first();  // undefined at the end

 private:
  std::vector<Value> items_;
};

Value make_generator(std::vector<Value> items);

}  // namespace smelt::jinja
