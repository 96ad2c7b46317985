#include "text/sentencepiece.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <random>

#include "gguf/gguf.h"
#include "support/gguf_writer.h"
#include "text/sample_vocabulary.h"
#include "text/tokenizer.h"

using namespace smelt;
using namespace smelt::test;
using Ids = std::vector<int32_t>;

namespace {

constexpr int32_t kFirst = 3 + 256;  // the first of the tokens that a test adds

// <unk> 0, <s> 1, </s> 2, then the 256 bytes: the byte b is 3 + b.
TokenizerData sentencepiece_vocabulary() {
  TokenizerData data;
  data.model = "llama";
  data.tokens = {"<unk>", "<s>", "</s>"};
  data.types = {2, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    char spelled[8];
    std::snprintf(spelled, sizeof spelled, "<0x%02X>", byte);
    add_token(data, spelled, TokenType::byte);
  }
  data.scores.assign(data.tokens.size(), 0);
  data.add_bos = false;
  return data;
}

// The highest score first.
TokenizerData with_tokens(std::initializer_list<const char*> texts) {
  TokenizerData data = sentencepiece_vocabulary();
  for (const char* text : texts) {
    add_token(data, text, TokenType::normal);
    data.scores.push_back(-static_cast<double>(data.tokens.size()));
  }
  return data;
}

int32_t add_scored(TokenizerData& data, const char* text, TokenType type, double score = 0) {
  data.scores.push_back(score);
  return add_token(data, text, type);
}

std::vector<std::string> pieces(const Tokenizer& tokenizer, std::string_view text, bool parse_special = false) {
  std::vector<std::string> out;
  for (const int32_t id : tokenizer.encode(text, parse_special)) out.emplace_back(tokenizer.piece(id));
  return out;
}

using Pieces = std::vector<std::string>;

}  // namespace

TEST_CASE("of two merges the one to the higher score comes first, of equal ones the leftmost") {
  TokenizerData data = with_tokens({"th", "▁t", "he", "▁the", "▁", "t", "h", "e"});
  CHECK(pieces(make(data), "the") == Pieces{" ", "th", "e"});
  data.scores[kFirst + 1] = 1;  // ▁t
  CHECK(pieces(make(data), "the") == Pieces{" the"});
  TokenizerData ties = with_tokens({"aa", "a"});
  ties.add_space_prefix = false;
  CHECK(pieces(make(ties), "aaaaa") == Pieces{"aa", "aa", "a"});
  ties.scores[kFirst] = ties.scores[kFirst + 1];
  CHECK(pieces(make(ties), "aaa") == Pieces{"aa", "a"});
}

TEST_CASE("a text begins with a space, as does what follows a control token") {
  TokenizerData data = with_tokens({"▁", "a", "▁a"});
  data.bos = 1, data.add_bos = true;
  CHECK(make(data).encode("a", true) == Ids{1, kFirst + 2});
  CHECK(make(data).encode("a</s>a", true, false) == Ids{kFirst + 2, 2, kFirst + 2});
  CHECK(make(data).encode("</s>", true, false) == Ids{2});
  CHECK(make(data).encode("", true, false).empty());
  CHECK(make(data).decode(make(data).encode("a</s> a", true, false)) == "a</s> a");
  data.add_space_prefix = false;
  CHECK(make(data).encode("a </s>a", true, false) == Ids{kFirst + 1, kFirst, 2, kFirst + 1});
  CHECK(make(data).decode(Ids{kFirst + 2, 2, kFirst + 2}) == " a</s> a");
}

TEST_CASE("blanks are kept unless the file has them removed; U+2581 is one") {
  TokenizerData data = with_tokens({"▁", "a"});
  CHECK(pieces(make(data), " a▁") == Pieces{" ", " ", "a", " "});
  data.remove_extra_whitespaces = true;
  CHECK(pieces(make(data), "  a   a  ") == Pieces{" ", "a", " ", "a"});
  CHECK(pieces(make(data), "   ").empty());
}

