#include <algorithm>

#include "base/ensure.h"
#include "codegen/matrix_fragments.h"
#include "codegen/matrix_rows.h"
#include "codegen/opt_choice.h"
#include "codegen/passes.h"
#include "codegen/products_of_halves.h"
#include "codegen/word_sums.h"
#include "graph/matrix_shape.h"
#include "graph/rules_algebra.h"

namespace smelt {
namespace {

constexpr int64_t kMostWordsOfHalves = 1 << 16;  // a unit goes over them in a loop

Ref offset_of(Ref load) { return LoadView(load).offset; }

// The one range of a kind that an offset depends on; none where there are several.
Ref only_range(Ref offset, RangeKind kind) {
  Ref found;
  for (Ref r : ranges_of(offset)) {
    if (kind_of(r) != kind) continue;
    if (found) return Ref();
    found = r;
  }
  return found;
}

bool has_range(Ref offset, RangeKind kind) {
  const Refs ranges = ranges_of(offset);
  return std::any_of(ranges.begin(), ranges.end(), [&](Ref r) { return kind_of(r) == kind; });
}

// Where the parts of a sum stand.
struct SumParts {
  std::string problem;
  MatrixShape shape;
  Ref a, b;              // loads of words, or of halves
  Ref row, block, lane;  // the ranges of the product's elements; there may be no blocks
  Ref half;              // of a word of halves: which of the two
  Refs words, loops;     // the sum's other ranges
};

SumParts failed(std::string problem) { return {.problem = std::move(problem)}; }

// Both halves of a word are side by side.
bool take_half(SumParts& m) {
  const auto is_half_of_word = [&](Ref r) {
    const auto in_step = [&](Ref load) { return stride(offset_of(load), r) == kBytesOfHalf; };
    return RangeView(r).count() == kBytesOfWord / kBytesOfHalf && in_step(m.a) && in_step(m.b);
  };
  const auto found = std::find_if(m.words.begin(), m.words.end(), is_half_of_word);
  if (found == m.words.end()) return false;
  m.half = *found;
  m.words.erase(found);
  return true;
}

// Words follow each other: in a row of `a`, and in steps of b_stride from row to row of `b`, in the same order.
std::string find_words(SumParts& m, int64_t most) {
  struct Step {
    int64_t a, b, size;
  };
  std::vector<Step> steps;
  for (Ref r : m.words) {
    const auto a = stride(offset_of(m.a), r), b = stride(offset_of(m.b), r);
    if (!a || !b) return "its words do not lie in even steps";
    steps.push_back({*a, *b, RangeView(r).count()});
  }
  std::sort(steps.begin(), steps.end(), [](const Step& x, const Step& y) { return x.a < y.a; });
  int64_t words = 1;
  for (const Step& s : steps) {
    if (s.a != kBytesOfWord * words) return "the words of a row do not follow each other";
    if (words == 1) m.shape.b_stride = s.b;
    if (s.b != m.shape.b_stride * words) return "its words do not lie in even steps";
    words *= s.size;
    if (words > most) return "more than " + std::to_string(most) + " words";
  }
  m.shape.k = words * kBytesOfWord / (m.half ? kBytesOfHalf : 1);
  return words > 1 ? "" : "its words are not written out";
}

// What a sum adds products of; false: it is no such sum.
bool find_operands(Ref sum, const LaneRules& rules, SumParts& m) {
  if (const Ref dot = words_of_sum(sum)) {
    m.a = Dot4View(dot).y, m.b = Dot4View(dot).x;
    m.shape.greatest = Dot4View(dot).greatest;
    return true;
  }
  if (!rules.halves.loads_operands || !adds_halves(sum) || ReduceView(sum).values[0]->op != Op::Mul) return false;
  const auto [x, y] = BinaryView(ReduceView(sum).values[0]);
  m.a = operand_of(x), m.b = operand_of(y);
  m.shape.of_halves = true;
  return true;
}

// Blocks of the lanes' side that a row is multiplied with.
std::string find_blocks(SumParts& m) {
  if (!has_range(offset_of(m.b), RangeKind::MatrixRow)) return "";
  m.block = m.shape.of_halves ? only_range(offset_of(m.b), RangeKind::MatrixRow) : Ref();
  const auto step = m.block ? stride(offset_of(m.b), m.block) : std::nullopt;
  if (!step || m.block == m.row) return "its rows are not those of one side";
  m.shape.blocks = RangeView(m.block).count(), m.shape.block_stride = *step;
  return m.shape.blocks <= kMostMatrixBlocks
             ? ""
             : "a row is multiplied with at most " + std::to_string(kMostMatrixBlocks) + " blocks";
}

SumParts match(Ref sum, const LaneRules& rules) {
  SumParts m;
  if (!find_operands(sum, rules, m)) return failed(kNoWordSums);
  const MatrixUnit& unit = m.shape.of_halves ? rules.halves : rules.unit;
  if (m.a->op != Op::Load || m.b->op != Op::Load) return failed("its words are not plainly in memory");
  const bool is_turned = has_range(offset_of(m.a), RangeKind::Lane);
  if (is_turned) std::swap(m.a, m.b);
  m.shape.a_is_signed = m.shape.of_halves || !is_turned;
  m.row = only_range(offset_of(m.a), RangeKind::MatrixRow), m.lane = only_range(offset_of(m.b), RangeKind::Lane);
  if (!m.lane || has_range(offset_of(m.a), RangeKind::Lane) || stride(offset_of(m.b), m.lane) != kBytesOfWord ||
      !is_const(RangeView(m.lane).size))
    return failed("lanes do not read a word each of one side");
  const auto step = m.row ? stride(offset_of(m.a), m.row) : std::nullopt;
  if (!step) return failed("its rows are not those of one side");
  if (m.problem = find_blocks(m); !m.problem.empty()) return m;
  m.shape.m = RangeView(m.row).count(), m.shape.n = RangeView(m.lane).count();
  m.shape.a_stride = *step;
  if (m.shape.m > unit.m) return failed("a matrix has at most " + std::to_string(unit.m) + " rows");
  if (!split_ranges(sum, m.words, m.loops)) return failed("its terms are in lanes");
  if (m.shape.of_halves && !take_half(m)) return failed("two halves are not written out as a word");
  const int64_t most = m.shape.of_halves ? kMostWordsOfHalves : kMostMatrixSteps * words_at_once(unit);
  m.problem = find_words(m, most);
  return m;
}

}  // namespace

std::string why_no_matrix_row(Ref sum, const LaneRules& rules) { return match(sum, rules).problem; }

Ref matrix_row_of(Ref sum, const LaneRules& rules) {
  const SumParts m = match(sum, rules);
  ENSURE(m.problem.empty(), m.problem);
  Replacements zero{{m.row, constant(0)}, {m.lane, constant(0)}};
  for (Ref r : m.words) zero[r] = constant(0);
  for (Ref r : {m.block, m.half})
    if (r) zero[r] = constant(0);
  const auto begin = [&](Ref load) { return substitute(offset_of(load), zero); };
  const Ref product =
      make(Op::MatrixDot, sum->dtype, {LoadView(m.a).buffer, begin(m.a), LoadView(m.b).buffer, begin(m.b)},
           {.list = m.shape.list()});
  const Ref item = m.block ? simplify(m.row * constant(m.shape.blocks) + m.block) : m.row;
  Refs src{make(Op::MatrixItem, sum->dtype, {product, item, m.lane})};
  src.insert(src.end(), m.loops.begin(), m.loops.end());
  return src.size() == 1 ? src[0] : with_sources(sum, std::move(src));
}

std::vector<MatrixShape> matrix_products(const Refs& stores, const LaneRules& rules, std::string* why_none) {
  std::vector<MatrixShape> shapes;
  const std::string reason = why_no_word_sum(stores, [&](Ref sum) {
    const SumParts m = match(sum, rules);
    if (m.problem.empty()) shapes.push_back(m.shape);
    return m.problem;
  });
  if (why_none) *why_none = reason;
  return shapes;
}

int64_t matrix_row_bytes(const Refs& stores) {
  int64_t bytes = 0;
  for (Ref n : reductions_of(stores)) {
    if (n->op != Op::ReduceSum || holds_reduction(n) || (n->dtype != DType::I32 && !adds_halves(n))) continue;
    if (first_of_kind(ranges_of(n), RangeKind::MatrixRow)) bytes += copies_of(n) * kMatrixRowBytes;
  }
  return bytes;
}

Refs matrix_dots(const Refs& stores, const LaneRules& rules) {
  if (!rules.unit.loads_operands) return fragment_dots(stores, rules.unit);
  Refs out;
  for (Ref s : stores)
    out.push_back(rebuild(s, [&](Ref, Ref n) {
      return n->op == Op::ReduceSum && why_no_matrix_row(n, rules).empty() ? matrix_row_of(n, rules) : n;
    }));
  return out;
}

}  // namespace smelt
