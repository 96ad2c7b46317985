// The order of packed blocks against what their formulas read.
#include "model/packed_block.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "graph/eval.h"
#include "support/block_formats.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

constexpr int64_t kEntry = 8;  // elements, at most

struct Piece {
  std::string_view field;
  int from, to, bytes;    // offsets in the block of the file and in the packed one
  int64_t first_use = 0;  // the first element that depends on it, or that of its entry of a codebook
};

std::vector<Piece> pieces_of(GgufType type, int piece = 4) {
  std::vector<Piece> pieces;
  for (const PackedField& p : packed_fields(type, FieldOrder::Use, piece)) {
    const int bytes = p.piece;
    for (int i = 0; i < p.sections * p.pieces(); ++i) {
      const int section = i / p.pieces(), j = i % p.pieces();
      const int at =
          j < p.pairs ? p.pairs_at + (2 * j + (p.is_second ? 1 : 0)) * bytes : p.rest_at + (j - p.pairs) * bytes;
      pieces.push_back({p.field.name, p.field.offset + i * bytes, p.begin + section * p.stride + at, bytes});
    }
  }
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.to < b.to; });
  return pieces;
}

// Changes one piece after the other, in a row of its own, and looks which elements become others.
void find_first_uses(GgufType type, std::vector<Piece>& pieces) {
  const GgufTypeInfo& info = info_of(type);
  const auto elements = static_cast<int64_t>(info.elements);
  std::vector<uint8_t> raw((pieces.size() + 1) * info.bytes, 0x22);  // no number is zero then
  for (size_t i = 0; i < pieces.size(); ++i)
    for (int b = 0; b < pieces[i].bytes; ++b)
      raw[i * info.bytes + static_cast<size_t>(pieces[i].from + b)] ^= 0x11;  // the lowest bits
  const auto rows = static_cast<int64_t>(pieces.size() + 1);
  EvalInputs inputs{.buffers = {{0, std::as_bytes(std::span(raw))}}, .round_f32 = true};
  const Array values = eval(weight(0, type, {rows}, elements, "w").ref(), inputs).value;
  const auto unchanged = values.values.end() - elements;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto row = values.values.begin() + static_cast<int64_t>(i) * elements;
    const int64_t first = std::mismatch(row, row + elements, unchanged).first - row;
    pieces[i].first_use = first == elements ? first : first / kEntry * kEntry;  // entries may begin alike
  }
}

bool is_of_elements(std::string_view field) { return field.starts_with("q") || field == "hmask"; }

}  // namespace

TEST_CASE("every byte of a block has one place in the packed block") {
  for (GgufType type : block_formats())
    for (int bytes : {4, 16}) {
      CAPTURE(name_of(type));
      CAPTURE(bytes);
      std::vector<int> sources;
      int end = 0;
      for (const Piece& piece : pieces_of(type, bytes)) {
        CHECK(piece.to == end);
        end = piece.to + piece.bytes;
        for (int b = 0; b < piece.bytes; ++b) sources.push_back(piece.from + b);
      }
      std::sort(sources.begin(), sources.end());
      CHECK(end == static_cast<int>(info_of(type).bytes));
      for (size_t i = 0; i < sources.size(); ++i) CHECK(sources[i] == static_cast<int>(i));
    }
}

TEST_CASE(
    "packed blocks hold their elements in the order of use, and scales in front of what they "
    "scale") {
  for (GgufType type : block_formats()) {
    CAPTURE(name_of(type));
    std::vector<Piece> pieces = pieces_of(type);
    find_first_uses(type, pieces);
    int64_t elements_until = 0;
    for (const Piece& piece : pieces) {
      CAPTURE(piece.field);
      CAPTURE(piece.from);
      REQUIRE(piece.first_use < static_cast<int64_t>(info_of(type).elements));
      CHECK(piece.first_use >= elements_until);
      if (is_of_elements(piece.field)) elements_until = piece.first_use;
    }
  }
}
