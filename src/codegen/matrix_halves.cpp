#include "codegen/matrix_halves.h"

#include <algorithm>
#include <optional>

#include "codegen/opt.h"
#include "codegen/packed_bytes.h"
#include "codegen/products_of_halves.h"
#include "codegen/program.h"
#include "graph/constants.h"
#include "graph/matrix_shape.h"
#include "graph/range_kind.h"
#include "graph/rules_algebra.h"

namespace smelt {
namespace {

constexpr int64_t kHalf = 2;                            // bytes
constexpr int64_t kMostZero = 128;                      // less which bytes are exact in bf16
constexpr int64_t kMostColumns = 256;                   // of the unit
constexpr int64_t kStepsOfProduct = 8;                  // whose words are in registers together
constexpr int64_t kByteRange = kFirstReduceRange + 30;  // of no other range: it is gone when the pass is done

// Where the parts of a sum stand.
struct Parts {
  std::string problem;
  MatrixShape shape;
  Ref a, b;                  // halves of a row: bf16; the load of those of a column
  Ref rows, columns, place;  // as in matrix_fragments.cpp
  Refs inner;                // ranges of the sum: of eight halves of a column that lie side by side
  Refs blocks;               // of columns, by eights
  Refs steps, loops;         // the sum's other ranges: written out, and left
};

Parts failed(std::string problem) { return {.problem = std::move(problem)}; }

Ref offset_of(Ref load) { return LoadView(load).offset; }
bool is_size(Ref range, int64_t size) { return is_const(RangeView(range).size, size); }
bool is_load(Ref x) { return x->op == Op::Load; }

int64_t step_of(const Parts& p, Ref range) { return stride(offset_of(p.b), range).value_or(0); }

// Ranges that follow each other in even steps from `first` on, in the order of their steps. Returns how many values
// they have together; 0: they do not.
int64_t count_in_steps(const Parts& p, Refs& ranges, int64_t first) {
  std::sort(ranges.begin(), ranges.end(), [&](Ref x, Ref y) { return step_of(p, x) < step_of(p, y); });
  int64_t count = 1;
  for (Ref r : ranges) {
    if (step_of(p, r) != first * count) return 0;
    count *= RangeView(r).count();
  }
  return count;
}

// The sum's ranges: of the elements that the unit multiplies at once, and of what is around them.
std::string sort_ranges(Ref sum, Parts& p) {
  for (Ref r : ReduceView(sum).ranges) {
    if (kind_of(r) == RangeKind::Lane) return "its terms are in threads";
    if (kind_of(r) != RangeKind::Unroll)
      p.loops.push_back(r);
    else
      (step_of(p, r) < kCoreRowBytes ? p.inner : p.steps).push_back(r);
  }
  if (count_in_steps(p, p.inner, kHalf) != kCoreRowBytes / kHalf)
    return "eight halves of a column are not side by side";
  const int64_t count = count_in_steps(p, p.steps, kCoreBytes);
  if (count == 0 || count % 2 != 0) return "its halves do not lie in steps of the unit";
  p.shape.k = count * kCoreRowBytes / kHalf;
  return "";
}

// Columns: two neighbours in a thread, four threads, and eights of them.
std::string sort_columns(Ref sum, const Refs& of_a, const Refs& of_b, Parts& p) {
  for (Ref r : of_b) {
    if (contains(of_a, r) || contains(ReduceView(sum).ranges, r)) continue;
    if (is_of_threads(r)) {
      if (thread_stride(r) != 1 || !is_size(r, kFragmentPlaces) || step_of(p, r) != 2 * kCoreRowBytes)
        return "columns are in other threads than four";
      p.place = r;
    } else if (kind_of(r) == RangeKind::Unroll) {
      if (is_size(r, 2) && step_of(p, r) == kCoreRowBytes)
        p.columns = r;
      else
        p.blocks.push_back(r);
    }
  }
  if (!p.place || !p.columns) return "a thread does not have two neighbouring columns";
  const int64_t first = p.blocks.empty() ? 0 : [&] {
    int64_t least = step_of(p, p.blocks[0]);
    for (Ref r : p.blocks) least = std::min(least, step_of(p, r));
    return least;
  }();
  const int64_t blocks = p.blocks.empty() ? 1 : count_in_steps(p, p.blocks, first);
  if (blocks == 0 || blocks * kFragmentGroups > kMostColumns) return "its columns do not lie in even steps";
  p.shape.n = blocks * kFragmentGroups;
  p.shape.b_stride = p.blocks.empty() ? kCoreBytes : first;
  return p.shape.b_stride % kCoreRowBytes == 0 ? "" : "its columns do not lie in even steps";
}

// Threads of the four warps have rows of their own, and none of them columns.
std::string sort_rows(const Refs& of_a, const Refs& of_b, bool with_warps, Parts& p) {
  int64_t groups = 1, warps = 1;
  for (Ref r : of_a) {
    if (kind_of(r) == RangeKind::MatrixRow && is_size(r, 2) && !contains(of_b, r)) p.rows = r;
    if (!is_of_threads(r) || r == p.place) continue;
    if (contains(of_b, r)) return "threads share out columns, too";
    if (thread_stride(r) < kFragmentPlaces) return "threads of a warp share out other axes, too";
    (thread_stride(r) < kWarp ? groups : warps) *= RangeView(r).count();
  }
  if (!p.rows || groups != kFragmentGroups) return "a warp is not 8 threads along the rows of one side";
  return !with_warps || warps % kWarpgroupWarps == 0 ? "" : "four warps do not have rows of their own";
}

Parts match(Ref sum, bool with_warps) {
  if (!adds_halves(sum) || ReduceView(sum).values[0]->op != Op::Mul) return failed("there are no sums of halves");
  const auto [x, y] = BinaryView(ReduceView(sum).values[0]);
  Parts p{.a = operand_of(x), .b = operand_of(y)};
  p.shape = {.m = kWarpgroupWarps * 2 * kFragmentGroups, .in_fragments = true, .of_halves = true};
  const auto has_columns = [](Ref side) {
    const Refs ranges = ranges_of(side);
    return is_load(side) &&
           std::none_of(ranges.begin(), ranges.end(), [](Ref r) { return kind_of(r) == RangeKind::MatrixRow; });
  };
  if (!has_columns(p.b)) std::swap(p.a, p.b);
  if (!has_columns(p.b)) return failed("the columns of one side are not plainly in memory");
  const Refs of_a = ranges_of(p.a), of_b = ranges_of(p.b);
  p.problem = sort_ranges(sum, p);
  if (p.problem.empty()) p.problem = sort_columns(sum, of_a, of_b, p);
  if (p.problem.empty()) p.problem = sort_rows(of_a, of_b, with_warps, p);
  return p;
}

// The values of ranges whose values together are counted by `number`.
void choose_values(const Refs& ranges, Ref number, Replacements& by) {
  int64_t inside = 1;
  for (Ref r : ranges) {
    by[r] = simplify(number / constant(inside) % constant(RangeView(r).count()));
    inside *= RangeView(r).count();
  }
}

// --- words of rows

// A weight as its block says: (byte - zero) * scale - minimum, rounded as ScaledHalves and LessHalves do. Or a number
// of a cache, whose scale stays outside of the sum.
struct ScaledByte {
  Ref byte, scale;
  int64_t zero = 0;  // or kSignedBytes
  Ref minimum;       // null: none
};

Ref without_cast(Ref x, DType to) { return x->op == Op::Cast && x->dtype == to ? operand_of(x) : Ref(); }

bool depends_on_any(Ref x, const Refs& ranges) {
  return std::any_of(ranges.begin(), ranges.end(), [&](Ref r) { return depends_on(x, r); });
}

// What was rounded to bf16, as f32, if the four numbers of a word have it in common; null if they do not.
Ref common_number(Ref x, const Refs& ranges) {
  if (!is_half(x) || depends_on_any(x, ranges)) return Ref();
  const Ref rounded = without_cast(operand_of(x), DType::BF16);
  return rounded && is_float(rounded->dtype) ? cast(rounded, DType::F32) : Ref();
}

// byte - zero, as a float; false if it is something else, or not exact in bf16.
bool find_byte(Ref value, ScaledByte& out) {
  if (value->op == Op::Sub && BinaryView(value).y->op == Op::Const) {
    out.zero = static_cast<int64_t>(BinaryView(value).y->arg.f);
    if (static_cast<double>(out.zero) != BinaryView(value).y->arg.f) return false;
    value = BinaryView(value).x;
  }
  out.byte = is_byte(value->dtype) ? value : without_cast(value, DType::F32);
  if (out.byte && out.byte->dtype == DType::I8 && out.zero == 0) {
    out.zero = kSignedBytes;
    return true;
  }
  return out.byte && out.byte->dtype == DType::U8 && out.zero >= 0 && out.zero <= kMostZero;
}

std::optional<ScaledByte> scaled_byte(Ref half, const Refs& ranges) {
  const Ref product = without_cast(half, DType::BF16);
  if (product && product->op == Op::Sub && is_half(BinaryView(product).x)) {
    const auto [x, y] = BinaryView(product);
    auto scaled = scaled_byte(operand_of(x), ranges);
    if (!scaled || scaled->minimum) return std::nullopt;
    scaled->minimum = common_number(y, ranges);
    return scaled->minimum ? scaled : std::nullopt;
  }
  ScaledByte plain{.scale = constant_f(1, DType::F32)};
  if (product && find_byte(product, plain)) return plain;
  if (!product || product->op != Op::Mul) return std::nullopt;
  const auto [x, y] = BinaryView(product);
  for (const auto& [scale, integer] : {std::pair{x, y}, std::pair{y, x}}) {
    ScaledByte out{.scale = common_number(scale, ranges)};
    if (out.scale && find_byte(integer, out)) return out;
  }
  return std::nullopt;
}

Ref at_element(Ref half, const Parts& p, Ref element) {
  Replacements by;
  choose_values(p.inner, element, by);
  return simplify(substitute(half, by));
}

// The word of a thread in eight number `core` of block `row` of its rows, over kHalfUnit, where it takes all bytes of a
// quad (kQuad). Null if it does not.
Ref word_of_quad(const Parts& p, int64_t core, int64_t row) {
  if (!is_size(p.steps[0], kQuad / kPair)) return Ref();
  Replacements of_core{{p.rows, constant(row)}};
  choose_values(p.steps, constant(core), of_core);
  of_core.erase(p.steps[0]);
  Refs of_quads = p.inner;
  of_quads.push_back(p.steps[0]);
  const auto scaled = scaled_byte(substitute(p.a, of_core), of_quads);
  if (!scaled) return Ref();
  const Ref four = make_range(kByteRange, constant(kQuad), RangeKind::Byte);
  Replacements by{{p.steps[0], four % kPair}};
  choose_values(p.inner, p.place * kPair + four / kPair, by);
  Ref packed = packed_bytes(simplify(substitute(scaled->byte, by)), four);
  if (!packed) return Ref();
  if (core % (kQuad / kPair) != 0) packed = binary(Op::Shr, packed, constant(8, DType::U32));
  const Ref halves = make(Op::ScaledHalves, DType::U32, {packed, scaled->scale}, {.i = scaled->zero}),
            over_unit = constant_f(1 / kHalfUnit, DType::F32);
  return scaled->minimum ? make(Op::LessHalves, DType::U32, {halves, scaled->minimum * over_unit}) : halves;
}

// The word of a thread from two numbers.
Ref word_of_numbers(const Parts& p, int64_t core, int64_t row) {
  Replacements by{{p.rows, constant(row)}};
  choose_values(p.steps, constant(core), by);
  const Ref half = substitute(p.a, by), rounded = without_cast(half, DType::BF16);
  const Ref number = rounded && rounded->dtype == DType::F32 ? rounded : cast(half, DType::F32);
  const auto at = [&](int64_t i) { return at_element(number, p, p.place * constant(2) + constant(i)); };
  return make(Op::Halves, DType::U32, {at(0), at(1)});
}

// The product of `steps` steps from number `first` on, added to the one before it, if there is one.
Ref product_of(const Parts& p, int64_t first, int64_t steps, bool of_quads, Ref before) {
  MatrixShape shape = p.shape;
  shape.k = steps * kHalvesOfStep;
  Refs src;
  for (int64_t core = 2 * first; core < 2 * (first + steps); ++core)
    for (int64_t row = 0; row < shape.row_blocks(); ++row)
      src.push_back(of_quads ? word_of_quad(p, core, row) : word_of_numbers(p, core, row));
  Replacements begin{{p.columns, constant(0)}, {p.place, constant(0)}};
  for (const Refs* ranges : {&p.inner, &p.blocks})
    for (Ref r : *ranges) begin[r] = constant(0);
  choose_values(p.steps, constant(2 * first), begin);
  src.push_back(LoadView(p.b).buffer);
  src.push_back(substitute(offset_of(p.b), begin));
  for (int64_t i = 0; before && i < shape.sums(); ++i)
    src.push_back(make(Op::MatrixItem, DType::F32, {before, constant(i)}));
  return make(Op::MatrixDot, DType::F32, std::move(src), {.list = shape.list()});
}

Ref item_of(Ref sum, const Parts& p) {
  Ref block = constant(0);
  for (size_t i = p.blocks.size(); i-- > 0;) block = block * RangeView(p.blocks[i]).size + p.blocks[i];
  const Ref number = simplify((block * constant(2) + p.rows) * constant(2) + p.columns);
  const bool of_quads = static_cast<bool>(word_of_quad(p, 0, 0));
  Ref product;
  for (int64_t first = 0; first < p.shape.steps(); first += kStepsOfProduct)
    product = product_of(p, first, std::min(kStepsOfProduct, p.shape.steps() - first), of_quads, product);
  Refs src{make(Op::MatrixItem, DType::F32, {product, number})};
  src.insert(src.end(), p.loops.begin(), p.loops.end());
  const Ref total = p.loops.empty() ? src[0] : with_sources(sum, std::move(src));
  return of_quads ? total * constant_f(kHalfUnit, DType::F32) : total;
}

}  // namespace

std::string why_no_halves(const Refs& stores) {
  std::string reason = "there are no sums of halves";
  for (Ref s : stores)
    for (Ref n : toposort(s)) {
      if (!adds_halves(n)) continue;
      reason = match(n, false).problem;
      if (reason.empty()) return reason;
    }
  return reason;
}

Refs halves_dots(const Refs& stores) {
  Refs out;
  for (Ref s : stores)
    out.push_back(rebuild(s, [&](Ref, Ref n) {
      if (!adds_halves(n)) return n;
      const Parts p = match(n, true);
      return p.problem.empty() ? item_of(n, p) : n;
    }));
  return out;
}

}  // namespace smelt
