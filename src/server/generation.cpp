#include "server/generation.h"

#include <algorithm>

namespace smelt {

Generation::Generation(GenerationRequest request, const Tokenizer& tokenizer, int64_t context)
    : request_(std::move(request)),
      tokenizer_(tokenizer),
      context_(context),
      sampler_(request_.sampler),
      begins_after_(request_.grammar_after) {
  if (request_.grammar) constraint_.emplace(request_.grammar);
  for (int32_t token : request_.prompt) sampler_.accept(token);
}

int64_t Generation::room() const { return request_.max_tokens < 0 ? INT64_MAX : request_.max_tokens - tokens_; }

Generation::Next Generation::next(std::span<const float> logits) {
  if (request_.max_tokens == 0) return {.finish = Finish::Length};
  if (is_complete()) return {.finish = Finish::Stop};
  const auto token = choose(logits);
  if (!token) return {.finish = Finish::Failed, .error = token.error().message};
  Next next = next_chosen(*token);
  if (next.token && request_.top_logprobs >= 0) next.logprobs = logprobs_of(logits, *token, request_.top_logprobs);
  return next;
}

std::optional<TokenChoice> Generation::choice(int64_t vocabulary, int64_t ahead) const {
  if (constraint_ || request_.top_logprobs >= 0) return std::nullopt;
  return sampler_.choice(vocabulary, ahead);
}

Generation::Next Generation::next_chosen(int32_t token) {
  sampler_.accept(token);
  if (is_stop(token)) return {.finish = Finish::Stop};
  if (const Status fits = accept(token); !fits) return {.finish = Finish::Failed, .error = fits.error().message};
  ++tokens_;
  Next next{.token = token};
  // Nobody would look at the next logits, or there is no room for them.
  const bool is_full = static_cast<int64_t>(request_.prompt.size()) + tokens_ > context_;
  if (is_complete())
    next.finish = Finish::Stop;
  else if (tokens_ == request_.max_tokens || is_full)
    next.finish = Finish::Length;
  return next;
}

bool Generation::is_stop(int32_t token) const {
  return std::binary_search(request_.stops.begin(), request_.stops.end(), token);
}

Result<int32_t> Generation::choose(std::span<const float> logits) {
  if (!grammar_holds()) return sampler_.sample(logits);
  TokenMask allowed = constraint_->mask();
  if (constraint_->can_end())
    for (int32_t token : request_.stops) allowed.set(token);
  return sampler_.sample(logits, allowed.words());
}

// What the grammar has to hold for begins behind a mark, which may end within a token.
Status Generation::accept(int32_t token) {
  if (!constraint_) return {};
  if (grammar_holds()) return constraint_->accept(token);
  before_ += tokenizer_.piece(token);
  const size_t at = before_.find(begins_after_);
  if (at == std::string::npos) {
    const size_t keep = std::min(before_.size(), begins_after_.size() - 1);
    before_.erase(0, before_.size() - keep);
    return {};
  }
  const std::string rest = before_.substr(at + begins_after_.size());
  begins_after_.clear();
  return constraint_->accept(std::string_view(rest));
}

}  // namespace smelt
