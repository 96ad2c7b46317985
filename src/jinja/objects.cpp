#include "jinja/objects.h"

#include <algorithm>

namespace smelt::jinja {
namespace {

// A method of an object, which it keeps alive.
template <class T, class Body>
Value make_method(T& object, std::string name, Body body) {
  auto call = [keeper = object.shared_from_this(), &object, body](Interpreter&, const Arguments& arguments) -> Value {
    return body(object, arguments);
  };
  return ObjectRef(std::make_shared<Function>(std::move(name), std::move(call)));
}

}  // namespace

Value Macro::attribute(Interpreter& interpreter, std::string_view name) {
  if (name == "name") return Value(definition_->name);
  return Object::attribute(interpreter, name);
}

std::string LoopObject::repr() const {
  return "<LoopContext " + std::to_string(index_ + 1) + "/" + std::to_string(items_->items.size()) + ">";
}

Value LoopObject::call(Interpreter& interpreter, const Arguments& arguments) {
  if (!loop_) fail("the loop is not recursive: write {% for ... recursive %}");
  return interpreter.call_loop(*loop_, scope_, depth_ + 1, Parameters("loop()", arguments, {"iterable"})[0]);
}

Value LoopObject::neighbour(size_t index, const char* what) const {
  if (index < items_->items.size()) return items_->items[index];
  return make_undefined(std::string("there is no ") + what + " item");
}

Value LoopObject::cycle(const Arguments& arguments) const {
  if (arguments.positional.empty()) fail("no items for cycling given");
  return arguments.positional[index_ % arguments.positional.size()];
}

Value LoopObject::changed(const Arguments& arguments) {
  const auto& now = arguments.positional;
  const bool is_same = last_changed_ && last_changed_->size() == now.size() &&
                       std::equal(now.begin(), now.end(), last_changed_->begin(),
                                  [](const Value& a, const Value& b) { return are_equal(a, b); });
  if (!is_same) last_changed_ = now;
  return !is_same;
}

Value LoopObject::attribute(Interpreter& interpreter, std::string_view name) {
  const size_t size = items_->items.size();
  if (name == "index") return index_ + 1;
  if (name == "index0") return index_;
  if (name == "first") return index_ == 0;
  if (name == "last") return index_ + 1 == size;
  if (name == "length") return size;
  if (name == "revindex") return size - index_;
  if (name == "revindex0") return size - index_ - 1;
  if (name == "depth") return depth_ + 1;
  if (name == "depth0") return depth_;
  if (name == "previtem") return neighbour(index_ - 1, "previous");
  if (name == "nextitem") return neighbour(index_ + 1, "next");
  if (name == "cycle") {
    return make_method(*this, "cycle", [](LoopObject& loop, const Arguments& given) { return loop.cycle(given); });
  }
  if (name == "changed") {
    return make_method(*this, "changed", [](LoopObject& loop, const Arguments& given) { return loop.changed(given); });
  }
  return Object::attribute(interpreter, name);
}

Value Namespace::attribute(Interpreter& interpreter, std::string_view name) {
  const auto is_it = [&](const auto& entry) { return entry.first == name; };
  const auto found = std::find_if(attributes_.begin(), attributes_.end(), is_it);
  return found == attributes_.end() ? Object::attribute(interpreter, name) : found->second;
}

bool Namespace::set_attribute(std::string_view name, const Value& value) {
  const auto is_it = [&](const auto& entry) { return entry.first == name; };
  const auto found = std::find_if(attributes_.begin(), attributes_.end(), is_it);
  if (found == attributes_.end()) {
    attributes_.emplace_back(name, value);
  } else {
    found->second = value;
  }
  return true;
}

Value Cycler::next() {
  if (items_.empty()) return {};
  const Value value = items_[at_];
  at_ = (at_ + 1) % items_.size();
  return value;
}

Value Cycler::attribute(Interpreter& interpreter, std::string_view name) {
  if (name == "current") return items_[at_];
  if (name == "next") return make_method(*this, "next", [](Cycler& cycler, const Arguments&) { return cycler.next(); });
  if (name == "reset") {
    return make_method(*this, "reset", [](Cycler& cycler, const Arguments&) { return cycler.reset(), Value(); });
  }
  return Object::attribute(interpreter, name);
}

Value Generator::take_first() {
  if (items_.empty()) return make_undefined("No first item, sequence was empty.");
  Value first = items_.front();
  items_.erase(items_.begin());
  return first;
}

Value make_generator(std::vector<Value> items) { return ObjectRef(std::make_shared<Generator>(std::move(items))); }

}  // namespace smelt::jinja
