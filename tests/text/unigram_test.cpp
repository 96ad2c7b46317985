#include "text/unigram.h"

#include <doctest/doctest.h>

#include <cstring>

#include "text/charsmap.h"
#include "text/sample_vocabulary.h"
#include "text/tokenizer.h"

using namespace smelt;
using namespace smelt::test;

namespace {

using Pieces = std::vector<std::string>;

TokenizerData unigram(std::initializer_list<std::pair<const char*, double>> tokens) {
  TokenizerData data;
  data.model = "t5";
  data.tokens = {"<pad>", "</s>", "<unk>"};
  data.types = {3, 3, 2};
  data.scores = {0, 0, 0};
  for (const auto& [text, score] : tokens) {
    add_token(data, text, TokenType::normal);
    data.scores.push_back(score);
  }
  data.add_eos = false;
  return data;
}

Pieces pieces(const TokenizerData& data, std::string_view text) {
  const Tokenizer tokenizer = make(data);
  Pieces out;
  for (const int32_t id : tokenizer.encode(text)) out.emplace_back(tokenizer.piece(id));
  return out;
}

// A table with the one key "A", whose text is `to`: units as Darts-clone lays them out.
std::string one_character(const char* to) {
  constexpr uint32_t kBegin = 256;  // of the root's children
  std::vector<uint32_t> units(kBegin + 512);
  units[0] = kBegin << 10;
  const uint32_t at = kBegin ^ 'A', leaf = at ^ 256;  // an offset of 256 to its value
  units[at] = (256u << 10) | 1u << 8 | 'A';
  units[leaf] = 1u << 31;  // value 0
  std::string bytes(4 + units.size() * 4, '\0');
  const auto size = static_cast<uint32_t>(units.size() * 4);
  std::memcpy(bytes.data(), &size, 4);
  std::memcpy(bytes.data() + 4, units.data(), size);
  return bytes + to + '\0';
}

}  // namespace

TEST_CASE("unigram: the way with the greatest sum of scores is taken") {
  TokenizerData data = unigram({{"▁a", -1}, {"b", -2}, {"ab", -4}, {"c", -3}, {"▁", -3}});
  CHECK(pieces(data, "abc") == Pieces{" a", "b", "c"});
  data.scores[5] = -0.5;  // ab
  data.scores[7] = -1;    // ▁
  CHECK(pieces(data, "abc") == Pieces{" ", "ab", "c"});
  CHECK(pieces(data, "") == Pieces{});
}

TEST_CASE("unigram: what no token has is unknown once, or its bytes") {
  TokenizerData data = unigram({{"▁", -1}, {"a", -1}});
  CHECK(pieces(data, "axyaz") == Pieces{" ", "a", "<unk>", "a", "<unk>"});
  for (const char* byte : {"<0xC3>", "<0xA9>"}) {
    add_token(data, byte, TokenType::byte);
    data.scores.push_back(0);
  }
  CHECK(pieces(data, "aé") == Pieces{" ", "a", "\xC3", "\xA9"});
  CHECK(pieces(data, "aéx") == Pieces{" ", "a", "\xC3", "\xA9", "<unk>"});
}

TEST_CASE("unigram: user-defined tokens win, unused ones are not taken") {
  TokenizerData data = unigram({{"▁", -1}, {"a", -1}, {"b", -1}, {"aab", -0.5}});
  CHECK(pieces(data, "aab") == Pieces{" ", "aab"});
  add_token(data, "ab", TokenType::user_defined);
  data.scores.push_back(-100);
  add_token(data, "▁a", TokenType::unused);
  data.scores.push_back(0);
  CHECK(pieces(data, "bab") == Pieces{" ", "b", "ab"});
  CHECK(pieces(data, "a") == Pieces{" ", "a"});
}

TEST_CASE("unigram: files say what they mean, or get what is usual for T5") {
  TokenizerData data = unigram({{"▁", -1}, {"a", -1}});
  data.add_eos.reset();
  CHECK(pieces(data, "a  a ") == Pieces{" ", "a", " ", "a", "</s>"});
  data.remove_extra_whitespaces = false;
  CHECK(pieces(data, "a  a") == Pieces{" ", "a", " ", " ", "a", "</s>"});
  data.scores.pop_back();
  CHECK(Tokenizer::from_data(data).error().message.find("tokenizer.ggml.scores") != std::string::npos);
}

TEST_CASE("charsmap: the longest key becomes its text; what is no table is refused") {
  const auto map = Charsmap::parse(one_character("bc"));
  REQUIRE(map);
  CHECK(map->applied_to("AxA\xFF") == "bcxbc\xFF");
  CHECK(Charsmap().applied_to("A") == "A");
  TokenizerData data = unigram({{"▁", -1}, {"b", -1}, {"c", -1}});
  data.charsmap = one_character("bc");
  CHECK(pieces(data, "A") == Pieces{" ", "b", "c"});
  for (const std::string& bad :
       {std::string("abc"), std::string("\x04\0\0\0abcd", 8), one_character("b").substr(0, 900)}) {
    CHECK_FALSE(Charsmap::parse(bad));
    data.charsmap = bad;
    CHECK(Tokenizer::from_data(data).error().message.find("tokenizer.ggml.precompiled_charsmap") != std::string::npos);
  }
}
