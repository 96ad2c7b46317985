// LookupDrafter: a text goes on as it did the last time that its end occurred. It costs nothing and is right where a
// text repeats its prompt: summaries, changes to code, answers about a document.
#pragma once

#include "engine/drafter.h"

namespace smelt {

class LookupDrafter : public Drafter {
 public:
  Result<std::vector<DraftToken>> draft(std::span<const int32_t> text, int64_t most) override;
};

}  // namespace smelt
