// The layouts that a weight may have, and which of them the weights of a model get.
//
// A choice is made for a role: tensors of one name, type and shape, which the layers of a model have each. Kernels of
// all layers stay the same ones then.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/dequant.h"
#include "model/tensor_shape.h"

namespace smelt {

// "file", "rows16", "rows16/file-order", "rows8/16-bytes"; nothing about a split.
std::string to_string(WeightLayout layout);
std::optional<WeightLayout> parse_layout(std::string_view text);

// "ffn_down_exps.weight/Q4_0/64x2048x1536/q8": no spaces. `quantise`: products take activations of 8 bits.
std::string role_of(const TensorShape& shape, GgufType type, bool quantise);

// By role; others get the default.
using LayoutChoice = std::map<std::string, WeightLayout>;

// Groups of as many rows as there are lanes, or the file's layout where rows do not fit that. `piece`: of each.
WeightLayout default_layout(GgufType type, int64_t rows, int lanes, int piece = 4);

// Whether a weight with so many rows can lie so.
bool fits(WeightLayout layout, GgufType type, int64_t rows);

// The layout with its rows split as the model wants them (TensorShape::split), where they can be: that is no choice.
WeightLayout with_split(WeightLayout layout, int64_t rows, int split);

// The small set that a search goes over: the file in place, rows in groups of as many as there are lanes, of half and
// of twice as many; and with fields in the order of the file, where that is another one. The default comes first.
std::vector<WeightLayout> layouts_to_try(GgufType type, int64_t rows, int lanes, int split = 0);

}  // namespace smelt
