#include "graph/args.h"
#include "graph/constants.h"
#include "graph/range_kind.h"
#include "graph/verify_parts.h"

namespace smelt {
namespace {

bool is_number(DType dtype) { return is_int(dtype) || is_float(dtype); }

std::string same_dtype(Ref node) {
  for (Ref s : node->src)
    if (s->dtype != node->dtype) return "its sources are not of its dtype";
  return "";
}

std::string wants(bool holds, const char* what) { return holds ? "" : std::string("it wants ") + what; }

std::string either(std::string first, std::string second) { return first.empty() ? second : first; }

std::string leaf(Ref node) {
  switch (node->op) {
    case Op::Const:
    case Op::Param:
    case Op::Temp: return "";
    case Op::Local: return wants(node->arg.list.size() == 1 && node->arg.list[0] >= 0, "its size as list=[bytes]");
    case Op::Var:
      return either(wants(node->dtype == DType::I64, "dtype i64"), wants(!node->arg.name.empty(), "a name"));
    case Op::Iota: return wants(node->dtype == DType::I64, "dtype i64");
    case Op::Range: {
      const std::vector<int64_t>& list = node->arg.list;
      bool kind = !list.empty() && list[0] >= 0 && list[0] <= static_cast<int64_t>(RangeKind::Sweep);
      if (kind && list.size() > 1)
        kind = list.size() == 2 && list[0] == static_cast<int64_t>(RangeKind::Lane) && list[1] > 0;
      return either(wants(node->dtype == DType::I64 && node->src[0]->dtype == DType::I64, "dtype i64 and an i64 size"),
                    either(wants(kind, "its kind as list=[kind], lanes of threads with their stride"),
                           wants(is_range_number(node->arg.i), "a number of at most 48 bits")));
    }
    default: return "";
  }
}

std::string unary(Ref node) {
  DType from = node->src[0]->dtype;
  switch (node->op) {
    case Op::Neg: return either(wants(is_number(from), "a number"), same_dtype(node));
    case Op::Not: return either(wants(is_int(from) || from == DType::Bool, "an integer or bool"), same_dtype(node));
    case Op::Cast: return wants(from != DType::Void && node->dtype != DType::Void, "a value");
    case Op::Place: return either(wants(from != DType::Void, "a value"), same_dtype(node));
    case Op::Bitcast:
      if (from == DType::Void || from == DType::Bool || node->dtype == DType::Bool) return "it wants numbers";
      return wants(!node->shape.empty() || size_of(from) == size_of(node->dtype), "a dtype of the same size");
    case Op::Lut:
      return either(wants(is_int(from) && !is_signed_int(from), "an unsigned index"),
                    wants(!node->arg.list.empty() && is_number(node->dtype), "a table of numbers"));
    case Op::Lut4:
      return either(wants(from == DType::U32 && !node->arg.list.empty(), "a word u32, and a table"), same_dtype(node));
    default: return either(wants(is_float(from), "a float"), same_dtype(node));
  }
}

std::string binary(Ref node) {
  DType x = node->src[0]->dtype, y = node->src[1]->dtype;
  if (node->op == Op::Halves)
    return wants(x == DType::F32 && y == DType::F32 && node->dtype == DType::U32, "two f32, and is u32");
  if (node->op == Op::ScaledHalves && (node->arg.i < kSignedBytes || node->arg.i > 128))
    return "it is at most 128 less";
  if (node->op == Op::LessHalves || node->op == Op::ScaledHalves)
    return wants(x == DType::U32 && y == DType::F32 && node->dtype == DType::U32, "a word u32 and an f32, and is u32");
  if (x != y) return "its sources have dtypes " + std::string(name_of(x)) + " and " + std::string(name_of(y));
  switch (node->op) {
    case Op::Lt: return either(wants(is_number(x), "numbers"), wants(node->dtype == DType::Bool, "dtype bool"));
    case Op::Eq: return either(wants(x != DType::Void, "values"), wants(node->dtype == DType::Bool, "dtype bool"));
    case Op::And:
    case Op::Or:
    case Op::Xor: return either(wants(is_int(x) || x == DType::Bool, "integers or bools"), same_dtype(node));
    case Op::Shl:
    case Op::Shr:
    case Op::Mod: return either(wants(is_int(x), "integers"), same_dtype(node));
    default: return either(wants(is_number(x), "numbers"), same_dtype(node));
  }
}

std::string dot4(Ref node) {
  return wants(node->dtype == DType::I32 && node->src[0]->dtype == DType::I32 && node->src[1]->dtype == DType::U32 &&
                   node->src[2]->dtype == DType::U32,
               "an i32 and two words u32, and is i32");
}

std::string mad16(Ref node) {
  bool are_words = node->dtype == DType::U32;
  for (Ref s : node->src) are_words &= s->dtype == DType::U32;
  return wants(are_words, "words u32, and is one");
}

std::string fma(Ref node) {
  const bool wide = node->dtype == DType::F32 || node->dtype == DType::F64;
  return either(wants(wide, "dtype f32 or f64"),
                wants(node->src[0]->dtype == node->dtype && node->src[1]->dtype == node->dtype &&
                          node->src[2]->dtype == node->dtype,
                      "numbers of its dtype"));
}

std::string choice(Ref node) {
  if (node->src[0]->dtype != DType::Bool) return "its condition is not a bool";
  bool same = node->src[1]->dtype == node->dtype && node->src[2]->dtype == node->dtype;
  return wants(same && node->dtype != DType::Void, "both sides of its dtype");
}

std::string ternary(Ref node) {
  if (node->op == Op::Dot4) return dot4(node);
  if (node->op == Op::Mad16) return mad16(node);
  return node->op == Op::Fma ? fma(node) : choice(node);
}

// Values first; what follows them (ranges at kernel level) is checked by phase.
std::string reduction(Ref node) {
  if (node->src.empty()) return "it has no sources";
  DType x = node->src[0]->dtype;
  switch (node->op) {
    case Op::SoftmaxSum:
      return wants(node->src.size() >= 2 && is_float(x) && node->src[1]->dtype == node->dtype && is_float(node->dtype),
                   "float scores, and values of its dtype");
    case Op::TopK:
      return wants(is_number(x) && node->dtype == DType::I32 && top_count(node) >= 1, "numbers, k >= 1, dtype i32");
    default: return wants(is_number(x) && x == node->dtype, "numbers of its dtype");
  }
}

}  // namespace

std::string typing_problem(Ref node) {
  switch (class_of(node->op)) {
    case OpClass::leaf: return leaf(node);
    case OpClass::unary: return unary(node);
    case OpClass::binary: return binary(node);
    case OpClass::ternary: return ternary(node);
    case OpClass::reduce: return reduction(node);
    default: return "";
  }
}

}  // namespace smelt
