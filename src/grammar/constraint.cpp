#include "grammar/constraint.h"

#include <algorithm>

namespace smelt {
namespace {

constexpr size_t kKnownBytes = 16 << 20;  // of masks that a text keeps; each has a bit for every token
constexpr size_t kKeptTexts = 2;          // whose masks are kept for others

// Reads tokens in sorted order by two readings: `inside` without leaving the rule, and, where that ends and the rule
// could have ended before, `around` as if any caller's text could follow. Both keep the state after each byte, for the
// tokens that begin alike.
class BaseReader {
 public:
  BaseReader(Matcher& matcher, int32_t position) : matcher_(matcher) {
    const Matcher::State inside = matcher.at(position, Matcher::kUnknown);
    after_.push_back({inside, matcher.at(position, Matcher::kAnyCaller), matcher.leaves(inside)});
  }

  // Goes on from the first `shared` bytes of the text before. Returns how many bytes of this one can be read.
  size_t read(std::string_view text, size_t shared) {
    after_.resize(std::min(after_.size(), shared + 1));
    while (after_.size() <= text.size() && step(text)) {
    }
    return after_.size() - 1;
  }
  bool stays_inside() const { return after_.back().inside != Matcher::kDead; }

 private:
  static constexpr Matcher::State kNotRead = -1;

  struct After {
    Matcher::State inside, around;
    bool left;  // the rule could end at this byte or before
  };

  bool step(std::string_view text) {
    const After last = after_.back();
    const Matcher::State inside = matcher_.step(last.inside, static_cast<uint8_t>(text[after_.size() - 1]));
    if (inside == Matcher::kDead && (!last.left || read_around(text) == Matcher::kDead)) return false;
    if (inside != Matcher::kDead) after_.push_back({inside, kNotRead, last.left || matcher_.leaves(inside)});
    return true;
  }

  // Reads on around from where that was last done, one byte further than inside got; appends that byte.
  Matcher::State read_around(std::string_view text) {
    size_t known = after_.size() - 1;
    while (after_[known].around == kNotRead) --known;
    for (; known + 1 < after_.size(); ++known)
      after_[known + 1].around = matcher_.step(after_[known].around, static_cast<uint8_t>(text[known]));
    const Matcher::State around = matcher_.step(after_.back().around, static_cast<uint8_t>(text[known]));
    if (around != Matcher::kDead) after_.push_back({Matcher::kDead, around, true});
    return around;
  }

