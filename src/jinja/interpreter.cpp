#include "jinja/interpreter.h"

#include <algorithm>
#include <optional>

#include "jinja/error.h"
#include "jinja/functions.h"
#include "jinja/objects.h"
#include "jinja/repr.h"

namespace smelt::jinja {
namespace {

// Keeps a variable as it is for the time of a block.
template <class T>
class Restored {
 public:
  Restored(T& variable, T value) : variable_(variable), old_(std::exchange(variable, std::move(value))) {}
  ~Restored() { variable_ = std::move(old_); }

 private:
  T& variable_;
  T old_;
};

ScopePtr scope_in(const ScopePtr& parent) { return std::make_shared<Scope>(Scope{parent, {}}); }

}  // namespace

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope; scope = scope->parent.get()) {
    for (const auto& [key, value] : scope->variables) {
      if (key == name) return &value;
    }
  }
  return nullptr;
}

void Scope::set(std::string_view name, Value value) {
  for (auto& [key, old] : variables) {
    if (key != name) continue;
    old = std::move(value);
    return;
  }
  variables.emplace_back(name, std::move(value));
}

Interpreter::Interpreter(const Limits& limits, std::function<std::tm()> now)
    : limits_(limits), now_(std::move(now)), operations_left_(limits.operations) {}

Interpreter::~Interpreter() {
  for (const ObjectRef& object : kept_) object->release();
}

ObjectRef Interpreter::keep(ObjectRef object) {
  charge(16);
  kept_.push_back(object);
  return object;
}

Text Interpreter::render(const Body& body, std::span<const std::pair<std::string, Value>> context) {
  scope_ = scope_in(nullptr);
  add_globals(*scope_);
  for (const auto& [name, value] : context) scope_->set(name, value);
  scope_ = scope_in(scope_);
  Text out;
  out_ = &out;
  try {
    run(body);
  } catch (const TemplateError& error) {
    throw TemplateError(error.what(), error.line ? error.line : line_);
  }
  return out;
}

void Interpreter::charge(int64_t operations) {
  operations_left_ -= operations;
  if (operations_left_ < 0) {
    fail("the template takes more than " + std::to_string(limits_.operations) + " steps for this chat");
  }
}

void Interpreter::charge_for(const Value& value) {
  if (value.is_text()) charge(static_cast<int64_t>(value.text().size()) / Limits::kBytesPerOperation);
  if (value.is_sequence()) charge(static_cast<int64_t>(value.sequence()->items.size()) / 4);
  if (value.is_dict()) charge(static_cast<int64_t>(value.dict()->size()) / 4);
}

void Interpreter::charge_bytes(size_t count) {
  if (count > limits_.output) {
    fail("the template makes a text of more than " + std::to_string(limits_.output) + " bytes for this chat");
  }
  charge(static_cast<int64_t>(count) / Limits::kBytesPerOperation);
}

Interpreter::Flow Interpreter::run(const Body& body) {
  const Nested nested(*this);
  for (const Statement& statement : body) {
    if (const Flow flow = execute(statement); flow != Flow::next) return flow;
  }
  return Flow::next;
}

Interpreter::Flow Interpreter::run_scoped(const Body& body) {
  const Restored inner(scope_, scope_in(scope_));
  return run(body);
}

Interpreter::Flow Interpreter::execute(const Statement& statement) {
  charge(1);
  line_ = statement.line;
  return std::visit([this](const auto& node) { return execute(node); }, statement.node);
}

Interpreter::Flow Interpreter::execute(const Data& data) {
  write(data.text);
  return Flow::next;
}

Interpreter::Flow Interpreter::execute(const Print& print) {
  write(evaluate(print.value));
  return Flow::next;
}

void Interpreter::write(const Value& value) {
  if (value.is_text()) {
    charge_bytes(out_->size() + value.text().size() > limits_.output ? limits_.output + 1 : value.text().size());
    out_->append(value.text());
  } else {
    write(Value(to_text(value)));
  }
}

