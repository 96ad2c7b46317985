// The options that say how tokens are drafted ahead, and what they open: speculation for one session.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "engine/session.h"
#include "engine/speculation.h"

namespace CLI {
class App;
}

namespace smelt {

struct DraftFlags {
  bool lookup = false;
  std::optional<int64_t> mtp;  // how many tokens
  std::optional<int64_t> most, least;
  double least_probability = 0;
  bool always = false;

  bool wanted() const { return lookup || mtp; }
};

void declare_draft_flags(CLI::App& app, DraftFlags& flags);

// An Error if two of them say different things.
Status check_draft_flags(const DraftFlags& flags);
int64_t most_drafts(const DraftFlags& flags);  // of a step; 0: nothing is drafted

// Nothing where nothing is to be drafted. REQUIRES: `session` outlives it, and was opened for most_drafts().
Result<std::unique_ptr<Speculation>> open_speculation(const DraftFlags& flags, Session& session);

}  // namespace smelt
