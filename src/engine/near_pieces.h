// Which thread packs which piece of the weights, on a machine with several nodes of memory: a page lies on the node of
// the thread that writes it first. Workers share out the rows of a matrix in equal parts (runtime/device.h). So a piece
// goes to a thread of the node of the worker that will read it. One that workers of several nodes read, as an expert of
// less than a piece, goes to any.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "engine/pack_plan.h"

namespace smelt {

// The worker that reads a row of a matrix, unless another one is early.
inline int64_t reader_of(int64_t row, int64_t rows, int64_t workers) { return row * workers / rows; }

class NearPieces {
 public:
  // `nodes`: of each worker; none: all memory is alike.
  NearPieces(std::span<const PackPiece> pieces, std::span<const int> nodes);

  // The next piece of a node, or, where none is left, of another one. REQUIRES: fewer calls so far than pieces.
  size_t take(int node);

 private:
  struct Queue {
    std::vector<size_t> pieces;
    std::atomic<size_t> taken{0};
  };
  std::vector<std::unique_ptr<Queue>> queues_;  // by node
};

}  // namespace smelt
