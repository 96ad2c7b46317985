// Arrays and objects of JSON with so many members and no others: graphs that count what is written.
#pragma once

#include <vector>

#include "grammar/json_text.h"

namespace smelt {

// An array: the items of `first`, then others like `item`, `least` to `most` in all (most < 0: any number).
Grammar::Expr list_of(JsonText& text, const std::vector<Grammar::Expr>& first, Grammar::Expr item, int least, int most);

struct JsonProperty {
  Grammar::Expr entry;  // its name and value
  bool is_required;
};

// An object: these properties in their order, then `others` (Grammar::kNothing: none), `least` to `most` in all.
Grammar::Expr object_of(JsonText& text, const std::vector<JsonProperty>& properties, Grammar::Expr others, int least,
                        int most);

}  // namespace smelt
