#include "text/sentencepiece.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <unordered_map>
#include <vector>

#include "text/utf8.h"

namespace smelt {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581

std::string unescaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const bool is_space = text.substr(pos, kSpace.size()) == kSpace;
    out += is_space ? ' ' : text[pos];
    pos += is_space ? kSpace.size() : 1;
  }
  return out;
}

// Without spaces at the beginning and behind another.
std::string squeezed(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c != ' ' || (!out.empty() && out.back() != ' ')) out += c;
  return out;
}

// "<0x0A>"
std::optional<char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  uint8_t byte = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  if (error != std::errc() || end != token.data() + 5) return std::nullopt;
  return static_cast<char>(byte);
}

bool merges(TokenType type) { return type == TokenType::normal || type == TokenType::unused; }

// The rank of each token: 0 for the highest score, the same for equal ones.
std::vector<uint32_t> ranks_of(std::span<const double> scores) {
  std::vector<int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return scores[a] > scores[b]; });
  std::vector<uint32_t> ranks(scores.size());
  for (size_t i = 1; i < order.size(); ++i)
    ranks[order[i]] = ranks[order[i - 1]] + (scores[order[i]] < scores[order[i - 1]]);
  return ranks;
}

// Tokens that take part in merges, and characters that only occur within them.
class Symbols {
 public:
  Symbols(std::span<const std::string> pieces, std::span<const TokenType> types)
      : tokens_(pieces.size()), size_(static_cast<int32_t>(pieces.size())) {
    for (size_t i = 0; i < pieces.size(); ++i)
      if (merges(types[i]) && !pieces[i].empty()) tokens_.add(pieces[i], static_cast<int32_t>(i));
    for (size_t i = 0; i < pieces.size(); ++i)
      if (merges(types[i])) add_characters(pieces[i]);
  }

  std::optional<int32_t> find(std::string_view text) const {
    if (const auto token = tokens_.find(text)) return token;
    const auto character = characters_.find(text);
    return character == characters_.end() ? std::nullopt : std::optional(character->second);
  }

  BpeModel::Characters characters() const {
    BpeModel::Characters found{TextTable(characters_.size()), size_};
    for (const auto& [text, id] : characters_) found.ids.add(text, id);
    return found;
  }

 private:
  void add_characters(std::string_view piece) {
    for (size_t pos = 0; pos < piece.size();) {
      const std::string_view character = piece.substr(pos, utf8_at(piece, pos).length);
      pos += character.size();
      const auto [entry, is_new] = characters_.try_emplace(character, -1);
      if (!is_new) continue;
      const auto token = tokens_.find(character);
      entry->second = token ? *token : size_ + more_++;
    }
  }

  TextTable tokens_;
  std::unordered_map<std::string_view, int32_t> characters_;
  int32_t size_, more_ = 0;  // tokens; characters that are none
};

struct Pair {
  int32_t left, right;
  MergeTable::Merge merge;
};

// Every way to make a token of two symbols.
std::vector<Pair> find_pairs(std::span<const std::string> pieces, std::span<const TokenType> types,
                             std::span<const double> scores, const Symbols& symbols) {
  const std::vector<uint32_t> ranks = ranks_of(scores);
  std::vector<Pair> pairs;
  for (int32_t id = 0; id < static_cast<int32_t>(pieces.size()); ++id) {
    const std::string_view piece = pieces[id];
    if (!merges(types[id]) || piece.empty() || symbols.find(piece) != id) continue;
    for (size_t cut = utf8_at(piece, 0).length; cut < piece.size(); cut += utf8_at(piece, cut).length) {
      const auto left = symbols.find(piece.substr(0, cut));
      const auto right = left ? symbols.find(piece.substr(cut)) : std::nullopt;
      if (right) pairs.push_back({*left, *right, {ranks[id], id}});
    }
  }
  return pairs;
}

}  // namespace

std::string with_spaces_set(std::string_view text, SpaceRules rules) {
  // Of what was written as U+2581 only the end is cut off: that is the library's order.
  std::string spaced = rules.squeeze ? unescaped(squeezed(text)) : unescaped(text);
  if (rules.squeeze) spaced.erase(spaced.find_last_not_of(' ') + 1);
  if (rules.prefix && !spaced.empty()) spaced.insert(spaced.begin(), ' ');
  return spaced;
}

std::optional<std::string> sentencepiece_bytes(std::string_view token, TokenType type) {
  if (type == TokenType::control || type == TokenType::unknown) return std::string(token);
  if (type != TokenType::byte) return unescaped(token);
  const auto byte = byte_of(token);
  return byte ? std::optional(std::string(1, *byte)) : std::nullopt;
}

BpeModel make_sentencepiece_model(std::span<const std::string> pieces, std::span<const TokenType> types,
                                  std::span<const double> scores, std::optional<int32_t> unknown) {
  BpeModel model;
  model.byte_ids.fill(-1);
  for (size_t i = pieces.size(); i-- > 0;)
    if (types[i] == TokenType::byte) model.byte_ids[static_cast<uint8_t>(pieces[i][0])] = static_cast<int32_t>(i);
  const Symbols symbols(pieces, types);
  const std::vector<Pair> pairs = find_pairs(pieces, types, scores, symbols);
  model.merges = MergeTable(pairs.size());
  for (const Pair& pair : pairs) model.merges.add(pair.left, pair.right, pair.merge);
  model.characters = symbols.characters();
  model.characters->unknown = unknown.value_or(-1);
  return model;
}

}  // namespace smelt
