// What the first task of a block will read of large buffers, as far as that is known before its launch waits: regions
// of weights, and pages of a cache, whose numbers are in a table that no kernel writes.
//
//   load(weights, task * 4608 + i * 18 + j)                         4608 bytes from task * 4608 on
//   load(keys, i64(load(pages, task * 16 + p * 4)) * 36864 + ...)   36,864 bytes of each page p < 4
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "codegen/footprint.h"
#include "graph/node.h"

namespace smelt {

// Pages whose numbers one load gives.
struct EarlyPages {
  Ref number;   // the load
  Refs ranges;  // beside those of the tasks that move from page to page: a thread asks for each of their values

  int64_t count() const;
};

struct EarlyRegion {
  Ref buffer;
  std::vector<int64_t> strides;  // in bytes from task to task, of each range of the tasks
  std::vector<Pattern> patterns;
  bool is_known = true;

  std::vector<EarlyPages> pages;  // where it is one of each of these
  int64_t page_bytes = 0;         // from page to page
  std::set<int64_t> entries;      // where the first task finds their numbers in the table, in bytes

  int64_t first() const;
  int64_t bytes() const;  // from first() on, of a page
  bool pays(const Refs& tasks) const;
};

// By number of the buffer, of what these stores read.
std::map<int64_t, EarlyRegion> early_regions(const Refs& stores, const Refs& tasks);

// Ranges of the tasks that read the same pages, which share them out.
Refs sharers_of(const EarlyRegion& region, const Refs& tasks);

}  // namespace smelt