TEST_CASE("characters that no token has become their bytes, or the unknown token once") {
  TokenizerData data = with_tokens({"▁", "é", "a"});
  data.add_space_prefix = false;
  CHECK(make(data).encode("é€b") == Ids{kFirst + 1, 3 + 0xE2, 3 + 0x82, 3 + 0xAC, 3 + 'b'});
  CHECK(make(data).encode("\xC3") == Ids{3 + 0xC3});
  CHECK(make(data).decode(Ids{3 + 0xE2, 3 + 0x82, 3 + 0xAC}) == "€");
  TokenizerData bare;
  bare.model = "llama", bare.tokens = {"<unk>", "a", "b"}, bare.types = {2, 1, 1}, bare.scores = {0, 0, 0};
  bare.bos = 0, bare.eos = 0, bare.add_bos = false, bare.add_space_prefix = false;
  CHECK(make(bare).encode("a€€b\n") == Ids{1, 0, 2, 0});
  bare.types[0] = 1, bare.tokens[0] = "x", bare.unknown = 2;
  CHECK(make(bare).encode("€a") == Ids{2, 1});
}

TEST_CASE("a token whose characters are no tokens is still made of them") {
  TokenizerData data = with_tokens({"xyz", "xy", "ß€"});
  data.add_space_prefix = false;
  CHECK(pieces(make(data), "xyzxyß€ß") == Pieces{"xyz", "xy", "ß€", "\xC3", "\x9F"});
}

TEST_CASE("a piece and a stream give a character of byte tokens once it is whole") {
  TokenizerData data = with_tokens({"▁a"});
  const Tokenizer tokenizer = make(data);
  StreamDecoder stream(tokenizer);
  CHECK(stream.push(kFirst) == " a");
  CHECK(stream.push(3 + 0xE2) == "");
  CHECK(stream.push(3 + 0x82) == "");
  CHECK(stream.push(3 + 0xAC) == "€");
  CHECK(stream.push(3 + 0xE2) == "");
  CHECK(stream.push(kFirst) == "\uFFFD a");
}

TEST_CASE("user-defined tokens are found in every text, control tokens only where they are asked for") {
  TokenizerData data = with_tokens({"▁", "<", "s", ">", "s>", "<s>"});
  const int32_t twice = add_scored(data, "▁▁", TokenType::user_defined);
  const int32_t bold = add_scored(data, "<b>", TokenType::user_defined);
  data.tokens[kFirst + 5] = "<s";
  const Tokenizer tokenizer = make(std::move(data));
  CHECK(tokenizer.encode(" <b>", false) == Ids{twice, bold});
  CHECK(tokenizer.encode("<b>s", false) == Ids{kFirst, bold, kFirst + 2});  // no space before what follows
  CHECK(tokenizer.encode("<s>", true) == Ids{1});
  // Merging never makes a control token, even where its halves are tokens.
  CHECK(pieces(tokenizer, "<s>") == Pieces{" ", "<", "s>"});
  CHECK(tokenizer.decode(tokenizer.encode(" <b>s  s", false)) == " <b>s  s");
}

TEST_CASE("find prefers ordinary tokens to those of bytes, and knows both") {
  const Tokenizer tokenizer = make(with_tokens({"a", "▁b"}));
  CHECK(tokenizer.find("a") == kFirst);
  CHECK(tokenizer.find(" b") == kFirst + 1);
  CHECK(tokenizer.find("\n") == 3 + '\n');
  CHECK(tokenizer.find("</s>") == 2);
  CHECK_FALSE(tokenizer.is_byte_level());
}

TEST_CASE("what a file of SentencePiece leaves out is as usual: BOS 1 is added, EOS 2 stops") {
  TokenizerData data = with_tokens({"▁", "a"});
  data.add_bos.reset();
  const int32_t turn = add_scored(data, "<end_of_turn>", TokenType::control);
  const Tokenizer tokenizer = make(std::move(data));
  CHECK(tokenizer.encode("a") == Ids{1, kFirst, kFirst + 1});
  CHECK(tokenizer.stop_tokens() == Ids{2, turn});
}

