#include "render/msl_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/ensure.h"
#include "graph/scalar_math.h"

namespace smelt {
namespace {

struct MslFunction {
  const char *name, *text;
};

// In the order in which they use each other. Floats are compared as ours are: Max(x, y) is y where one of them is NaN.
constexpr MslFunction kFunctions[] = {
    {"larger", "static inline float larger(float x, float y) { return x > y ? x : y; }\n"},
    {"smaller", "static inline float smaller(float x, float y) { return x < y ? x : y; }\n"},
    {"floor_div",
     "template <typename T> static inline T floor_div(T x, T y) { return x / y - (x % y < 0 ? 1 : 0); }\n"},
    {"floor_mod",
     "template <typename T> static inline T floor_mod(T x, T y) { return x % y + (x % y < 0 ? y : 0); }\n"},
    {"from_bf16", "static inline float from_bf16(ushort bits) { return as_type<float>(uint(bits) << 16); }\n"},
    // To nearest, ties to even; NaN stays NaN.
    {"to_bf16",
     "static inline ushort to_bf16(float x) {\n"
     "  const uint bits = as_type<uint>(x);\n"
     "  if ((bits & 0x7fffffffu) > 0x7f800000u) return ushort(bits >> 16 | 64u);\n"
     "  return ushort((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);\n"
     "}\n"},
    {"dot4",
     "// Four unsigned bytes times four signed ones.\n"
     "static inline int dot4(int sum, uint x, uint y) {\n"
     "  return sum + int(x & 255u) * int(char(y)) + int(x >> 8 & 255u) * int(char(y >> 8)) +\n"
     "         int(x >> 16 & 255u) * int(char(y >> 16)) + int(x >> 24) * int(char(y >> 24));\n"
     "}\n"},
    {"mad16",
     "// Two numbers of 16 bits in a word; each wraps by itself.\n"
     "static inline uint mad16(uint x, uint y, uint z) {\n"
     "  return as_type<uint>(ushort2(as_type<ushort2>(x) * as_type<ushort2>(y) + as_type<ushort2>(z)));\n"
     "}\n"},
    {"look_up4",
     "static inline uint look_up4(constant uchar* table, uint x) {\n"
     "  return uint(table[x & 255u]) | uint(table[x >> 8 & 255u]) << 8 | uint(table[x >> 16 & 255u]) << 16 |\n"
     "         uint(table[x >> 24]) << 24;\n"
     "}\n"},
};

std::string shortest(float value) {
  char text[40];
  std::string digits(text, std::to_chars(text, text + sizeof text, value).ptr);
  if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
  return digits;
}

}  // namespace

// Shifts and bits beside other operators have parentheses in any case: few know how tightly those bind.
std::string MslExpr::in(MslBinding outer) const {
  const bool is_odd = outer == MslBinding::Shift || outer == MslBinding::Bits;
  const bool is_plain = binding <= MslBinding::Unary;
  return is_plain || (binding < outer && !is_odd) ? text : "(" + text + ")";
}

MslExpr msl_binary(const MslExpr& x, const std::string& name, const MslExpr& y, MslBinding binding) {
  const bool goes_on = x.binding == binding && binding == MslBinding::Sum;  // taken from left to right
  return {(goes_on ? x.text : x.in(binding)) + " " + name + " " + y.in(binding), binding};
}

MslExpr msl_call(const std::string& function, std::span<const MslExpr> arguments) {
  std::string text = function + "(";
  for (size_t i = 0; i < arguments.size(); ++i) text += (i ? ", " : "") + arguments[i].text;
  return {text + ")"};
}

MslExpr msl_cast(DType dtype, const MslExpr& x) { return msl_call(msl_type(dtype), {&x, 1}); }

std::string msl_type(DType dtype) {
  switch (dtype) {
    case DType::Void: return "void";
    case DType::Bool: return "bool";
    case DType::I8: return "char";
    case DType::U8: return "uchar";
    case DType::I16: return "short";
    case DType::U16:
    case DType::BF16: return "ushort";
    case DType::I32: return "int";
    case DType::U32: return "uint";
    case DType::I64: return "long";
    case DType::F16: return "half";
    case DType::F32: return "float";
    case DType::F64: break;
  }
  ENSURE(false, "[render] Metal has no numbers of type f64");
  return {};
}

std::string msl_memory_type(DType dtype) { return dtype == DType::Bool ? "uchar" : msl_type(dtype); }

std::string msl_int(int64_t value, DType dtype) {
  const int64_t number = wrap(value, dtype);
  if (dtype == DType::Bool) return number ? "true" : "false";
  if (number == lowest_int(dtype) && size_of(dtype) >= 4 && is_signed_int(dtype))
    return "(" + std::to_string(number + 1) + (dtype == DType::I64 ? "L" : "") + " - 1)";
  const std::string digits = std::to_string(number);
  switch (dtype) {
    case DType::I32: return digits;
    case DType::U32: return digits + "u";
    case DType::I64: return digits + "L";
    default: return msl_type(dtype) + "(" + digits + ")";
  }
}

std::string msl_float(double value, DType dtype) {
  if (dtype == DType::BF16) return msl_int(static_cast<int64_t>(to_bits({.f = value}, dtype)), DType::U16);
  const double rounded = round_to(value, dtype);
  std::string text = std::isnan(rounded)   ? "NAN"
                     : std::isinf(rounded) ? (rounded < 0 ? "-INFINITY" : "INFINITY")
                                           : shortest(static_cast<float>(rounded)) + "f";
  return dtype == DType::F16 ? "half(" + text + ")" : text;
}

std::string MslPreamble::function(const std::string& name) {
  const auto is_it = [&](const MslFunction& f) { return f.name == name; };
  ENSURE(std::any_of(std::begin(kFunctions), std::end(kFunctions), is_it), "no function " + name + " for Metal");
  functions_.insert(name);
  return name;
}

void MslPreamble::add(const std::string& name, const std::string& text) {
  for (const auto& [known, its_text] : added_)
    if (known == name) return;
  added_.emplace_back(name, text);
}

std::string MslPreamble::table(std::span<const int64_t> entries, DType dtype) {
  std::string text = "[" + std::to_string(entries.size()) + "] = {";
  for (size_t i = 0; i < entries.size(); ++i)
    text += (i ? ", " : "") + (is_float(dtype) ? msl_float(static_cast<double>(entries[i]), dtype)
                                               : std::to_string(wrap(entries[i], dtype)));
  text += "};\n";
  const std::string type = "constant " + msl_memory_type(dtype) + " table";
  size_t number = 0;
  while (number < tables_.size() && tables_[number] != type + std::to_string(number) + text) ++number;
  if (number == tables_.size()) tables_.push_back(type + std::to_string(number) + text);
  return "table" + std::to_string(number);
}

std::string MslPreamble::text() const {
  std::string text;
  for (const std::string& table : tables_) text += table;
  for (const MslFunction& f : kFunctions)
    if (functions_.contains(f.name)) text += f.text;
  for (const auto& [name, its_text] : added_) text += its_text;
  return text.empty() ? "" : text + "\n";
}

}  // namespace smelt
