#include "codegen/known_integers.h"

#include <algorithm>

#include "codegen/instruction_views.h"
#include "graph/scalar_math.h"

namespace smelt {

KnownIntegers::KnownIntegers(const Program& program, const std::map<std::string, int64_t>& symbols)
    : program_(program), values_(program.code.size()) {
  for (size_t i = 0; i < program.code.size(); ++i) values_[i] = value_of(program.code[i], symbols);
}

std::optional<double> KnownIntegers::rounds(const Instruction& loop) const {
  const auto begin = of(LoopView(loop).begin), end = of(LoopView(loop).end);
  if (!begin || !end) return std::nullopt;
  return static_cast<double>(std::max<int64_t>(*end - *begin, 0));
}

std::optional<int64_t> KnownIntegers::value_of(const Instruction& i,
                                               const std::map<std::string, int64_t>& symbols) const {
  switch (i.kind) {
    case Inst::Symbol: {
      const auto given = symbols.find(program_.symbols[static_cast<size_t>(i.arg.i)]);
      return given == symbols.end() ? std::optional<int64_t>() : given->second;
    }
    case Inst::Part: return part_value(i) == PartValue::Index ? 0 : 1;  // part 0 of 1
    case Inst::Loop: return of(LoopView(i).begin);
    case Inst::Value: break;
    default: return std::nullopt;
  }
  if (i.lanes != 1 || (i.dtype != DType::I64 && i.dtype != DType::I32)) return std::nullopt;
  if (i.op == Op::Const) return i.arg.i;
  if (i.op == Op::Cast) return of(only_operand(i));
  if (i.src.size() != 2 || !of(i.src[0]) || !of(i.src[1])) return std::nullopt;
  const auto result = apply_binary(i.op, i.dtype, {.i = *of(i.src[0])}, {.i = *of(i.src[1])});
  return result ? std::optional<int64_t>(result->i) : std::nullopt;
}

}  // namespace smelt
