// CacheReads: how many bytes of the cache tokens read, by where they stand. A token reads the rows of all tokens before
// it and its own; in layers with a window those from the chunk on in which its window begins.
#pragma once

#include <cstdint>
#include <map>

#include "model/model.h"

namespace smelt {

struct CacheReads {
  std::map<int64_t, int64_t> row_bytes;  // of a position, in all layers with this window; 0: those without one

  static CacheReads of(const Model& model, DType cache_type);
  static CacheReads of_layer(const Model& model, DType cache_type, int64_t layer);

  // Of tokens at the positions `first` to before `end`, which read a row together.
  double together(int64_t first, int64_t end) const;
  // The mean of what each of them reads by itself. REQUIRES: first < end.
  double each(int64_t first, int64_t end) const;
};

}  // namespace smelt
