#include "model/byte_cache.h"

#include <numeric>

#include "graph/matrix_shape.h"
#include "graph/rules_algebra.h"

namespace smelt {
namespace {

constexpr int64_t kWord = 4;  // bytes that are multiplied at once

Dim times(Ref n, int64_t factor) { return simplify(n * factor); }

// Columns that follow each other for all positions of a group.
int64_t value_columns(int64_t width) { return std::gcd(width, kMostValueColumns); }

// 0 .. n - 1 along the last of two axes: [1, n].
Tensor columns(int64_t n) { return unsqueeze(iota({n}, 0), 0); }

constexpr int64_t kBlockRows = 2 * kFragmentGroups, kBlockColumns = kFragmentWidth;  // of a block of the unit

// Where the word of four columns of a row is in a buffer of such blocks, if it is in this one: a thread has two words
// of each of two rows.
Tensor word_in_fragments(Tensor block, Tensor row, Tensor word) {
  constexpr int64_t kRows = 2, kWords = 2 * kRows, kWordsOfGroup = kFragmentPlaces * kWords;
  const Tensor group = row % kBlockRows / double(kRows), thread = word % kFragmentPlaces;
  const Tensor half = word % (2 * kFragmentPlaces) / double(kFragmentPlaces);
  return block * double(kFragmentGroups * kWordsOfGroup) + group * double(kWordsOfGroup) + thread * double(kWords) +
         half * double(kRows) + row % kRows;
}

// Axes of blocks, see byte_cache.h: groups, threads of a group, words of a row, rows of a thread, bytes of a word.
std::vector<Dim> blocks_of(int64_t outer, int64_t inner) {
  return {outer, inner, kFragmentGroups, kFragmentPlaces, 2, 2, kWord};
}

// Elements [T, m, c] of a buffer [N, c], at the index i64 [T, m].
Tensor scatter(Tensor buffer, Tensor index, Tensor values) {
  const Dim n = times(index.dim(0), index.size(1));
  return write_rows(buffer, reshape(index, {n}), 0, reshape(values, {n, buffer.size(1)}));
}

}  // namespace

bool has_fragments(const Machine& machine) {
  const MatrixUnit* unit = machine.has_threads() ? unit_for_bytes(machine) : nullptr;
  return unit && unit->m == kBlockRows && unit->k == kBlockColumns && machine.unit_tokens <= 1;
}

ByteRows to_bytes(Tensor x, const ActivationLayout& layout) {
  const Tensor scale = place_numbers(max(maximum(x, -x), -1) * (1.0 / 127), layout);
  const Tensor inverse = where(less(scalar(0), scale), scalar(1) / maximum(scale, scalar(1e-30)), scalar(0));
  const Tensor steps = floor(x * unsqueeze(inverse, inverse.rank()) + 0.5);
  const Tensor q = cast(steps, DType::I8);
  return {has_whole_groups(q) ? place_bytes(q, layout) : place(q), scale};
}

Tensor key_buffer(int slot, int64_t rows, int64_t width, std::string name) {
  return param(slot, DType::U8, {rows * width / kWord, kWord}, std::move(name));
}

Tensor value_buffer(int slot, int64_t rows, int64_t width, std::string name) {
  return param(slot, DType::I8, {rows * width, 1}, std::move(name));
}

Tensor write_keys(Tensor buffer, Tensor row, int64_t column, int64_t width, Tensor q, CacheOrder order) {
  const int64_t words = q.size(1) / kWord;
  const Tensor r = unsqueeze(row, 1);  // [T, 1]
  const Tensor word = columns(words) + double(column / kWord);
  const Tensor bytes = bitcast(q, DType::U8) ^ int64_t(kKeyZero);
  if (order == CacheOrder::Fragments) {
    const Tensor block = r / double(kBlockRows) * double(width / kBlockColumns) + word / double(kBlockColumns / kWord);
    return scatter(buffer, word_in_fragments(block, r, word), bytes);
  }
  const Tensor index = (r / double(kKeyGroup) * double(width / kWord) + word) * double(kKeyGroup) + r % kKeyGroup;
  return scatter(buffer, index, bytes);
}

Tensor write_values(Tensor buffer, Tensor row, int64_t width, Tensor q, CacheOrder order) {
  const int64_t side = value_columns(width), words = kValueGroup / kWord;
  const Tensor r = unsqueeze(row, 1), column = columns(width);
  if (order == CacheOrder::Fragments) {
    const Tensor block = r / double(kBlockColumns) * double(width / kBlockRows) + column / double(kBlockRows);
    return scatter(buffer, word_in_fragments(block, column, r / double(kWord)) * double(kWord) + r % kWord, q);
  }
  const Tensor block = r / double(kValueGroup) * double(width / side) + column / double(side);
  const Tensor word = block * double(words) + r % kValueGroup / double(kWord);
  return scatter(buffer, (word * double(side) + column % side) * double(kWord) + r % kWord, q);
}

Tensor scale_buffer(int slot, int64_t rows, int64_t heads, std::string name) {
  return param(slot, DType::F32, {rows * heads, 1}, std::move(name));
}

Tensor write_scales(Tensor buffer, Tensor row, Tensor scale) {
  const int64_t heads = scale.size(1);
  const Tensor r = unsqueeze(row, 1);
  const Tensor line = r / double(kValueGroup) * double(heads) + columns(heads);
  return scatter(buffer, line * double(kValueGroup) + r % kValueGroup, scale);
}

Tensor keys_of(Tensor buffer, int64_t width, CacheOrder order) {
  const int64_t rows = buffer.size(0) * kWord / width;
  if (order == CacheOrder::Fragments) {
    const Tensor blocks = reshape(buffer, blocks_of(rows / kBlockRows, width / kBlockColumns));
    return reshape(permute(blocks, {0, 2, 5, 1, 4, 3, 6}), {rows, width});
  }
  const Tensor groups = reshape(buffer, {rows / kKeyGroup, width / kWord, kKeyGroup, kWord});
  return reshape(permute(groups, {0, 2, 1, 3}), {rows, width});
}

Tensor values_of(Tensor buffer, int64_t width, CacheOrder order) {
  const int64_t rows = buffer.size(0) / width, side = value_columns(width);
  if (order == CacheOrder::Fragments) {
    const Tensor blocks = reshape(buffer, blocks_of(rows / kBlockColumns, width / kBlockRows));
    return reshape(permute(blocks, {0, 4, 3, 6, 1, 2, 5}), {rows, width});
  }
  const Tensor blocks = reshape(buffer, {rows / kValueGroup, width / side, kValueGroup / kWord, side, kWord});
  return reshape(permute(blocks, {0, 2, 4, 1, 3}), {rows, width});
}

Tensor scales_of(Tensor buffer, int64_t heads) {
  const int64_t rows = buffer.size(0) / heads;
  return reshape(permute(reshape(buffer, {rows / kValueGroup, heads, kValueGroup}), {0, 2, 1}), {rows, heads});
}

}  // namespace smelt
