#include "engine/cache_reads.h"

#include "model/attention.h"

namespace smelt {

CacheReads CacheReads::of(const Model& model, DType cache_type) {
  CacheReads all;
  for (int64_t layer = 0; layer < model.numbers().layers; ++layer)
    for (const auto& [window, bytes] : of_layer(model, cache_type, layer).row_bytes) all.row_bytes[window] += bytes;
  return all;
}

CacheReads CacheReads::of_layer(const Model& model, DType cache_type, int64_t layer) {
  CacheReads one;
  for (const CachePart& part : model.cache_parts(cache_type, layer))
    one.row_bytes[model.window(layer)] += part.row_bytes;
  return one;
}

double CacheReads::together(int64_t first, int64_t end) const {
  double bytes = 0;
  for (const auto& [window, row] : row_bytes)
    bytes += static_cast<double>(end - first_read(first, window)) * static_cast<double>(row);
  return bytes;
}

double CacheReads::each(int64_t first, int64_t end) const {
  double bytes = 0;
  for (int64_t position = first; position < end; ++position) bytes += together(position, position + 1);
  return bytes / static_cast<double>(end - first);
}

}  // namespace smelt
