#include "engine/near_pieces.h"

#include <algorithm>

#include "base/ensure.h"

namespace smelt {
namespace {

// Of the worker that reads a piece; `number` spreads those that several nodes read.
int node_of(const PackPiece& piece, size_t number, std::span<const int> nodes) {
  const auto rows_of_matrix = static_cast<int64_t>(piece.of->tensor->dims[1]);
  const auto workers = static_cast<int64_t>(nodes.size());
  const int64_t first = piece.row % rows_of_matrix, last = first + piece.rows - 1;
  if (last < rows_of_matrix) {
    const auto node_of_row = [&](int64_t row) {
      return nodes[static_cast<size_t>(reader_of(row, rows_of_matrix, workers))];
    };
    if (node_of_row(first) == node_of_row(last)) return node_of_row(first);
  }
  return nodes[number % nodes.size()];
}

}  // namespace

NearPieces::NearPieces(std::span<const PackPiece> pieces, std::span<const int> nodes) {
  const int most = nodes.empty() ? 0 : *std::max_element(nodes.begin(), nodes.end());
  for (int node = 0; node <= most; ++node) queues_.push_back(std::make_unique<Queue>());
  for (size_t i = 0; i < pieces.size(); ++i)
    queues_[nodes.empty() ? 0 : static_cast<size_t>(node_of(pieces[i], i, nodes))]->pieces.push_back(i);
}

size_t NearPieces::take(int node) {
  for (size_t turn = 0; turn < queues_.size(); ++turn) {
    Queue& queue = *queues_[(static_cast<size_t>(node) + turn) % queues_.size()];
    if (const size_t place = queue.taken++; place < queue.pieces.size()) return queue.pieces[place];
  }
  ENSURE(false, "more pieces are taken than there are");
}

}  // namespace smelt
