// The functions that every template can call.
#include <ctime>

#include "jinja/objects.h"
#include "jinja/operators.h"

namespace smelt::jinja {
namespace {

Value range(Interpreter& interpreter, const Arguments& given) {
  const Parameters p("range()", given, {"start", "stop", "step"});
  const bool one = !p.has(1);
  const int64_t start = one ? 0 : p.integer(0, 0), stop = one ? p.integer(0, 0) : p.integer(1, 0);
  const int64_t step = p.integer(2, 1);
  p[0];
  if (step == 0) fail("the step of range() cannot be zero");
  const __int128 distance = step > 0 ? static_cast<__int128>(stop) - start : static_cast<__int128>(start) - stop;
  const __int128 stride = step > 0 ? static_cast<__int128>(step) : -static_cast<__int128>(step);
  const __int128 count = distance <= 0 ? 0 : (distance + stride - 1) / stride;
  if (count > interpreter.limits().range) {
    fail("range() would have more than " + std::to_string(interpreter.limits().range) + " items");
  }
  interpreter.charge(static_cast<int64_t>(count));
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < static_cast<int64_t>(count); ++i) items.emplace_back(start + i * step);
  return std::make_shared<const Sequence>(Sequence::Type::range, std::move(items));
}

// dict(a=1), dict(other, a=1), dict([["a", 1]])
Value dict(Interpreter& interpreter, const Arguments& given) {
  auto out = std::make_shared<Dict>();
  if (given.positional.size() > 1) fail("dict() takes at most 1 argument without a name");
  if (!given.positional.empty()) {
    const Value& from = given.positional[0];
    if (from.is_dict()) {
      interpreter.charge_for(from);
      *out = *from.dict();
    } else {
      const SequenceRef pairs = interpreter.items_of(from);
      for (const Value& pair : pairs->items) {
        const SequenceRef both = interpreter.items_of(pair);
        if (both->items.size() != 2) fail("dict() needs pairs of key and value");
        out->set(both->items[0], both->items[1]);
      }
    }
  }
  for (const auto& [name, value] : given.named) out->set(Value(name), value);
  return DictRef(std::move(out));
}

Value make_namespace(Interpreter& interpreter, const Arguments& given) {
  const DictRef attributes = dict(interpreter, given).dict();
  std::vector<std::pair<std::string, Value>> named;
  for (const auto& [key, value] : attributes->entries()) {
    if (key.is_text()) named.emplace_back(key.bytes(), value);
  }
  return interpreter.keep(std::make_shared<Namespace>(std::move(named)));
}

Value joiner(Interpreter&, const Arguments& given) {
  return ObjectRef(std::make_shared<Joiner>(Parameters("joiner()", given, {"sep"}).get(0, Value(", "))));
}

Value cycler(Interpreter& interpreter, const Arguments& given) {
  if (given.positional.empty()) fail("cycler() needs at least one item");
  return interpreter.keep(std::make_shared<Cycler>(given.positional));
}

Value raise_exception(Interpreter&, const Arguments& given) {
  const Value message = Parameters("raise_exception()", given, {"message"})[0];
  fail("it refuses this chat: " + (message.is_text() ? message.bytes() : std::string(type_name(message))));
}

Value strftime_now(Interpreter& interpreter, const Arguments& given) {
  const std::string format = Parameters("strftime_now()", given, {"format"}).text(0).bytes();
  if (format.size() > 256) fail("the format of strftime_now() is too long");
  if (format.empty()) return Value("");
  const std::tm now = interpreter.now();
  std::string buffer(64 * format.size() + 64, '\0');
  buffer.resize(std::strftime(buffer.data(), buffer.size(), format.c_str(), &now));
  return Value(buffer);
}

}  // namespace

void add_globals(Scope& scope) {
  const auto add = [&](const char* name, Value (*function)(Interpreter&, const Arguments&)) {
    scope.set(name, ObjectRef(std::make_shared<Function>(name, function)));
  };
  add("range", range);
  add("dict", dict);
  add("namespace", make_namespace);
  add("joiner", joiner);
  add("cycler", cycler);
  add("raise_exception", raise_exception);
  add("strftime_now", strftime_now);
}

}  // namespace smelt::jinja
