#include "app/generate.h"

#include <algorithm>

#include "app/stopwatch.h"
#include "engine/verification.h"

namespace smelt {
namespace {

// Chooses tokens and gives them out, until something ends the text. It knows nothing of steps: the same logits give the
// same text however many of them a step has made.
class Writer {
 public:
  Writer(const GenerateOptions& options, const Tokenizer& tokenizer, Sampler& sampler,
         std::function<bool(int32_t)> emit)
      : options_(options),
        sampler_(sampler),
        emit_(std::move(emit)),
        stops_(options.stops ? *options.stops : tokenizer.stop_tokens()) {}

  // The next token, by the logits behind the one before, and a draft of it if there is one. It is given out; nothing
  // where the text has ended without one.
  Result<std::optional<int32_t>> next(std::span<const float> logits, const DraftToken* draft = nullptr) {
    if (options_.constraint && options_.constraint->is_finished()) return end(StopReason::complete);
    SMELT_TRY(token, choose(logits, draft));
    return take(token);
  }

  // The same for a token that was chosen as choice() says.
  Result<std::optional<int32_t>> take(int32_t token) {
    sampler_.accept(token);
    if (!options_.ignore_stop && std::binary_search(stops_.begin(), stops_.end(), token))
      return end(StopReason::stop_token);
    if (options_.constraint) SMELT_CHECK(options_.constraint->accept(token));
    ++tokens_;
    if (!emit_(token)) ended_ = StopReason::unwanted;
    // Nobody would look at the next logits.
    if (tokens_ == options_.max_tokens && !ended_) ended_ = StopReason::length;
    return std::optional<int32_t>(token);
  }

  // How the token behind `ahead` more is to be chosen on the device; nothing where that cannot be said.
  std::optional<TokenChoice> choice(int64_t vocabulary, int64_t ahead) const {
    if (options_.constraint || options_.speculation) return std::nullopt;
    return sampler_.choice(vocabulary, ahead);
  }

  const std::optional<StopReason>& ended() const { return ended_; }
  int64_t tokens() const { return tokens_; }
  // Tokens that may still come.
  int64_t room() const { return options_.max_tokens < 0 ? INT64_MAX : options_.max_tokens - tokens_; }

 private:
  std::optional<int32_t> end(StopReason reason) {
    ended_ = reason;
    return std::nullopt;
  }

  // What was drawn is kept by the rejection rule; any other draft where it is the token that would come without it.
  Result<int32_t> sample(std::span<const float> logits, const DraftToken* draft, std::span<const uint64_t> allowed) {
    if (!draft || draft->drawn_from.empty()) return sampler_.sample(logits, allowed);
    return sampler_.sample_with_draft(logits, draft->id, draft->drawn_from, allowed);
  }

  Result<int32_t> choose(std::span<const float> logits, const DraftToken* draft) {
    if (!options_.constraint) return sample(logits, draft, {});
    TokenMask allowed = options_.constraint->mask();
    if (options_.constraint->can_end())
      for (int32_t token : stops_) allowed.set(token);
    return sample(logits, draft, allowed.words());
  }

  const GenerateOptions& options_;
  Sampler& sampler_;
  std::function<bool(int32_t)> emit_;
  const std::vector<int32_t>& stops_;
  std::optional<StopReason> ended_;
  int64_t tokens_ = 0;
};

// What a step of one token and some drafts has given.
struct Verified {
  int32_t next = 0;      // the token behind those that are right, unless the text has ended
  int64_t accepted = 0;  // drafts that are right
};

// Appends a token and its drafts, and takes back those behind the first one that is wrong: the context is then the one
// that single steps would have left.
Result<Verified> verify(Session& session, Writer& writer, int32_t token, std::span<const DraftToken> drafts,
                        const std::atomic<bool>& cancel) {
  const int64_t before = session.position();
  std::vector<int32_t> tokens{token};
  for (const DraftToken& draft : drafts) tokens.push_back(draft.id);
  int32_t last = 0;
  Status judged;
  Verification verification(drafts);
  const auto judge = [&](int64_t, std::span<const float> logits) {
    if (!verification.is_open()) return;
    const auto next = writer.next(logits, verification.draft());
    if (!next) judged = next.error();
    if (!next || writer.ended()) return verification.end();
    verification.take(last = **next);
  };
  SMELT_CHECK(session.extend_all(tokens, judge, &cancel));
  session.rewind(before + verification.kept());
  SMELT_CHECK(judged);
  return Verified{.next = last, .accepted = verification.accepted()};
}

// Steps whose tokens the device chooses: while the host looks at one token the next one is under way.
class ChainedWriter {
 public:
  ChainedWriter(Session& session, Writer& writer, const std::atomic<bool>& cancel)
      : session_(session), writer_(writer), cancel_(cancel) {}

