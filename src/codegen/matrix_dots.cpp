#include <algorithm>

#include "base/ensure.h"
#include "codegen/matrix_fragments.h"
#include "codegen/matrix_rows.h"
#include "codegen/opt_choice.h"
#include "codegen/passes.h"
#include "codegen/word_sums.h"
#include "graph/matrix_shape.h"
#include "graph/rules_algebra.h"

namespace smelt {
namespace {

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
  Ref a, b, row, lane;  // loads of words; the ranges of the product's elements
  Refs words, loops;    // the sum's ranges
};

SumParts failed(std::string problem) { return {.problem = std::move(problem)}; }

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
  m.shape.k = words * kBytesOfWord;
  return words > 1 ? "" : "its words are not written out";
}

SumParts match(Ref sum, const MatrixUnit& unit) {
  const Ref dot = words_of_sum(sum);
  if (!dot) return failed(kNoWordSums);
  SumParts m{.a = Dot4View(dot).y, .b = Dot4View(dot).x};
  if (m.a->op != Op::Load || m.b->op != Op::Load) return failed("its words are not plainly in memory");
  m.shape.a_is_signed = !has_range(offset_of(m.a), RangeKind::Lane);
  if (!m.shape.a_is_signed) std::swap(m.a, m.b);
  m.shape.greatest = Dot4View(dot).greatest;
  m.row = only_range(offset_of(m.a), RangeKind::MatrixRow), m.lane = only_range(offset_of(m.b), RangeKind::Lane);
  if (!m.lane || has_range(offset_of(m.a), RangeKind::Lane) || stride(offset_of(m.b), m.lane) != kBytesOfWord ||
      !is_const(RangeView(m.lane).size))
    return failed("lanes do not read a word each of one side");
  const auto step = m.row ? stride(offset_of(m.a), m.row) : std::nullopt;
  if (!step || has_range(offset_of(m.b), RangeKind::MatrixRow)) return failed("its rows are not those of one side");
  m.shape.m = RangeView(m.row).count(), m.shape.n = RangeView(m.lane).count();
  m.shape.a_stride = *step;
  if (m.shape.m > unit.m) return failed("a matrix has at most " + std::to_string(unit.m) + " rows");
  if (!split_ranges(sum, m.words, m.loops)) return failed("its terms are in lanes");
  m.problem = find_words(m, kMostMatrixSteps * words_at_once(unit));
  return m;
}

}  // namespace

std::string why_no_matrix_row(Ref sum, const MatrixUnit& unit) { return match(sum, unit).problem; }

Ref matrix_row_of(Ref sum, const MatrixUnit& unit) {
  const SumParts m = match(sum, unit);
  ENSURE(m.problem.empty(), m.problem);
  const auto begin = [&](Ref load) {
    Replacements zero{{m.row, constant(0)}, {m.lane, constant(0)}};
    for (Ref r : m.words) zero[r] = constant(0);
    return substitute(offset_of(load), zero);
  };
  const Ref product =
      make(Op::MatrixDot, DType::I32, {LoadView(m.a).buffer, begin(m.a), LoadView(m.b).buffer, begin(m.b)},
           {.list = m.shape.list()});
  Refs src{make(Op::MatrixItem, DType::I32, {product, m.row, m.lane})};
  src.insert(src.end(), m.loops.begin(), m.loops.end());
  return src.size() == 1 ? src[0] : with_sources(sum, std::move(src));
}

std::vector<MatrixShape> matrix_products(const Refs& stores, const MatrixUnit& unit, std::string* why_none) {
  std::vector<MatrixShape> shapes;
  const std::string reason = why_no_word_sum(stores, [&](Ref sum) {
    const SumParts m = match(sum, unit);
    if (m.problem.empty()) shapes.push_back(m.shape);
    return m.problem;
  });
  if (why_none) *why_none = reason;
  return shapes;
}

int64_t matrix_row_bytes(const Refs& stores) {
  int64_t bytes = 0;
  for (Ref n : reductions_of(stores)) {
    if (n->op != Op::ReduceSum || n->dtype != DType::I32 || holds_reduction(n)) continue;
    if (first_of_kind(ranges_of(n), RangeKind::MatrixRow)) bytes += copies_of(n) * kMatrixRowBytes;
  }
  return bytes;
}

Refs matrix_dots(const Refs& stores, const MatrixUnit& unit) {
  if (!unit.loads_operands) return fragment_dots(stores, unit);
  Refs out;
  for (Ref s : stores)
    out.push_back(rebuild(s, [&](Ref, Ref n) {
      return n->op == Op::ReduceSum && why_no_matrix_row(n, unit).empty() ? matrix_row_of(n, unit) : n;
    }));
  return out;
}

}  // namespace smelt
