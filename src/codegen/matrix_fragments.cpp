#include "codegen/matrix_fragments.h"

#include <algorithm>

#include "codegen/opt.h"
#include "codegen/passes.h"
#include "codegen/program.h"
#include "codegen/word_sums.h"
#include "graph/matrix_shape.h"
#include "graph/range_kind.h"
#include "graph/rules_algebra.h"
#include "graph/views.h"

namespace smelt {
namespace {

// Where the parts of a sum stand.
struct Parts {
  std::string problem;
  MatrixShape shape;
  Ref a, b;           // words
  Ref rows, columns;  // written-out ranges: which block of rows, and which of two neighbouring columns
  Ref group, place;   // ranges of threads
  Refs words, loops;  // the sum's ranges
  int64_t steps = 1;  // products of the unit that the written-out words make
};

constexpr int64_t kShortDepth = 16;  // that units of bytes have besides their own

Parts failed(std::string problem) { return {.problem = std::move(problem)}; }

bool is_size(Ref range, int64_t size) { return is_const(RangeView(range).size, size); }

// The one range of `all` for which `fits` holds, and that the other side does not have; null if there is none.
template <class F>
Ref find_range(const Refs& all, const Refs& others, const F& fits) {
  const auto at = std::find_if(all.begin(), all.end(), [&](Ref r) { return fits(r) && !contains(others, r); });
  return at == all.end() ? Ref() : *at;
}

bool has_reduction(Ref word) {
  const Refs nodes = toposort(word);
  return std::any_of(nodes.begin(), nodes.end(), [](Ref n) { return is_reduce(n->op); });
}

// Of the ranges, the one whose words lie next to each other; null if there are none.
Ref nearest(Ref word, const Refs& ranges) {
  Ref best;
  int64_t least = 0;
  for (Ref n : toposort(word))
    if (n->op == Op::Load)
      for (Ref r : ranges) {
        const auto step = stride(LoadView(n).offset, r);
        if (step && *step > 0 && (!best || *step < least)) best = r, least = *step;
      }
  return best || ranges.empty() ? best : ranges[0];
}

// Threads of a warp have no other part in a word than the unit wants.
bool is_of_warp(Ref range) { return is_of_threads(range) && thread_stride(range) < kWarp; }

std::string problem_of_warp(const Parts& p, const Refs& of_a, const Refs& of_b) {
  for (const Refs* ranges : {&of_a, &of_b})
    for (Ref r : *ranges)
      if (is_of_warp(r) && r != (ranges == &of_a ? p.group : p.place))
        return "threads of a warp share out other axes, too";
  return "";
}

// Bytes of a row that the unit multiplies at once, if so many words are written out: all that it can, or 16.
int64_t depth_for(const MatrixUnit& unit, int64_t words) {
  for (int64_t k : {unit.k, kShortDepth})
    if (words % (k / 4) == 0) return k;
  return 0;
}

Parts match(Ref sum, const MatrixUnit& unit) {
  const Ref dot = words_of_sum(sum);
  if (!dot) return failed(kNoWordSums);
  if (has_reduction(dot)) return failed("its words are sums");
  Parts p{.shape = {.m = unit.m, .n = unit.n, .k = unit.k, .in_fragments = true},
          .a = Dot4View(dot).y,
          .b = Dot4View(dot).x};
  const auto is_row = [&](Ref r) { return kind_of(r) == RangeKind::MatrixRow && is_size(r, p.shape.row_blocks()); };
  Refs of_a = ranges_of(p.a), of_b = ranges_of(p.b);
  p.rows = find_range(of_a, of_b, is_row);
  if (!p.rows) {
    std::swap(p.a, p.b), std::swap(of_a, of_b);
    p.shape.a_is_signed = false;
    p.rows = find_range(of_a, of_b, is_row);
  }
  if (!p.rows) return failed("its rows are not those of one side");
  p.group = find_range(of_a, of_b, [](Ref r) {
    return is_of_threads(r) && thread_stride(r) == kFragmentPlaces && is_size(r, kFragmentGroups);
  });
  p.place = find_range(of_b, of_a,
                       [](Ref r) { return is_of_threads(r) && thread_stride(r) == 1 && is_size(r, kFragmentPlaces); });
  if (!p.group || !p.place)
    return failed("a warp is not 8 threads along the rows of one side times 4 along the columns of the other");
  const auto own = ReduceView(sum).ranges;
  Refs pairs;
  for (Ref r : of_b)
    if (kind_of(r) == RangeKind::Unroll && is_size(r, 2) && !contains(of_a, r) && !contains(own, r)) pairs.push_back(r);
  p.columns = nearest(p.b, pairs);
  if (!p.columns) return failed("a thread does not have two neighbouring columns");
  if (!split_ranges(sum, p.words, p.loops)) return failed("its terms are in threads");
  int64_t words = 1;
  for (Ref r : p.words) words *= RangeView(r).count();
  p.shape.k = depth_for(unit, words);
  if (p.shape.k == 0)
    return failed(std::to_string(words) + " words are written out, a row of the unit has " +
                  std::to_string(unit.k / 4));
  p.steps = words / p.shape.words();
  p.problem = problem_of_warp(p, of_a, of_b);
  return p;
}

// Whether words that follow each other lie so in memory.
bool are_neighbours(Ref word, const Refs& words) {
  const Refs nodes = toposort(word);
  return words.size() == 1 && std::all_of(nodes.begin(), nodes.end(), [&](Ref n) {
           return n->op != Op::Load || stride(LoadView(n).offset, words[0]) == kBytesOfWord;
         });
}

// The word of a row in a step, in terms of the ranges that words are counted by. Threads have neighbours, so what
// tells the blocks of words apart is known: by how much to shift, where both halves of bytes are words.
void choose_word(const Parts& p, int64_t step, int64_t block, Replacements& by) {
  // Which words the unit takes together changes no sum. Those that a thread has of a column are one load if they can.
  const int64_t blocks = p.shape.words() / kFragmentPlaces;
  const bool is_pair = are_neighbours(p.b, p.words);
  const Ref number = is_pair ? p.place * blocks + (step * p.shape.words() + block)
                             : p.place + (step * p.shape.words() + block * kFragmentPlaces);
  int64_t inside = 1;
  for (size_t i = p.words.size(); i-- > 0;) {
    const int64_t size = RangeView(p.words[i]).count();
    by[p.words[i]] = simplify(number / inside % size);
    inside *= size;
  }
}

Ref item(Ref product, Ref number) { return make(Op::MatrixItem, product->dtype, {product, number}); }

Refs items_of(Ref product) {
  Refs items;
  for (int64_t i = 0; i < matrix_shape(product->arg.list).sums(); ++i) items.push_back(item(product, constant(i)));
  return items;
}

// The product of a step, added to that of the step before, if there is one.
Ref product_of_step(const Parts& p, int64_t step, Ref before) {
  Refs words;
  for (int64_t r = 0; r < p.shape.a_words(); ++r) {
    Replacements by{{p.rows, constant(r % p.shape.row_blocks())}};
    choose_word(p, step, r / p.shape.row_blocks(), by);
    words.push_back(substitute(p.a, by));
  }
  for (int64_t r = 0; r < p.shape.b_words(); ++r) {
    Replacements by{{p.place, p.group / 2}, {p.columns, p.group % 2}};
    choose_word(p, step, r, by);
    words.push_back(substitute(p.b, by));
  }
  if (before)
    for (Ref sum : items_of(before)) words.push_back(sum);
  return make(Op::MatrixDot, DType::I32, std::move(words), {.list = p.shape.list()});
}

Ref item_of(Ref sum, const Parts& p) {
  Ref product;
  for (int64_t step = 0; step < p.steps; ++step) product = product_of_step(p, step, product);
  Refs src{item(product, simplify(p.rows * 2 + p.columns))};
  if (p.loops.empty()) return src[0];
  src.insert(src.end(), p.loops.begin(), p.loops.end());
  return with_sources(sum, std::move(src));
}

// The products of a chain, which begins with these sums.
Ref with_first_sums(Ref product, const Refs& sums) {
  const MatrixDotView view(product);
  Refs src(view.words.begin(), view.words.end());
  const Refs first = view.sums.empty() ? sums : items_of(with_first_sums(product_before(product), sums));
  src.insert(src.end(), first.begin(), first.end());
  return with_sources(product, std::move(src));
}

// What an element of a product is added to becomes what the unit begins with. Null if it cannot: it would have to
// begin anew for copies that the product does not have.
Ref with_sum_in_unit(Ref element, Ref x) {
  if (element->op != Op::MatrixItem || MatrixItemView(element).lane) return Ref();
  const auto [product, number, lane] = MatrixItemView(element);
  const Refs own = ranges_of(number), of_product = ranges_of(product);
  if (own.size() != 2 || !begins_at_zero(product)) return Ref();
  const bool rows_first = kind_of(own[0]) == RangeKind::MatrixRow;
  const Ref rows = own[rows_first ? 0 : 1], columns = own[rows_first ? 1 : 0];
  for (Ref r : ranges_of(x))
    if (is_copies(r) && r != rows && r != columns && !contains(of_product, r)) return Ref();
  Refs sums;
  for (int64_t i = 0; i < matrix_shape(product->arg.list).sums(); ++i)
    sums.push_back(substitute(x, {{rows, constant(i / 2)}, {columns, constant(i % 2)}}));
  return item(with_first_sums(product, sums), number);
}

Ref with_sums_in_unit(Ref n) {
  if (n->op != Op::Add || n->dtype != DType::I32) return n;
  for (size_t k : {0, 1})
    if (const Ref sum = with_sum_in_unit(n->src[k], n->src[1 - k])) return sum;
  return n;
}

}  // namespace

std::string why_no_fragments(const Refs& stores, const MatrixUnit& unit) {
  if (unit.m == 0) return "a thread has no unit for matrices of bytes";
  return why_no_word_sum(stores, [&](Ref sum) { return match(sum, unit).problem; });
}

Refs fragment_dots(const Refs& stores, const MatrixUnit& unit) {
  if (unit.m == 0) return stores;
  Refs out;
  for (Ref s : stores)
    out.push_back(rebuild(s, [&](Ref, Ref n) {
      if (n->op != Op::ReduceSum) return with_sums_in_unit(n);
      const Parts p = match(n, unit);
      return p.problem.empty() ? item_of(n, p) : n;
    }));
  return out;
}

}  // namespace smelt
