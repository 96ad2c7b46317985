// Expressions of the interpreter.
#include "jinja/functions.h"
#include "jinja/interpreter.h"
#include "jinja/operators.h"
#include "jinja/repr.h"

namespace smelt::jinja {

Value Interpreter::evaluate(const Expression& expression) {
  const Nested nested(*this);
  charge(1);
  line_ = expression.line;
  return std::visit([this](const auto& node) { return eval(node); }, expression.node);
}

Value Interpreter::evaluate_or_none(const ExpressionPtr& expression) {
  return expression ? evaluate(expression) : Value();
}

Value Interpreter::eval(const Name& name) {
  if (const Value* value = scope_->find(name.name)) return *value;
  return make_undefined("'" + name.name + "' is undefined");
}

Value Interpreter::eval(const ListDisplay& list) {
  std::vector<Value> items;
  items.reserve(list.items.size());
  for (const ExpressionPtr& item : list.items) items.push_back(evaluate(item));
  return list.is_tuple ? make_tuple(std::move(items)) : make_list(std::move(items));
}

Value Interpreter::eval(const DictDisplay& display) {
  auto dict = std::make_shared<Dict>();
  for (const auto& [key, value] : display.entries) {
    Value name = evaluate(key);
    dict->set(std::move(name), evaluate(value));
  }
  return DictRef(std::move(dict));
}

Value Interpreter::eval(const Conditional& conditional) {
  if (is_true(evaluate(conditional.test))) return evaluate(conditional.then);
  if (conditional.otherwise) return evaluate(conditional.otherwise);
  return make_undefined("the inline if-expression evaluated to false and no else section was defined");
}

Value Interpreter::eval(const Unary& unary) {
  const Value operand = evaluate(unary.operand);
  switch (unary.op) {
    case UnaryOp::invert: return !is_true(operand);
    case UnaryOp::negate: return negate(operand);
    case UnaryOp::plus: return plus(operand);
  }
  return {};
}

Value Interpreter::eval(const Chain& chain) {
  Value value = evaluate(chain.first);
  for (const auto& [op, operand] : chain.rest) value = apply(*this, op, value, evaluate(operand));
  return value;
}

Value Interpreter::eval(const Concatenation& concatenation) {
  Text text;
  for (const ExpressionPtr& part : concatenation.parts) {
    const Text piece = to_text(evaluate(part));
    charge_bytes(text.size() + piece.size());
    text.append(piece);
  }
  return text;
}

Value Interpreter::eval(const Logical& logical) {
  Value value;
  for (const ExpressionPtr& operand : logical.operands) {
    value = evaluate(operand);
    if (is_true(value) != logical.is_and) break;
  }
  return value;
}

Value Interpreter::eval(const Comparison& comparison) {
  Value left = evaluate(comparison.first);
  for (const auto& [op, operand] : comparison.rest) {
    Value right = evaluate(operand);
    if (!holds(*this, op, left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::eval(const Attribute& access) { return attribute(evaluate(access.object), access.name); }

Value Interpreter::eval(const Subscript& subscript) {
  const Value object = evaluate(subscript.object);
  return item(object, evaluate(subscript.index));
}

Value Interpreter::eval(const Slice& part) {
  const Value object = evaluate(part.object);
  const Value start = evaluate_or_none(part.start), stop = evaluate_or_none(part.stop);
  return slice(object, start, stop, evaluate_or_none(part.step));
}

Value Interpreter::eval(const Call& node) {
  const Value callee = evaluate(node.callee);
  return call(callee, evaluate(node.arguments));
}

Value Interpreter::eval(const Filter& node) {
  const Value subject = evaluate(node.subject);
  return filter(node.name, subject, evaluate(node.arguments));
}

Value Interpreter::eval(const Test& node) {
  const Value subject = evaluate(node.subject);
  return test(node.name, subject, evaluate(node.arguments));
}

Arguments Interpreter::evaluate(const CallArguments& arguments) {
  Arguments values;
  for (const ExpressionPtr& argument : arguments.positional) values.positional.push_back(evaluate(argument));
  for (const auto& [name, argument] : arguments.named) values.named.emplace_back(name, evaluate(argument));
  if (arguments.more_positional) {
    const SequenceRef more = items_of(evaluate(arguments.more_positional));
    values.positional.insert(values.positional.end(), more->items.begin(), more->items.end());
  }
  if (arguments.more_named) {
    const Value more = evaluate(arguments.more_named);
    if (!more.is_dict()) fail("the argument after ** is no dict");
    for (const auto& [name, value] : more.dict()->entries()) {
      if (!name.is_text()) fail("the keys of the argument after ** are no strings");
      values.named.emplace_back(name.bytes(), value);
    }
  }
  return values;
}

Value Interpreter::filter(std::string_view name, const Value& subject, const Arguments& arguments) {
  const FilterFunction function = find_filter(name);
  if (!function) fail("the filter '" + std::string(name) + "' is unknown");
  charge_for(subject);
  return function(*this, subject, arguments);
}

bool Interpreter::test(std::string_view name, const Value& subject, const Arguments& arguments) {
  const TestFunction function = find_test(name);
  if (!function) fail("the test '" + std::string(name) + "' is unknown");
  charge_for(subject);
  return function(*this, subject, arguments);
}

Value Interpreter::call(const Value& callee, const Arguments& arguments) {
  if (callee.is_undefined()) fail_undefined(callee.undefined());
  if (!callee.is_object()) fail("a " + std::string(type_name(callee)) + " cannot be called");
  return callee.object()->call(*this, arguments);
}

}  // namespace smelt::jinja
