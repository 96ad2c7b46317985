// Drafter: what guesses how a text goes on, so that one step can verify several tokens at a time.
//
//   drafts = drafter->draft(text, 3)               cheap guesses
//   session->extend_all({next, drafts ...}, sink)  the model's own word on each of them, with the bits of single steps
//   session->rewind(...)                           behind the first one that was wrong
//
// A draft decides nothing: it is kept where the model chooses the same token, or, where it was drawn, by the rejection
// rule (rejection.h), so that texts are as likely as without drafts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/sampler.h"

namespace smelt {

struct DraftToken {
  int32_t id = 0;
  // What it was drawn from, itself included; empty: it was not drawn, the drafter gives this one.
  std::vector<TokenProbability> drawn_from = {};
};

class Drafter {
 public:
  virtual ~Drafter() = default;

  // How the tokens of the text are going to be chosen, for drafters that draw theirs.
  virtual void sample_like(const SamplerOptions&) {}

  // Up to `most` tokens that may follow `text`: all tokens of the sequence, of which the cache of the model that
  // verifies has all but the last. Called once before each step, or with most = 0 before a step without drafts.
  virtual Result<std::vector<DraftToken>> draft(std::span<const int32_t> text, int64_t most) = 0;
};

}  // namespace smelt
