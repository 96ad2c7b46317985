#include "model/layout_choice.h"

#include <algorithm>
#include <charconv>

#include "model/packed_block.h"

namespace smelt {
namespace {

constexpr std::string_view kFile = "file", kRows = "rows", kWidePieces = "/16-bytes", kFileOrder = "/file-order";
constexpr int kMostRows = 1 << 10;

}  // namespace

std::string to_string(WeightLayout layout) {
  if (!layout.is_packed()) return std::string(kFile);
  std::string text = std::string(kRows) + std::to_string(layout.interleave);
  if (layout.piece == 16) text += kWidePieces;
  if (layout.order == FieldOrder::File) text += kFileOrder;
  return text;
}

std::optional<WeightLayout> parse_layout(std::string_view text) {
  if (text == kFile) return WeightLayout{};
  if (!text.starts_with(kRows)) return std::nullopt;
  text.remove_prefix(kRows.size());
  WeightLayout layout;
  if (text.ends_with(kFileOrder)) {
    layout.order = FieldOrder::File;
    text.remove_suffix(kFileOrder.size());
  }
  if (text.ends_with(kWidePieces)) {
    layout.piece = 16;
    text.remove_suffix(kWidePieces.size());
  }
  const char* end = text.data() + text.size();
  const auto [p, error] = std::from_chars(text.data(), end, layout.interleave);
  const bool is_number = error == std::errc() && p == end;
  return is_number && layout.is_packed() && layout.interleave <= kMostRows ? std::optional(layout) : std::nullopt;
}

std::string role_of(const TensorShape& shape, GgufType type, bool quantise) {
  std::string text = shape.name + "/" + std::string(name_of(type)) + "/";
  for (int64_t n : shape.rows) text += std::to_string(n) + "x";
  return text + std::to_string(shape.k) + (quantise ? "/q8" : "/f32");
}

bool fits(WeightLayout layout, GgufType type, int64_t rows) {
  return !layout.is_packed() || can_interleave(type, rows, layout.interleave);
}

WeightLayout default_layout(GgufType type, int64_t rows, int lanes, int piece) {
  const WeightLayout packed{.interleave = lanes, .piece = piece};
  return fits(packed, type, rows) ? packed : WeightLayout{};
}

WeightLayout with_split(WeightLayout layout, int64_t rows, int split) {
  layout.split = split && layout.is_packed() && can_split(rows, layout.interleave, split) ? split : 0;
  return layout;
}

std::vector<WeightLayout> layouts_to_try(GgufType type, int64_t rows, int lanes, int split) {
  std::vector<WeightLayout> list = {with_split(default_layout(type, rows, lanes), rows, split)};
  if (is_plain(type)) return list;
  const auto add = [&](WeightLayout layout) {
    layout = with_split(layout, rows, split);
    if (fits(layout, type, rows) && std::find(list.begin(), list.end(), layout) == list.end()) list.push_back(layout);
  };
  add({.interleave = 2 * lanes});
  if (lanes > 1) add({.interleave = lanes / 2});
  if (has_order_of_use(type)) add({.interleave = lanes, .order = FieldOrder::File});
  add({});
  return list;
}

}  // namespace smelt
