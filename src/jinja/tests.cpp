// The tests behind `is`.
#include <algorithm>

#include "jinja/functions.h"
#include "jinja/interpreter.h"
#include "jinja/operators.h"
#include "jinja/repr.h"

namespace smelt::jinja {
namespace {

using Subject = const Value&;
using Given = const Arguments&;

template <bool (*is_so)(const Value&)>
bool plain(Interpreter&, Subject value, Given given) {
  Parameters("this test", given, {});
  return is_so(value);
}

bool is_defined(const Value& v) { return !v.is_undefined(); }
bool is_undefined(const Value& v) { return v.is_undefined(); }
bool is_none(const Value& v) { return v.is_none(); }
bool is_boolean(const Value& v) { return v.is_bool(); }
bool is_true_itself(const Value& v) { return v.is_bool() && v.boolean(); }
bool is_false_itself(const Value& v) { return v.is_bool() && !v.boolean(); }
bool is_integer(const Value& v) { return v.is<int64_t>(); }
bool is_float(const Value& v) { return v.is<double>(); }
bool is_number(const Value& v) { return v.is_number(); }
bool is_string(const Value& v) { return v.is_text(); }
bool is_mapping(const Value& v) { return v.is_dict(); }
bool is_sequence(const Value& v) {
  return v.is_text() || v.is_dict() || v.is_undefined() || (v.is_sequence() && v.sequence()->has_index());
}
bool is_iterable(const Value& v) {
  return v.is_text() || v.is_dict() || v.is_undefined() || v.is_sequence() ||
         (v.is_object() && v.object()->is_iterable());
}
// What is undefined can be called; that it then fails is another matter.
bool is_callable(const Value& v) { return v.is_undefined() || (v.is_object() && v.object()->is_callable()); }
bool is_escaped(const Value& v) { return v.is_text() && v.text().is_markup(); }

template <CompareOp op>
bool compared(Interpreter& interpreter, Subject value, Given given) {
  return holds(interpreter, op, value, Parameters("this test", given, {"other"})[0]);
}

bool same_as(Interpreter&, Subject value, Given given) {
  const Value other = Parameters("sameas", given, {"other"})[0];
  if (value.is_sequence() && other.is_sequence()) return value.sequence() == other.sequence();
  if (value.is_dict() && other.is_dict()) return value.dict() == other.dict();
  return type_name(value) == type_name(other) && are_equal(value, other);
}

template <int rest>
bool parity(Interpreter& interpreter, Subject value, Given given) {
  Parameters("odd", given, {});
  return are_equal(apply(interpreter, BinaryOp::modulo, value, Value(2)), Value(rest));
}

bool divisible_by(Interpreter& interpreter, Subject value, Given given) {
  const Value divisor = Parameters("divisibleby", given, {"num"})[0];
  return are_equal(apply(interpreter, BinaryOp::modulo, value, divisor), Value(0));
}

template <const char* method>
bool text_is(Interpreter& interpreter, Subject value, Given given) {
  const Value text = to_text(value);
  return is_true(find_method(text, method)(interpreter, text, given));
}
constexpr char kIsLower[] = "islower", kIsUpper[] = "isupper";

bool is_filter(Interpreter&, Subject value, Given) { return value.is_text() && find_filter(value.bytes()); }
bool is_test(Interpreter&, Subject value, Given) { return value.is_text() && find_test(value.bytes()); }

struct NamedTest {
  std::string_view name;
  TestFunction function;
};

constexpr NamedTest kTests[] = {{"defined", plain<is_defined>},
                                {"undefined", plain<is_undefined>},
                                {"none", plain<is_none>},
                                {"boolean", plain<is_boolean>},
                                {"true", plain<is_true_itself>},
                                {"false", plain<is_false_itself>},
                                {"integer", plain<is_integer>},
                                {"float", plain<is_float>},
                                {"number", plain<is_number>},
                                {"string", plain<is_string>},
                                {"mapping", plain<is_mapping>},
                                {"sequence", plain<is_sequence>},
                                {"iterable", plain<is_iterable>},
                                {"callable", plain<is_callable>},
                                {"escaped", plain<is_escaped>},
                                {"equalto", compared<CompareOp::equal>},
                                {"eq", compared<CompareOp::equal>},
                                {"==", compared<CompareOp::equal>},
                                {"ne", compared<CompareOp::not_equal>},
                                {"!=", compared<CompareOp::not_equal>},
                                {"lt", compared<CompareOp::less>},
                                {"<", compared<CompareOp::less>},
                                {"lessthan", compared<CompareOp::less>},
                                {"le", compared<CompareOp::less_equal>},
                                {"<=", compared<CompareOp::less_equal>},
                                {"gt", compared<CompareOp::greater>},
                                {">", compared<CompareOp::greater>},
                                {"greaterthan", compared<CompareOp::greater>},
                                {"ge", compared<CompareOp::greater_equal>},
                                {">=", compared<CompareOp::greater_equal>},
                                {"in", compared<CompareOp::in>},
                                {"sameas", same_as},
                                {"odd", parity<1>},
                                {"even", parity<0>},
                                {"divisibleby", divisible_by},
                                {"lower", text_is<kIsLower>},
                                {"upper", text_is<kIsUpper>},
                                {"filter", is_filter},
                                {"test", is_test}};

}  // namespace

TestFunction find_test(std::string_view name) {
  const auto found = std::find_if(std::begin(kTests), std::end(kTests), [&](const auto& t) { return t.name == name; });
  return found == std::end(kTests) ? nullptr : found->function;
}

}  // namespace smelt::jinja