  Matcher& matcher_;
  std::vector<After> after_;  // 0 bytes, 1 byte, ...
};

}  // namespace

void TokenMask::add(const TokenMask& other) {
  for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
}

bool TokenMask::empty() const {
  return std::all_of(words_.begin(), words_.end(), [](uint64_t w) { return w == 0; });
}

Result<std::shared_ptr<const TokenMasks>> TokenMasks::make(const Grammar& grammar,
                                                           std::shared_ptr<const TokenTable> tokens) {
  SMELT_TRY(automaton, Automaton::from(grammar));
  return std::shared_ptr<const TokenMasks>(new TokenMasks(std::move(automaton), std::move(tokens)));
}

TokenMasks::TokenMasks(Automaton automaton, std::shared_ptr<const TokenTable> tokens)
    : automaton_(std::move(automaton)), tokens_(std::move(tokens)), matcher_(automaton_) {}

const TokenMasks::Base& TokenMasks::base(int32_t position) const {
  const std::lock_guard lock(mutex_);
  auto& base = bases_[position];
  if (!base) base = std::make_unique<const Base>(make_base(position));
  return *base;
}

TokenMasks::Base TokenMasks::make_base(int32_t position) const {
  matcher_.forget_if_large();
  BaseReader reader(matcher_, position);
  Base base{.allowed = TokenMask(tokens_->vocabulary_size()), .depends = {}};
  int32_t place = 0;
  while (place < tokens_->size()) {
    const std::string_view text = tokens_->text(place);
    const auto read = static_cast<int32_t>(reader.read(text, static_cast<size_t>(tokens_->shared(place))));
    if (read == static_cast<int32_t>(text.size())) {
      if (reader.stays_inside())
        base.allowed.set(tokens_->token(place));
      else
        base.depends.push_back(place);
      ++place;
    } else if (read == 0) {  // no token that begins with this byte
      place = tokens_->first_of(static_cast<uint8_t>(text[0]) + 1);
    } else {
      do ++place;
      while (place < tokens_->size() && tokens_->shared(place) > read);
    }
  }
  return base;
}

std::unique_ptr<TokenMasks::Found> TokenMasks::take_found() const {
  const std::lock_guard lock(mutex_);
  if (found_.empty()) return std::make_unique<Found>(automaton_);
  auto found = std::move(found_.back());
  found_.pop_back();
  return found;
}

void TokenMasks::give_back(std::unique_ptr<Found> found) const {
  const std::lock_guard lock(mutex_);
  if (found_.size() < kKeptTexts && !found->matcher.is_too_ambiguous()) found_.push_back(std::move(found));
}

Constraint::Constraint(std::shared_ptr<const TokenMasks> masks)
    : masks_(std::move(masks)), found_(masks_->take_found()), state_(found_->matcher.start()) {}

Constraint::~Constraint() {
  if (found_) masks_->give_back(std::move(found_));
}

Status Constraint::accept(std::string_view bytes) {
  Matcher::State state = state_;
  for (char c : bytes) state = found_->matcher.step(state, static_cast<uint8_t>(c));
  if (found_->matcher.is_too_ambiguous())
    return Error{"[grammar] the text can be read in too many ways; make the grammar's rules less alike"};
  if (state == Matcher::kDead) return Error{"[grammar] the grammar has no text that goes on like this"};
  state_ = state;
  text_ += bytes;
  forget_if_large();
  return {};
}

Status Constraint::accept(int32_t token) { return accept(masks_->tokens().piece(token)); }

void Constraint::forget_if_large() {
  if (!found_->matcher.forget_if_large()) return;
  found_->masks.clear();
  state_ = found_->matcher.start();
  for (char c : text_) state_ = found_->matcher.step(state_, static_cast<uint8_t>(c));
}

const TokenMask& Constraint::mask() {
  auto& known = found_->masks;
  if (const auto it = known.find(state_); it != known.end()) return it->second;
  const size_t bytes = static_cast<size_t>(masks_->tokens().vocabulary_size()) / 8 + 1;
  if (known.size() * bytes >= kKnownBytes) known.clear();
  return known.emplace(state_, make_mask()).first->second;
}

TokenMask Constraint::make_mask() {
  const TokenTable& tokens = masks_->tokens();
  TokenMask mask(tokens.vocabulary_size());
  std::vector<int32_t> open;
  for (int32_t position : found_->matcher.positions(state_)) {
    const TokenMasks::Base& base = masks_->base(position);
    mask.add(base.allowed);
    const size_t middle = open.size();
    open.insert(open.end(), base.depends.begin(), base.depends.end());
    std::inplace_merge(open.begin(), open.begin() + static_cast<ptrdiff_t>(middle), open.end());
  }
  open.erase(std::unique(open.begin(), open.end()), open.end());
  std::vector<Matcher::State> after{state_};  // each byte of the token before
  std::string_view before;
  for (int32_t place : open) {
    if (mask.has(tokens.token(place))) continue;
    const std::string_view text = tokens.text(place);
    const auto [end, unused] = std::mismatch(before.begin(), before.end(), text.begin(), text.end());
    after.resize(std::min<size_t>(after.size(), static_cast<size_t>(end - before.begin()) + 1));
    while (after.size() <= text.size() && after.back() != Matcher::kDead)
      after.push_back(found_->matcher.step(after.back(), static_cast<uint8_t>(text[after.size() - 1])));
    if (after.size() > text.size() && after.back() != Matcher::kDead) mask.set(tokens.token(place));
    before = text;
  }
  return mask;
}

}  // namespace smelt
