#include "text/vocabulary.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/printable.h"
#include "text/byte_level.h"
#include "text/utf8.h"

namespace smelt {
namespace {

constexpr std::string_view kPrefix = "tokenizer.ggml.";

// Tokens that end a turn, whatever the file's ids say: many files list only one of several.
constexpr std::string_view kStopTexts[] = {
    "<|endoftext|>",         "<|eot_id|>",    "<|eom_id|>", "<|im_end|>", "<|end_of_text|>", "<|end|>", "<|EOT|>",
    "<｜end▁of▁sentence｜>", "<end_of_turn>",
};
// In gpt-oss' format, the only one with channels, this ends one message of several.
constexpr std::string_view kHarmonySign = "<|channel|>", kHarmonyMessageEnd = "<|end|>";
// In GLM's format the next speaker's mark ends a turn.
constexpr std::string_view kGlmStopTexts[] = {"<|user|>", "<|observation|>"};

std::string in_quotes(std::string_view text) { return "\"" + printable(text, 60) + "\""; }

Error bad(std::string_view key, const std::string& what) {
  return {"[tokenizer] " + std::string(kPrefix) + std::string(key) + ": " + what};
}

std::string in_vocabulary(size_t count) { return "the vocabulary of " + std::to_string(count) + " tokens"; }

Status check_sizes(const TokenizerData& data) {
  if (data.tokens.empty()) return bad("tokens", "the list is empty; a vocabulary is needed to read and write text");
  if (data.tokens.size() > INT32_MAX) return bad("tokens", "the list is too long");
  if (!data.types.empty() && data.types.size() != data.tokens.size())
    return bad("token_type", std::to_string(data.types.size()) + " entries do not fit " +
                                 in_vocabulary(data.tokens.size()) + "; convert the model again");
  return {};
}

Result<std::vector<TokenType>> read_types(const TokenizerData& data) {
  std::vector<TokenType> types(data.tokens.size(), TokenType::normal);
  for (size_t i = 0; i < data.types.size(); ++i) {
    int64_t type = data.types[i];
    if (type < 1 || type > 6)
      return bad("token_type", "entry " + std::to_string(i) + " is " + std::to_string(type) +
                                   ", but the types are 1 to 6; convert the model again");
    types[i] = static_cast<TokenType>(type);
  }
  return types;
}

Result<TextTable> number_texts(const std::vector<std::string>& tokens) {
  TextTable table(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    auto earlier = table.add(tokens[i], static_cast<int32_t>(i));
    if (earlier)
      return bad("tokens", "entries " + std::to_string(*earlier) + " and " + std::to_string(i) + " are both " +
                               in_quotes(tokens[i]) + "; convert the model again");
  }
  return table;
}

// The bytes that each token stands for. A text outside the byte-level alphabet stands for itself.
std::vector<std::string> make_pieces(std::vector<std::string> tokens, const std::vector<TokenType>& types) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (types[i] != TokenType::normal) continue;
    if (auto bytes = bytes_of_token_text(tokens[i])) tokens[i] = std::move(*bytes);
  }
  return tokens;
}

Result<MergeTable> read_merges(const std::vector<std::string>& merges, const TextTable& ids) {
  MergeTable table(merges.size());
  std::string joined;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    auto wrong = [&](const std::string& why) {
      return bad("merges", "entry " + std::to_string(rank) + " " + in_quotes(merges[rank]) + " " + why +
                               "; convert the model again");
    };
    std::string_view merge = merges[rank];
    size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size()) return wrong("is not two tokens");
    std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
    joined.assign(left).append(right);
    auto left_id = ids.find(left), right_id = ids.find(right), joined_id = ids.find(joined);
    if (!left_id) return wrong("names " + in_quotes(left) + ", which is no token");
    if (!right_id) return wrong("names " + in_quotes(right) + ", which is no token");
    if (!joined_id) return wrong("makes " + in_quotes(joined) + ", which is no token");
    table.add(*left_id, *right_id, {static_cast<uint32_t>(rank), *joined_id});
  }
  return table;
}

// A byte may lack a token: vocabularies leave out some that hardly occur, and those are dropped
// from texts, as the models' own tokenizers do it. Without the everyday ones it is not a byte-level
// vocabulary at all.
Result<std::array<int32_t, 256>> find_byte_tokens(const TextTable& words) {
  std::array<int32_t, 256> ids{};
  for (int byte = 0; byte < 256; ++byte) {
    char c = static_cast<char>(byte);
    ids[byte] = words.find({&c, 1}).value_or(-1);
    bool everyday = byte == '\n' || (byte >= ' ' && byte <= '~');
    if (ids[byte] < 0 && everyday)
      return bad("tokens", "no token stands for the byte " + in_quotes({&c, 1}) +
                               " alone; only byte-level vocabularies can be used");
  }
  return ids;
}

Result<std::optional<int32_t>> check_id(std::string_view key, std::optional<int64_t> id, size_t count) {
  if (!id) return std::optional<int32_t>();
  if (*id < 0 || *id >= static_cast<int64_t>(count))
    return bad(key, std::to_string(*id) + " is outside " + in_vocabulary(count) + "; convert the model again");
  return std::optional(static_cast<int32_t>(*id));
}

