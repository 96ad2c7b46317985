// Text that may be anything until a mark: what a model writes around that which a grammar is for.
#pragma once

#include <string>
#include <vector>

#include "grammar/grammar.h"

namespace smelt {

struct Mark {
  std::string text;    // bytes
  Grammar::Expr then;  // how the text goes on behind it; Grammar::kNothing: the mark may not come
};

// Any bytes without a mark, then a mark and what follows it. `may_end`: or any bytes without a mark. Where one mark
// ends with another, the longer counts. `braced`: what a text must be that begins with a brace, but for spaces;
// kNothing: text like any other.
Grammar::Expr text_until(Grammar& grammar, const std::vector<Mark>& marks, bool may_end,
                         Grammar::Expr braced = Grammar::kNothing);

}  // namespace smelt
