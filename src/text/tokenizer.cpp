#include "text/tokenizer.h"

#include <algorithm>

#include "text/vocabulary.h"

namespace smelt {
namespace {

void append_words(const Vocabulary& vocabulary, BpeEncoder& encoder, std::string_view text, std::vector<int32_t>& out) {
  split_words(std::span(vocabulary.pre->stages), text, [&](std::string_view word) {
    if (vocabulary.pre->whole_words) {
      if (auto id = vocabulary.words.find(word)) return out.push_back(*id);
    }
    encoder.encode_word(word, out);
  });
}

// Calls on_text for each part of the text between tokens of `tokens`, empty ones too, and on_token for each of these.
template <class OnText, class OnToken>
void cut_at_tokens(const SpecialTokens& tokens, std::string_view text, const OnText& on_text, const OnToken& on_token) {
  size_t pos = 0;
  while (const auto hit = tokens.find(text, pos)) {
    on_text(text.substr(pos, hit->begin - pos));
    on_token(hit->id);
    pos = hit->end;
  }
  on_text(text.substr(pos));
}

// What the table of characters makes of a text. User-defined tokens stay as they are.
std::string mapped(const Vocabulary& vocabulary, std::string_view text) {
  std::string out;
  cut_at_tokens(
      vocabulary.symbols, text, [&](std::string_view part) { out += vocabulary.charsmap.applied_to(part); },
      [&](int32_t id) { out += vocabulary.pieces[id]; });
  return out;
}

// A text between special tokens.
void append_text(const Vocabulary& vocabulary, BpeEncoder& encoder, std::string_view text, std::vector<int32_t>& out) {
  if (!vocabulary.spaces) return append_words(vocabulary, encoder, text, out);
  if (vocabulary.unigram)
    return vocabulary.unigram->encode(with_spaces_set(mapped(vocabulary, text), *vocabulary.spaces), out);
  const std::string spaced = with_spaces_set(text, *vocabulary.spaces);
  cut_at_tokens(
      vocabulary.symbols, spaced, [&](std::string_view part) { append_words(vocabulary, encoder, part, out); },
      [&](int32_t id) { out.push_back(id); });
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const Vocabulary> vocabulary) : vocabulary_(std::move(vocabulary)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::from_data(TokenizerData data) {
  SMELT_TRY(vocabulary, make_vocabulary(std::move(data)));
  return Tokenizer(std::move(vocabulary));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool parse_special, bool add_special,
                                       const std::atomic<bool>* cancel) const {
  const SpecialTokens& special = parse_special ? vocabulary_->special : vocabulary_->letters;
  BpeEncoder encoder(vocabulary_->bpe, vocabulary_->window, cancel);
  std::vector<int32_t> ids;
  ids.reserve(text.size() + 2);  // a token has a byte at least; pages that stay unused cost nothing
  if (add_special && adds_bos()) ids.push_back(*bos());
  cut_at_tokens(
      special, text, [&](std::string_view part) { append_text(*vocabulary_, encoder, part, ids); },
      [&](int32_t id) { ids.push_back(id); });
  if (add_special && adds_eos()) ids.push_back(*eos());
  return ids;
}

std::vector<int32_t> Tokenizer::encode_runs(std::span<const Run> runs) const {
  std::vector<int32_t> ids;
  std::string between;  // since the last special token
  const auto flush = [&] {
    const std::vector<int32_t> words = encode(between, false, false);
    ids.insert(ids.end(), words.begin(), words.end());
    between.clear();
  };
  const SpecialTokens none;
  for (const auto& [text, parse_special] : runs)
    cut_at_tokens(
        parse_special ? vocabulary_->special : none, text, [&](std::string_view part) { between += part; },
        [&](int32_t id) { flush(), ids.push_back(id); });
  flush();
  return ids;
}

std::string_view Tokenizer::piece(int32_t id) const {
  return vocabulary_->has(id) ? std::string_view(vocabulary_->pieces[id]) : std::string_view();
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  bool begins = vocabulary_->spaces && vocabulary_->spaces->prefix;  // the next piece begins with a space of encode's
  for (int32_t id : ids) {
    std::string_view bytes = piece(id);
    if (begins && bytes.starts_with(' ')) bytes.remove_prefix(1);
    text += bytes;
    begins = vocabulary_->spaces && vocabulary_->spaces->prefix && is_control(id);
  }
  return text;
}

bool Tokenizer::is_stop(int32_t id) const {
  return std::binary_search(vocabulary_->stops.begin(), vocabulary_->stops.end(), id);
}
const std::vector<int32_t>& Tokenizer::stop_tokens() const { return vocabulary_->stops; }
bool Tokenizer::is_control(int32_t id) const {
  return vocabulary_->has(id) && vocabulary_->types[id] == TokenType::control;
}
int32_t Tokenizer::size() const { return static_cast<int32_t>(vocabulary_->pieces.size()); }
std::optional<int32_t> Tokenizer::find(std::string_view piece) const { return vocabulary_->find(piece); }
std::optional<int32_t> Tokenizer::bos() const { return vocabulary_->bos; }
std::optional<int32_t> Tokenizer::eos() const { return vocabulary_->eos; }
bool Tokenizer::adds_bos() const { return vocabulary_->add_bos; }
bool Tokenizer::adds_eos() const { return vocabulary_->add_eos; }
const std::string& Tokenizer::pre() const { return vocabulary_->pre_name; }
bool Tokenizer::is_byte_level() const { return !vocabulary_->spaces; }

}  // namespace smelt