// Characters that an older vocabulary lacked and that were added to it ("ü" in DeepSeek-LLM) are
// ordinary text, as are runs of spaces; markup such as <think> is not.
bool is_plain_text(std::string_view text) {
  if (text.find_first_not_of(" \t\n") == std::string_view::npos) return true;
  Utf8Char c = utf8_at(text, 0);
  return c.status == Utf8::valid && c.length == text.size();
}

// Fills words, markers, special, letters and symbols from pieces and types.
Status index_pieces(Vocabulary& vocabulary) {
  size_t count = vocabulary.pieces.size();
  vocabulary.words = TextTable(count);
  vocabulary.markers = TextTable(count);
  std::vector<SpecialTokens::Token> special, letters, symbols;
  for (size_t i = 0; i < count; ++i) {
    const std::string& piece = vocabulary.pieces[i];
    TokenType type = vocabulary.types[i];
    int32_t id = static_cast<int32_t>(i);
    if (type == TokenType::byte && vocabulary.spaces) continue;
    (type == TokenType::normal ? vocabulary.words : vocabulary.markers).add(piece, id);
    if ((type != TokenType::control && type != TokenType::user_defined) || piece.empty()) continue;
    if (piece.size() > SpecialTokens::kLongestText)
      return bad("tokens", "entry " + std::to_string(i) + " is a special token of " + std::to_string(piece.size()) +
                               " bytes; at most " + std::to_string(SpecialTokens::kLongestText) + " are possible");
    (vocabulary.spaces && type == TokenType::user_defined ? symbols : special).push_back({piece, id});
    if (!vocabulary.spaces && type == TokenType::user_defined && is_plain_text(piece)) letters.push_back({piece, id});
  }
  // A byte token is not what its text is found by where there is another one.
  for (size_t i = 0; i < count; ++i)
    if (vocabulary.spaces && vocabulary.types[i] == TokenType::byte)
      vocabulary.words.add(vocabulary.pieces[i], static_cast<int32_t>(i));
  vocabulary.special = SpecialTokens(std::move(special));
  vocabulary.letters = SpecialTokens(std::move(letters));
  vocabulary.symbols = SpecialTokens(std::move(symbols));
  return {};
}

void add_stops_by_text(Vocabulary& vocabulary, std::span<const std::string_view> texts) {
  for (std::string_view text : texts)
    if (auto id = vocabulary.find(text)) vocabulary.stops.push_back(*id);
}

// The ids that begin and end texts.
Status set_ends(Vocabulary& vocabulary, const TokenizerData& data) {
  size_t count = vocabulary.pieces.size();
  SMELT_TRY(bos, check_id("bos_token_id", data.bos, count));
  SMELT_TRY(eos, check_id("eos_token_id", data.eos, count));
  SMELT_TRY(eot, check_id("eot_token_id", data.eot, count));
  SMELT_TRY(eom, check_id("eom_token_id", data.eom, count));
  SMELT_CHECK(check_id("unknown_token_id", data.unknown, count));
  SMELT_CHECK(check_id("padding_token_id", data.padding, count));
  std::vector<int32_t>& stops = vocabulary.stops;
  for (std::optional<int32_t> id : {eos, eot, eom})
    if (id) stops.push_back(*id);
  for (int64_t more : data.more_eos) {
    SMELT_TRY(id, check_id("eos_token_ids", more, count));
    stops.push_back(*id);
  }
  add_stops_by_text(vocabulary, kStopTexts);
  if (vocabulary.pre->is_glm) add_stops_by_text(vocabulary, kGlmStopTexts);
  if (vocabulary.find(kHarmonySign)) std::erase(stops, vocabulary.find(kHarmonyMessageEnd).value_or(-1));
  std::sort(stops.begin(), stops.end());
  stops.erase(std::unique(stops.begin(), stops.end()), stops.end());

  vocabulary.bos = bos;
  vocabulary.eos = eos;
  vocabulary.add_bos = data.add_bos.value_or(vocabulary.pre->add_bos && bos);
  vocabulary.add_eos = data.add_eos.value_or(false);
  if (vocabulary.add_bos && !bos) return bad("add_bos_token", "is true, but bos_token_id is missing");
  if (vocabulary.add_eos && !eos) return bad("add_eos_token", "is true, but eos_token_id is missing");
  return {};
}

std::string pretokenizer_names() {
  std::string names;
  for (const Pretokenizer& pre : all_pretokenizers())
    for (std::string_view name : pre.names) names.append(names.empty() ? "" : ", ").append(name);
  return names;
}

// Pieces and merges of byte-level BPE.
Status fill_byte_level(Vocabulary& vocabulary, TokenizerData& data) {
  SMELT_TRY(ids, number_texts(data.tokens));
  SMELT_TRY(merges, read_merges(data.merges, ids));
  vocabulary.pieces = make_pieces(std::move(data.tokens), vocabulary.types);  // `ids` is of no use from here on
  SMELT_CHECK(index_pieces(vocabulary));
  SMELT_TRY(byte_ids, find_byte_tokens(vocabulary.words));
  vocabulary.bpe = {byte_ids, std::move(merges), std::nullopt};
  return {};
}

