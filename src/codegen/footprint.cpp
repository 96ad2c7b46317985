#include "codegen/footprint.h"

#include <algorithm>

#include "graph/index_sum.h"
#include "graph/rules_algebra.h"
#include "graph/views.h"

namespace smelt {
namespace {

constexpr int64_t kMostMarked = 1 << 18;  // bytes that are counted one by one

// Number of values that an expression takes while its ranges run.
int64_t count_of(Ref expr) {
  double count = 1;
  for (Ref r : ranges_of(expr)) count *= static_cast<double>(RangeView(r).most());
  constexpr double kMany = 1e15;
  return static_cast<int64_t>(std::min(count, kMany));
}

void add_step(Pattern& pattern, int64_t stride, int64_t count) {
  if (stride < 0) {
    pattern.first += stride * (count - 1);
    stride = -stride;
  }
  if (count != 1 && stride != 0) pattern.steps.push_back({stride, count});
}

// Of a range, or of a division or a remainder, which takes all values between its bounds.
int64_t values_of(Ref x) {
  return x->op == Op::Range ? RangeView(x).most() : std::min(count_of(x), x->max - x->min + 1);
}

// Adds what decides where an expression with loads reads: ranges, and divisions and remainders of them.
void add_movers(Ref x, Refs& movers) {
  const auto add = [&](Ref mover) {
    if (!contains(movers, mover)) movers.push_back(mover);
  };
  for (Ref n : toposort(x)) {
    if (n->op != Op::Load) continue;
    const auto sum = index_sum(LoadView(n).offset);
    if (sum) {
      for (const IndexTerm& term : sum->terms)
        if (term.product->op == Op::Range || !reads_memory(term.product)) add(term.product);
    } else {
      for (Ref r : ranges_of(LoadView(n).offset)) add(r);
    }
  }
}

void add_term(Pattern& pattern, const IndexTerm& term, Refs& gathered_over) {
  const Ref x = term.product;
  if (x->op == Op::Range || !reads_memory(x)) {
    pattern.first += term.times * x->min;  // 0 of a range
    return add_step(pattern, term.times, values_of(x));
  }
  // Two terms with indices from memory, as of a page and a row in it, move together when the same ranges move them.
  Refs movers;
  add_movers(x, movers);
  int64_t count = 1;
  for (Ref mover : movers) {
    if (contains(gathered_over, mover)) continue;
    gathered_over.push_back(mover);
    count *= values_of(mover);
  }
  pattern.gathered = true;
  add_step(pattern, term.times, count);
}

// Two loops over neighbours are one: {64, 4}, {16, 4} -> {16, 16}.
void merge_steps(std::vector<Pattern::Step>& steps) {
  std::stable_sort(steps.begin(), steps.end(), [](const auto& a, const auto& b) { return a.stride > b.stride; });
  for (size_t i = 0; i + 1 < steps.size();) {
    if (steps[i].stride == steps[i + 1].stride * steps[i + 1].count) {
      steps[i + 1].count *= steps[i].count;
      steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(i));
      if (i > 0) --i;
    } else {
      ++i;
    }
  }
}

// From the first byte to behind the last.
double span_of(const Pattern& p, size_t from = 0) {
  double span = static_cast<double>(p.bytes);
  for (size_t i = from; i < p.steps.size(); ++i)
    span += static_cast<double>(p.steps[i].stride) * static_cast<double>(p.steps[i].count - 1);
  return span;
}

double bytes_of(const Pattern& p) {
  double bytes = static_cast<double>(p.bytes);
  for (size_t i = p.steps.size(); i-- > 0;) {
    bytes *= static_cast<double>(p.steps[i].count);
    if (static_cast<double>(p.steps[i].stride) < span_of(p, i + 1))
      bytes = std::min(bytes, span_of(p, i));  // steps overlap
  }
  return bytes;
}

void mark(const Pattern& p, size_t step, int64_t at, std::vector<bool>& marks) {
  if (step == p.steps.size()) {
    for (int64_t i = 0; i < p.bytes; ++i) marks[static_cast<size_t>(at + i)] = true;
    return;
  }
  for (int64_t i = 0; i < p.steps[step].count; ++i) mark(p, step + 1, at + i * p.steps[step].stride, marks);
}

double marked_bytes(const std::vector<Pattern>& patterns, Extent extent) {
  std::vector<bool> marks(static_cast<size_t>(extent.bytes));
  for (const Pattern& p : patterns) mark(p, 0, p.first - extent.first, marks);
  return static_cast<double>(std::count(marks.begin(), marks.end(), true));
}

// All patterns begin with the same step, and what is left of them lies within its stride.
bool share_outer_step(const std::vector<Pattern>& patterns) {
  if (patterns[0].steps.empty()) return false;
  const Pattern::Step step = patterns[0].steps[0];
  std::vector<Pattern> rest = patterns;
  for (Pattern& p : rest) {
    if (p.steps.empty() || p.steps[0] != step) return false;
    p.steps.erase(p.steps.begin());
  }
  return extent_of(rest).bytes <= static_cast<double>(step.stride);
}

}  // namespace

Pattern pattern_of(Ref offset, int64_t bytes) {
  Pattern pattern{.bytes = bytes};
  const auto sum = index_sum(offset);
  if (!sum) {
    pattern.gathered = reads_memory(offset);
    pattern.steps = {{bytes, count_of(offset)}};
    return pattern;
  }
  pattern.first = sum->constant;
  Refs gathered_over;
  for (const IndexTerm& term : sum->terms) add_term(pattern, term, gathered_over);
  merge_steps(pattern.steps);
  return pattern;
}

bool reads_memory(Ref expr) {
  const Refs nodes = toposort(expr);
  return std::any_of(nodes.begin(), nodes.end(), [](Ref n) { return n->op == Op::Load; });
}

bool has_const_sizes(Ref expr) {
  const Refs ranges = ranges_of(expr);
  return std::all_of(ranges.begin(), ranges.end(), [](Ref r) { return const_int(RangeView(r).size).has_value(); });
}

Extent extent_of(const std::vector<Pattern>& patterns) {
  int64_t first = patterns[0].first;
  double end = 0;
  for (const Pattern& p : patterns) {
    first = std::min(first, p.first);
    end = std::max(end, static_cast<double>(p.first) + span_of(p));
  }
  return {first, end - static_cast<double>(first)};
}

double distinct_bytes(std::vector<Pattern> patterns) {
  for (size_t i = 0; i < patterns.size(); ++i)
    patterns.erase(std::remove(patterns.begin() + static_cast<std::ptrdiff_t>(i) + 1, patterns.end(), patterns[i]),
                   patterns.end());
  if (patterns.empty()) return 0;
  if (patterns.size() == 1) return bytes_of(patterns[0]);
  if (share_outer_step(patterns)) {
    const auto count = static_cast<double>(patterns[0].steps[0].count);
    for (Pattern& p : patterns) p.steps.erase(p.steps.begin());
    return count * distinct_bytes(std::move(patterns));
  }
  const Extent extent = extent_of(patterns);
  double work = 0, sum = 0;
  for (const Pattern& p : patterns) {
    sum += bytes_of(p);
    double accesses = 1;
    for (const Pattern::Step& s : p.steps) accesses *= static_cast<double>(s.count);
    work += accesses * static_cast<double>(p.bytes);
  }
  if (extent.bytes <= kMostMarked && work <= 8 * kMostMarked) return marked_bytes(patterns, extent);
  return std::min(sum, extent.bytes);
}

}  // namespace smelt
