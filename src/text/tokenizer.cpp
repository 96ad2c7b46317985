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

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const Vocabulary> vocabulary) : vocabulary_(std::move(vocabulary)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::from_data(TokenizerData data) {
  SMELT_TRY(vocabulary, make_vocabulary(std::move(data)));
  return Tokenizer(std::move(vocabulary));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool parse_special, bool add_special) const {
  const SpecialTokens& special = parse_special ? vocabulary_->special : vocabulary_->letters;
  BpeEncoder encoder(vocabulary_->bpe, vocabulary_->window);
  std::vector<int32_t> ids;
  ids.reserve(text.size() + 2);  // a token has a byte at least; pages that stay unused cost nothing
  if (add_special && adds_bos()) ids.push_back(*bos());
  for (size_t pos = 0; pos < text.size();) {
    auto hit = special.find(text, pos);
    append_words(*vocabulary_, encoder, text.substr(pos, hit ? hit->begin - pos : text.npos), ids);
    if (hit) ids.push_back(hit->id);
    pos = hit ? hit->end : text.size();
  }
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
  for (const auto& [text, parse_special] : runs) {
    for (size_t pos = 0; pos < text.size();) {
      const auto hit = parse_special ? vocabulary_->special.find(text, pos) : std::nullopt;
      between += text.substr(pos, hit ? hit->begin - pos : text.npos);
      if (hit) flush(), ids.push_back(hit->id);
      pos = hit ? hit->end : text.size();
    }
  }
  flush();
  return ids;
}

std::string_view Tokenizer::piece(int32_t id) const {
  return vocabulary_->has(id) ? std::string_view(vocabulary_->pieces[id]) : std::string_view();
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (int32_t id : ids) text += piece(id);
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

}  // namespace smelt