// Files say only what differs from the first models of this kind, as llama.cpp reads them.
void set_sentencepiece_defaults(TokenizerData& data) {
  const auto usual = [&](std::optional<int64_t>& id, int64_t value) {
    if (!id && value < static_cast<int64_t>(data.tokens.size())) id = value;
  };
  const bool is_unigram = data.model == "t5";
  usual(data.unknown, is_unigram ? 2 : 0);
  if (!is_unigram) usual(data.bos, 1);
  usual(data.eos, is_unigram ? 1 : 2);
  if (is_unigram && !data.add_eos) data.add_eos = data.eos.has_value();
}

// The table of characters, and the scores in place of merges.
Status fill_unigram(Vocabulary& vocabulary, const TokenizerData& data, std::optional<int32_t> unknown) {
  auto charsmap = Charsmap::parse(data.charsmap);
  if (!charsmap)
    return bad("precompiled_charsmap", "its " + std::to_string(data.charsmap.size()) +
                                           " bytes are no table of characters; convert the model again");
  vocabulary.charsmap = std::move(*charsmap);
  vocabulary.unigram.emplace(vocabulary.pieces, vocabulary.types, data.scores, unknown.value_or(-1));
  return {};
}

Status check_scores(const TokenizerData& data) {
  if (data.scores.size() != data.tokens.size())
    return bad("scores", std::to_string(data.scores.size()) + " entries do not fit " +
                             in_vocabulary(data.tokens.size()) + "; convert the model again");
  for (size_t i = 0; i < data.scores.size(); ++i)
    if (std::isnan(data.scores[i]))
      return bad("scores", "entry " + std::to_string(i) + " is not a number; convert the model again");
  return {};
}

// Pieces and merges of SentencePiece's BPE.
Status fill_sentencepiece(Vocabulary& vocabulary, TokenizerData& data) {
  SMELT_CHECK(check_scores(data));
  set_sentencepiece_defaults(data);
  const bool is_unigram = data.model == "t5";
  vocabulary.spaces =
      SpaceRules{data.add_space_prefix.value_or(true), data.remove_extra_whitespaces.value_or(is_unigram)};
  for (size_t i = 0; i < data.tokens.size(); ++i) {
    auto bytes = sentencepiece_bytes(data.tokens[i], vocabulary.types[i]);
    if (!bytes)
      return bad("tokens", "entry " + std::to_string(i) + " is of the type of bytes, but " + in_quotes(data.tokens[i]) +
                               " is not written as <0x0A>; convert the model again");
    if (bytes->size() > kLongestPiece)
      return bad("tokens", "entry " + std::to_string(i) + " has " + std::to_string(bytes->size()) + " bytes; at most " +
                               std::to_string(kLongestPiece) + " are possible");
    vocabulary.pieces.push_back(std::move(*bytes));
  }
  SMELT_CHECK(index_pieces(vocabulary));
  SMELT_TRY(unknown, check_id("unknown_token_id", data.unknown, vocabulary.pieces.size()));
  if (is_unigram) return fill_unigram(vocabulary, data, unknown);
  vocabulary.bpe = make_sentencepiece_model(vocabulary.pieces, vocabulary.types, data.scores, unknown);
  return {};
}

}  // namespace

std::optional<int32_t> Vocabulary::find(std::string_view piece) const {
  auto marker = markers.find(piece);
  return marker ? marker : words.find(piece);
}

Result<std::unique_ptr<const Vocabulary>> make_vocabulary(TokenizerData data) {
  auto vocabulary = std::make_unique<Vocabulary>();
  const bool is_sentencepiece = data.model == "llama" || data.model == "t5";
  if (data.model != "gpt2" && !is_sentencepiece)
    return bad("model",
               in_quotes(data.model) +
                   " is not supported; smelt reads byte-level BPE, \"gpt2\", and SentencePiece's two, \"llama\" and "
                   "\"t5\"");
  vocabulary->pre = is_sentencepiece ? &no_pretokenizer() : find_pretokenizer(data.pre);
  if (!vocabulary->pre)
    return bad("pre", in_quotes(data.pre) + " is not supported; smelt knows " + pretokenizer_names());
  vocabulary->pre_name = data.pre;
  SMELT_CHECK(check_sizes(data));
  SMELT_TRY(types, read_types(data));
  vocabulary->types = std::move(types);
  SMELT_CHECK(is_sentencepiece ? fill_sentencepiece(*vocabulary, data) : fill_byte_level(*vocabulary, data));
  size_t longest = 0;
  for (const std::string& piece : vocabulary->pieces) longest = std::max(longest, piece.size());
  vocabulary->window = std::max(BpeEncoder::kWindow, 8 * longest);
  SMELT_CHECK(set_ends(*vocabulary, data));
  return std::unique_ptr<const Vocabulary>(std::move(vocabulary));
}

}  // namespace smelt