Interpreter::Flow Interpreter::execute(const If& statement) {
  for (const auto& [test, body] : statement.branches) {
    if (is_true(evaluate(test))) return run(body);
  }
  return run(statement.otherwise);
}

// What `write_it` prints, instead of printing it.
template <class WriteIt>
Text Interpreter::captured(const WriteIt& write_it) {
  Text text;
  {
    const Restored out(out_, &text);
    write_it();
  }
  return text;
}

Interpreter::Flow Interpreter::execute(const For& loop) { return run_loop(loop, evaluate(loop.iterable), 0); }

SequenceRef Interpreter::filtered_items(const For& loop, SequenceRef items) {
  if (!loop.filter) return items;
  const Restored inner(scope_, scope_in(scope_));
  std::vector<Value> kept;
  for (const Value& value : items->items) {
    charge(1);
    scope_->variables.clear();
    assign(loop.target, value);
    if (is_true(evaluate(loop.filter))) kept.push_back(value);
  }
  return make_list(std::move(kept)).sequence();
}

Interpreter::Flow Interpreter::run_loop(const For& loop, const Value& iterable, int depth) {
  const SequenceRef items = filtered_items(loop, items_of(iterable));
  const auto state = std::make_shared<LoopObject>(items, depth);
  if (loop.is_recursive) state->can_recur(loop, scope_);
  const ScopePtr around = scope_;
  const Restored inner(scope_, scope_in(around));
  bool some_round_ended = false;
  for (size_t i = 0; i < items->items.size(); ++i) {
    charge(1);
    // A macro or a block may have kept the scope of the last round.
    if (scope_.use_count() > 1) scope_ = scope_in(around);
    scope_->variables.clear();
    state->go_to(i);
    scope_->set("loop", ObjectRef(state));
    assign(loop.target, items->items[i]);
    const Flow flow = run(loop.body);
    if (flow == Flow::break_loop) break;
    some_round_ended |= flow == Flow::next;
  }
  // As jinja2 has it: also after rounds that all ended in break or continue.
  scope_ = around;
  return some_round_ended ? Flow::next : run_scoped(loop.otherwise);
}

Value Interpreter::call_loop(const For& loop, const ScopePtr& scope, int depth, const Value& iterable) {
  const Restored deeper(depth_, depth_ + 1);
  if (depth_ > limits_.depth) fail("a loop calls itself more than " + std::to_string(limits_.depth) + " levels deep");
  const Restored closure(scope_, scope);
  return captured([&] { run_loop(loop, iterable, depth); });
}

Interpreter::Flow Interpreter::execute(const Set& statement) {
  assign(statement.target, evaluate(statement.value));
  return Flow::next;
}

Interpreter::Flow Interpreter::execute(const SetBlock& statement) {
  Value text = captured([&] { run_scoped(statement.body); });
  assign(statement.target, filtered(statement.filters, std::move(text)));
  return Flow::next;
}

Value Interpreter::filtered(const std::vector<ExpressionPtr>& filters, Value value) {
  for (const ExpressionPtr& expression : filters) {
    const auto& call = std::get<Filter>(expression->node);
    value = filter(call.name, value, evaluate(call.arguments));
  }
  return value;
}

Interpreter::Flow Interpreter::execute(const FilterBlock& statement) {
  Value text = captured([&] { run_scoped(statement.body); });
  write(filtered(statement.filters, std::move(text)));
  return Flow::next;
}

Interpreter::Flow Interpreter::execute(const With& statement) {
  // All values are of the scope outside.
  std::vector<Value> values;
  for (const auto& [target, value] : statement.bindings) values.push_back(evaluate(value));
  const Restored inner(scope_, scope_in(scope_));
  for (size_t i = 0; i < values.size(); ++i) assign(statement.bindings[i].first, values[i]);
  return run(statement.body);
}

Interpreter::Flow Interpreter::execute(const Scoped& statement) { return run_scoped(statement.body); }