TEST_CASE("any bytes come back from a vocabulary with all bytes, in windows as at once") {
  TokenizerData data = with_tokens({"aa", "aaa", "▁a", "▁▁", "▁", "a", "\u20AC", "€a", "b", "ab"});
  std::mt19937 random(5);
  for (const bool prefix : {false, true}) {
    data.add_space_prefix = prefix;
    const Tokenizer tokenizer = make(data);
    for (int round = 0; round < 200; ++round) {
      std::string text;
      for (int i = 0; i < 3 * round; ++i)
        text += random() % 2 ? static_cast<char>(random()) : "aab \n\xE2\x82\xAC<|'s1"[random() % 13];
      std::string expected = with_spaces_set(text, {.prefix = false});
      CHECK(tokenizer.decode(tokenizer.encode(text)) == expected);
    }
  }
  // Longer than a window: every part of 1000 characters is encoded as it is by itself where blanks part them.
  data.add_space_prefix = false;
  const Tokenizer tokenizer = make(data);
  std::string part, text;
  for (int i = 0; i < 333; ++i) part += "aab€c"[random() % 5] == 'c' ? "€" : "a";
  Ids expected;
  for (int i = 0; i < 100; ++i) {
    text += part + "\n";
    for (const int32_t id : tokenizer.encode(part + "\n")) expected.push_back(id);
  }
  REQUIRE(text.size() > 3 * BpeEncoder::kWindow);
  CHECK(tokenizer.encode(text) == expected);
}

TEST_CASE("errors of a SentencePiece vocabulary name key and value") {
  const auto error_after = [](auto spoil) {
    TokenizerData data = with_tokens({"▁", "a"});
    spoil(data);
    return error_of(std::move(data));
  };
  CHECK(error_after([](auto&) {}) == "");
  CHECK(error_after([](auto& d) { d.scores.pop_back(); }) ==
        "[tokenizer] tokenizer.ggml.scores: 260 entries do not fit the vocabulary of 261 tokens; convert the model "
        "again");
  CHECK(error_after([](auto& d) { d.scores[4] = std::nan(""); }) ==
        "[tokenizer] tokenizer.ggml.scores: entry 4 is not a number; convert the model again");
  for (const char* text : {"0A", "<0x0>", "<0xGG>", "<0x+1>", "<0x0A)"})
    CHECK(error_after([&](auto& d) { d.tokens[13] = text; }) ==
          "[tokenizer] tokenizer.ggml.tokens: entry 13 is of the type of bytes, but \"" + std::string(text) +
              "\" is not written as <0x0A>; convert the model again");
  CHECK(error_after([](auto& d) { d.tokens.back() = std::string(2000, 'a'); }) ==
        "[tokenizer] tokenizer.ggml.tokens: entry 260 has 2000 bytes; at most 1024 are possible");
  CHECK(error_after([](auto& d) { d.unknown = 999; }).starts_with("[tokenizer] tokenizer.ggml.unknown_token_id: 999"));
}

TEST_CASE("a GGUF file gives scores and what it does with spaces") {
  GgufWriter writer;
  writer.string("general.architecture", "llama").string("tokenizer.ggml.model", "llama");
  writer.strings("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "▁", "a", "aa"});
  const auto load = [](GgufWriter& from) {
    auto bytes = from.bytes();
    auto file = GgufFile::open_memory(bytes);
    REQUIRE_MESSAGE(file.ok(), file.error().message);
    return Tokenizer::from_gguf(*file);
  };
  CHECK(load(writer).error().message.find("tokenizer.ggml.scores") != std::string::npos);
  writer.f32s("tokenizer.ggml.scores", {0, 0, 0, -1, -2, -3}).i32s("tokenizer.ggml.token_type", {2, 3, 3, 1, 1, 1});
  auto usual = load(writer);
  REQUIRE(usual);
  CHECK(usual->encode("a  aa") == Ids{1, 3, 4, 3, 3, 5});
  writer.boolean("tokenizer.ggml.add_space_prefix", false).boolean("tokenizer.ggml.remove_extra_whitespaces", true);
  auto other = load(writer);
  REQUIRE(other);
  CHECK(other->encode("a  aa") == Ids{1, 4, 3, 5});
  writer.string("tokenizer.ggml.scores", "no");
  CHECK(load(writer).error().message.find("tokenizer.ggml.scores") != std::string::npos);
}
