// An importance matrix: how much each column of a model's matrices matters, as the mean of the squares of what it was
// multiplied with over a text. Files are those of llama.cpp's imatrix: GGUF, or the older form of its own, which is
// read only:
//
//   GGUF    general.type = "imatrix", imatrix.datasets, imatrix.chunk_count, imatrix.chunk_size
//           NAME.in_sum2 f32 [k, matrices], NAME.counts f32 [1, matrices]
//   older   i32 entries, for each: i32 bytes, name, i32 calls, i32 values, f32 values[] (of one call, times calls)
//           i32 chunks, i32 bytes, dataset
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace smelt {

struct Importance {
  // Of a matrix, or of a stack of matrices one after another.
  struct Entry {
    std::vector<float> sums;    // of squares; k for each matrix
    std::vector<float> counts;  // inputs that were summed; of each matrix, or one for all
  };
  std::map<std::string, Entry> entries;  // by the name of the tensor
  std::vector<std::string> datasets;     // the texts that it was made of
  uint32_t chunks = 0, chunk_size = 0;   // of them, in tokens
};

Result<Importance> read_importance(const std::string& path);

// Adds the sums of another run. An Error if they are of matrices of other sizes.
Status add_entry(const std::string& name, const Importance::Entry& entry, Importance& to);

// A GGUF file.
std::string importance_file(const Importance& importance);

// The means; 1 for matrices of which nothing is known.
std::vector<float> means_of(const Importance::Entry& entry);

}  // namespace smelt