Interpreter::Flow Interpreter::execute(const MacroDefinition& macro) {
  scope_->set(macro.name, keep(std::make_shared<Macro>(macro, scope_)));
  return Flow::next;
}

Interpreter::Flow Interpreter::execute(const CallBlock& statement) {
  const auto& call_node = std::get<Call>(statement.call->node);
  const Value callee = evaluate(call_node.callee);
  Arguments arguments = evaluate(call_node.arguments);
  arguments.named.emplace_back("caller", keep(std::make_shared<Macro>(statement.caller, scope_)));
  write(call(callee, arguments));
  return Flow::next;
}

void Interpreter::assign(const Target& target, const Value& value) {
  if (!target.parts.empty()) return unpack(target, value);
  if (target.attribute.empty()) return scope_->set(target.name, value);
  const Value* object = scope_->find(target.name);
  if (!object || !object->is_object() || !object->object()->set_attribute(target.attribute, value)) {
    fail("'" + target.name + "' is no namespace, so it has no attribute to set");
  }
}

void Interpreter::unpack(const Target& target, const Value& value) {
  const SequenceRef items = items_of(value);
  if (items->items.size() != target.parts.size()) {
    fail(std::to_string(items->items.size()) + " values cannot be assigned to " + std::to_string(target.parts.size()) +
         " names");
  }
  for (size_t i = 0; i < items->items.size(); ++i) assign(target.parts[i], items->items[i]);
}

Value Interpreter::call_macro(const MacroDefinition& macro, const ScopePtr& closure, const Arguments& given) {
  const Restored deeper(depth_, depth_ + 1);
  if (depth_ > limits_.depth)
    fail("macros call each other more than " + std::to_string(limits_.depth) + " levels deep");
  const int line = line_;
  const Restored inner(scope_, scope_in(closure));
  bind_parameters(macro, given);
  Value text = captured([&] { run(macro.body); });
  line_ = line;
  return text;
}

void Interpreter::bind_parameters(const MacroDefinition& macro, const Arguments& given) {
  const size_t count = std::min(given.positional.size(), macro.parameters.size());
  std::vector<std::pair<std::string, Value>> named = given.named;
  const auto take_named = [&](std::string_view name) -> std::optional<Value> {
    const auto found = std::find_if(named.begin(), named.end(), [&](const auto& n) { return n.first == name; });
    if (found == named.end()) return std::nullopt;
    Value value = std::move(found->second);
    named.erase(found);
    return value;
  };
  bool declares_caller = false;
  std::vector<const Parameter*> missing;
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const Parameter& parameter = macro.parameters[i];
    declares_caller |= parameter.name == "caller";
    const std::optional<Value> value = i < count ? given.positional[i] : take_named(parameter.name);
    if (!value && parameter.fallback) missing.push_back(&parameter);
    scope_->set(parameter.name, value ? *value : make_undefined("parameter '" + parameter.name + "' was not provided"));
  }
  for (const Parameter* parameter : missing) scope_->set(parameter->name, evaluate(parameter->fallback));
  if (macro.mentions.caller && !declares_caller) {
    scope_->set("caller", take_named("caller").value_or(make_undefined("No caller defined")));
  }
  if (macro.mentions.kwargs) {
    auto dict = std::make_shared<Dict>();
    for (auto& [name, value] : named) dict->set(Value(name), value);
    scope_->set("kwargs", DictRef(std::move(dict)));
  } else if (!named.empty()) {
    fail("macro '" + macro.name + "' takes no keyword argument '" + named.front().first + "'");
  }
  if (macro.mentions.varargs) {
    scope_->set("varargs", make_tuple({given.positional.begin() + count, given.positional.end()}));
  } else if (given.positional.size() > macro.parameters.size()) {
    fail("macro '" + macro.name + "' takes not more than " + std::to_string(macro.parameters.size()) + " argument(s)");
  }
}

}  // namespace smelt::jinja
