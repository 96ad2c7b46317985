#include "codegen/early_regions.h"

#include <algorithm>

#include "codegen/program.h"
#include "graph/args.h"
#include "graph/rules_algebra.h"
#include "graph/views.h"

namespace smelt {
namespace {

constexpr int64_t kFewestBytes = 1 << 10;       // what is smaller and was just stored comes fast enough
constexpr int64_t kFewestBytesOfPage = 1 << 8;  // but behind the number of a page it comes late
constexpr int64_t kMostBytes = 64 << 10;        // of one buffer: all blocks together ask for what the cache can hold
constexpr int64_t kMostPages = 32;              // a thread of the first warp asks for each

bool is_load(Ref n) { return n->op == Op::Load; }

// Loads of an offset that are in the offset of no other one.
Refs outer_loads(Ref offset) {
  const Refs nodes = toposort(offset);
  Refs inner, outer;
  for (Ref n : nodes)
    if (is_load(n))
      for (Ref below : toposort(LoadView(n).offset))
        if (is_load(below)) inner.push_back(below);
  for (Ref n : nodes)
    if (is_load(n) && !contains(inner, n)) outer.push_back(n);
  return outer;
}

bool reads_only_given(Ref offset) {
  const Refs nodes = toposort(offset);
  return std::all_of(nodes.begin(), nodes.end(), [](Ref n) { return !is_load(n) || is_given(LoadView(n).buffer); });
}

// What an offset is where the number of the page is `number`.
Ref with_page(Ref offset, Ref page, int64_t number) {
  return substitute(offset, {{page, constant(number, page->dtype)}});
}

// Where the first task finds the numbers of its pages, counted from its own place in the table.
std::vector<int64_t> entries_of(const EarlyPages& pages, const Refs& tasks) {
  Replacements begin;
  for (Ref r : tasks) begin[r] = constant(0, r->dtype);
  const Ref offset = LoadView(pages.number).offset;
  for (Ref n : outer_loads(offset)) begin[n] = constant(0, n->dtype);
  const Pattern pattern = pattern_of(substitute(offset, begin), size_of(pages.number->dtype));
  std::vector<int64_t> entries = {pattern.first};
  for (const Pattern::Step& step : pattern.steps)
    for (size_t i = 0, had = entries.size(); i < had; ++i)
      for (int64_t k = 1; k < step.count; ++k) entries.push_back(entries[i] + k * step.stride);
  return entries;
}

// The offset within a page; its number and what moves it are noted. Null where that is no page of constant size.
Ref within_page(EarlyRegion& region, Ref offset, const Refs& tasks) {
  const Refs loads = outer_loads(offset);
  if (loads.size() != 1 || !reads_only_given(offset)) return {};
  EarlyPages pages{.number = loads[0]};
  const Ref rest = with_page(offset, pages.number, 0);
  const auto page_bytes = const_int(simplify(with_page(offset, pages.number, 1) - rest));
  if (!page_bytes || *page_bytes <= 0) return {};
  for (Ref r : ranges_of(pages.number))
    if (!contains(tasks, r)) pages.ranges.push_back(r);
  if (std::any_of(pages.ranges.begin(), pages.ranges.end(), [&](Ref r) { return depends_on(rest, r); })) return {};
  if (pages.count() > kMostPages || (!region.pages.empty() && *page_bytes != region.page_bytes)) return {};
  region.page_bytes = *page_bytes;
  const std::vector<int64_t> entries = entries_of(pages, tasks);
  const auto known = region.entries.size();
  region.entries.insert(entries.begin(), entries.end());
  if (region.entries.size() > known) region.pages.push_back(std::move(pages));
  return rest;
}

void add_load(EarlyRegion& region, Ref load, const Refs& tasks) {
  Ref offset = LoadView(load).offset;
  const bool is_of_page = !outer_loads(offset).empty();
  if (is_of_page) offset = within_page(region, offset, tasks);
  region.is_known &= offset && (region.patterns.empty() || is_of_page != region.pages.empty());
  if (!region.is_known) return;
  Ref in_first_task = offset;
  std::vector<int64_t> strides;
  for (Ref r : tasks) {
    const auto step = stride(offset, r);
    region.is_known &= step.has_value();
    strides.push_back(step.value_or(0));
    in_first_task = substitute(in_first_task, {{r, constant(0, r->dtype)}});
  }
  region.is_known &= is_of_page || has_const_sizes(in_first_task);  // else the buffer may be smaller than it looks
  region.is_known &= region.patterns.empty() || strides == region.strides;
  region.strides = std::move(strides);
  region.patterns.push_back(pattern_of(simplify(in_first_task), size_of(load->dtype)));
}

bool is_in_units(int64_t bytes) { return bytes % kFetchUnit == 0; }

}  // namespace

int64_t EarlyRegion::first() const { return extent_of(patterns).first; }

int64_t EarlyRegion::bytes() const {
  return (extent_of(patterns).whole_bytes() + kFetchUnit - 1) / kFetchUnit * kFetchUnit;
}

int64_t EarlyPages::count() const {
  int64_t count = 1;
  for (Ref r : ranges) count = std::min(count * RangeView(r).most(), kMostPages + 1);
  return count;
}

// Not a few bytes here and there, unless they are of weights, such as the biases of a task's rows: those come from
// memory. Of what several tasks read only pages, and not where the number of those tasks varies: many tokens then read
// the same ones.
bool EarlyRegion::pays(const Refs& tasks) const {
  if (!is_known || patterns.empty() || !is_in_units(first()) || !is_in_units(page_bytes) ||
      !std::all_of(strides.begin(), strides.end(), is_in_units))
    return false;
  const bool is_small = pages.empty() && is_given(buffer) && bytes() < kFewestBytes;
  if ((!is_small && bytes() < (pages.empty() ? kFewestBytes : kFewestBytesOfPage)) || bytes() > kMostBytes ||
      2 * distinct_bytes(patterns) < static_cast<double>(bytes()))
    return false;
  const auto moves = [](int64_t s) { return s != 0; };
  if (is_small) return std::any_of(strides.begin(), strides.end(), moves);
  if (pages.empty()) return std::all_of(strides.begin(), strides.end(), moves);
  const auto vary = std::count_if(tasks.begin(), tasks.end(), [](Ref r) { return !has_const_sizes(r); });
  const Refs sharers = sharers_of(*this, tasks);
  int64_t count = 0;
  for (const EarlyPages& p : pages) count += p.count();
  return count <= kMostPages && vary <= 1 && sharers.size() < tasks.size() &&
         std::all_of(sharers.begin(), sharers.end(), has_const_sizes);
}

std::map<int64_t, EarlyRegion> early_regions(const Refs& stores, const Refs& tasks) {
  std::map<int64_t, EarlyRegion> regions;
  std::set<const Node*> seen;
  for (Ref s : stores)
    for (Ref n : toposort(s)) {
      if (!is_load(n) || LoadView(n).buffer->op != Op::Param || !seen.insert(n.get()).second) continue;
      EarlyRegion& region = regions[number_of_buffer(LoadView(n).buffer)];
      region.buffer = LoadView(n).buffer;
      if (region.is_known) add_load(region, n, tasks);
    }
  return regions;
}

Refs sharers_of(const EarlyRegion& region, const Refs& tasks) {
  Refs sharers;
  for (size_t i = 0; i < tasks.size(); ++i)
    if (region.strides[i] == 0 && std::none_of(region.pages.begin(), region.pages.end(), [&](const EarlyPages& pages) {
          return depends_on(pages.number, tasks[i]);
        }))
      sharers.push_back(tasks[i]);
  return sharers;
}

}  // namespace smelt
