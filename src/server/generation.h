// Generation: what one request makes of logits: which token comes next, and when the text is over. It knows of no
// engine and of no threads.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "server/backend.h"
#include "text/tokenizer.h"

namespace smelt {

class Generation {
 public:
  // `context`: most tokens of a sequence. REQUIRES: `tokenizer` outlives this.
  Generation(GenerationRequest request, const Tokenizer& tokenizer, int64_t context);
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  const GenerationRequest& request() const { return request_; }
  int64_t tokens() const { return tokens_; }  // given out
  int64_t room() const;                       // tokens that may still come

  struct Next {
    std::optional<int32_t> token = {};      // to give out
    std::optional<Logprobs> logprobs = {};  // of the token, if they were asked for
    std::optional<Finish> finish = {};      // of the text, behind the token if there is one
    std::string error = {};                 // why it failed
  };
  // `logits`: behind all tokens so far. REQUIRES: no finish was returned before.
  Next next(std::span<const float> logits);

  // How the token behind `ahead` more than have been given out is chosen on the device; nothing where that cannot be
  // said, or somebody wants to see logits. Then what next() says of such a token.
  std::optional<TokenChoice> choice(int64_t vocabulary, int64_t ahead) const;
  Next next_chosen(int32_t token);

 private:
  bool grammar_holds() const { return constraint_ && begins_after_.empty(); }
  bool is_complete() { return grammar_holds() && constraint_->is_finished(); }
  bool is_stop(int32_t token) const;
  Result<int32_t> choose(std::span<const float> logits);
  Status accept(int32_t token);

  const GenerationRequest request_;
  const Tokenizer& tokenizer_;
  const int64_t context_;
  Sampler sampler_;
  std::optional<Constraint> constraint_;
  std::string begins_after_, before_;  // the text that the grammar waits for, and what there is of it
  int64_t tokens_ = 0;
};

}  // namespace smelt
