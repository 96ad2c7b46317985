// The options that say how tokens are drafted ahead, and what they open: speculation for one session.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "engine/batch_speculation.h"
#include "engine/session.h"
#include "engine/speculation.h"
#include "text/tokenizer.h"

namespace CLI {
class App;
}

namespace smelt {

struct DraftFlags {
  bool lookup = false;
  std::optional<int64_t> mtp;  // how many tokens
  std::string model;           // that drafts; empty: none does
  std::optional<int64_t> most, least;
  double least_probability = 0;
  bool always = false, draw = false;

  bool wanted() const { return lookup || mtp || !model.empty(); }
};

void declare_draft_flags(CLI::App& app, DraftFlags& flags);

// An Error if two of them say different things.
Status check_draft_flags(const DraftFlags& flags);
int64_t most_drafts(const DraftFlags& flags);  // of a step; 0: nothing is drafted

// The one that drafts, beside the one that verifies.
struct DraftModel {
  std::shared_ptr<GgufFile> file;
  std::unique_ptr<Session> session;
};

// An Error if their tokens are not the same: a draft is a list of token ids.
Status check_same_tokens(const Tokenizer& drafts, const Tokenizer& verifies, const std::string& file);

// Nothing where nothing is to be drafted. `model`: there if flags.model is. REQUIRES: `session` outlives it, and was
// opened for most_drafts().
std::unique_ptr<Speculation> make_speculation(const DraftFlags& flags, Session& session, DraftModel model);

// The same for all sequences of an engine. `model`: its session has an engine for as many of them. REQUIRES: drafts are
// not drawn, as lengths follow the clock, and drawn ones would let texts follow it.
Result<std::unique_ptr<BatchSpeculation>> make_speculation(const DraftFlags& flags, Engine& engine, DraftModel model);

}  // namespace smelt
