// Verification: what becomes of the drafts of one step. The step computes a token and the drafts behind it; behind each
// of them, in order, a token is chosen as it would be without drafts. A draft is right where it is that token; what
// comes behind the first wrong one was computed in vain, and is taken back (Engine::rewind).
#pragma once

#include <cstdint>
#include <span>

#include "engine/drafter.h"

namespace smelt {

class Verification {
 public:
  // REQUIRES: `drafts` outlive it.
  explicit Verification(std::span<const DraftToken> drafts) : drafts_(drafts) {}

  // Whether the next logits of the step count.
  bool is_open() const { return is_open_; }
  // The draft of the token that is chosen by them; nullptr behind the last one.
  const DraftToken* draft() const {
    return accepted_ < std::ssize(drafts_) ? &drafts_[static_cast<size_t>(accepted_)] : nullptr;
  }
  // The token that was chosen. REQUIRES: is_open()
  void take(int32_t token) {
    is_open_ = draft() && draft()->id == token;
    accepted_ += is_open_;
  }
  // The text has ended: nothing behind it counts.
  void end() { is_open_ = false; }

  int64_t accepted() const { return accepted_; }
  // Of the token and its drafts, those that belong to the text: the others are to be taken back.
  int64_t kept() const { return 1 + accepted_; }

 private:
  std::span<const DraftToken> drafts_;
  int64_t accepted_ = 0;
  bool is_open_ = true;
};

}  // namespace smelt