  // Until the text has ended, behind its first token, or the context is full. `count` is called for each step. What was
  // begun behind the end is waited for and counts for nothing.
  Status write(int32_t first, const std::function<void()>& count) {
    known_ = first;
    Status status;
    while (status && !writer_.ended() && !is_full_ && !cancel_) {
      status = begin();
      if (!status || is_full_) continue;
      status = take();
      count();
    }
    const Status dropped = session_.drop();
    return status ? dropped : status;
  }
  bool is_full() const { return is_full_; }

 private:
  Status begin() {
    const Engine& engine = session_.engine();
    while (engine.begun() < Engine::kMostBegun && engine.begun() < writer_.room()) {
      SMELT_TRY(has_begun, session_.begin(known_, *writer_.choice(session_.vocabulary_size(), engine.begun())));
      if (!has_begun) break;
      known_.reset();
    }
    is_full_ = engine.begun() == 0;
    return {};
  }

  Status take() {
    SMELT_TRY(token, session_.take());
    SMELT_TRY(given, writer_.take(token));
    if (session_.engine().begun() == 0) known_ = given;
    return {};
  }

  Session& session_;
  Writer& writer_;
  const std::atomic<bool>& cancel_;
  std::optional<int32_t> known_;  // the token behind the context; nothing: the step begun last chooses it
  bool is_full_ = false;
};

// All tokens of the context and one more, for drafts.
std::vector<int32_t> text_for_drafts(const GenerateOptions& options, std::span<const int32_t> prompt) {
  if (!options.speculation) return {};
  std::vector<int32_t> text = options.before;
  text.insert(text.end(), prompt.begin(), prompt.end());
  return text;
}

}  // namespace

Result<Generation> generate(Session& session, const Tokenizer& tokenizer, Sampler& sampler,
                            std::span<const int32_t> prompt, const GenerateOptions& options,
                            const std::function<bool(int32_t)>& emit, const std::atomic<bool>& cancel) {
  Generation generation;
  std::vector<int32_t> text = text_for_drafts(options, prompt);
  if (options.speculation) options.speculation->sample_like(sampler.options());
  Writer writer(options, tokenizer, sampler, [&](int32_t token) {
    if (options.speculation) text.push_back(token);
    return emit(token);
  });
  const auto ended = [&](StopReason reason) {
    generation.stopped = reason;
    generation.tokens = writer.tokens();
    return generation;
  };
  Stopwatch watch;
  const auto logits = session.append(prompt, &cancel);
  if (cancel) return ended(StopReason::interrupted);
  if (!logits) return logits.error();
  generation.prompt_tokens = static_cast<int64_t>(prompt.size());
  generation.prompt_seconds = watch.lap();
  if (options.max_tokens == 0) return ended(StopReason::length);

  SMELT_TRY(first, writer.next(*logits));
  int32_t token = first.value_or(0);
  if (session.engine().chooses_tokens() && writer.choice(session.vocabulary_size(), 0) && !writer.ended()) {
    ChainedWriter chained(session, writer, cancel);
    const Status done = chained.write(token, [&] {
      ++generation.decode_steps;
      generation.decode_seconds += watch.lap();
    });
    if (cancel) return ended(StopReason::interrupted);
    if (!done) return done.error();
    return ended(chained.is_full() ? StopReason::context_full : *writer.ended());
  }
  while (!writer.ended()) {
    const int64_t free = session.context() - session.position();
    if (free == 0) return ended(StopReason::context_full);
    std::vector<DraftToken> drafts;
    if (options.speculation) {
      auto drafted = options.speculation->draft(text, std::min(writer.room(), free) - 1);
      if (cancel) return ended(StopReason::interrupted);
      if (!drafted) return drafted.error();
      drafts = drafted.take();
    }
    const auto verified = verify(session, writer, token, drafts, cancel);
    if (cancel) return ended(StopReason::interrupted);
    if (!verified) return verified.error();
    token = verified->next;
    const double seconds = watch.lap();
    generation.decode_steps += 1 + verified->accepted;
    generation.decode_seconds += seconds;
    if (options.speculation)
      options.speculation->record(static_cast<int64_t>(drafts.size()), verified->accepted, seconds);
  }
  return ended(*writer.ended());
}

}  // namespace smelt
