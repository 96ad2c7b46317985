#include "text/pretokenize.h"

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>

using namespace smelt;

namespace {

std::vector<std::string> words(const char* pre, std::string_view text) {
  const Pretokenizer* pretokenizer = find_pretokenizer(pre);
  REQUIRE(pretokenizer);
  std::vector<std::string> out;
  split_words(std::span(pretokenizer->stages), text, [&](std::string_view word) { out.emplace_back(word); });
  return out;
}

std::string joined(const char* pre, std::string_view text) {
  std::string out;
  for (const std::string& word : words(pre, text)) out += (out.empty() ? "" : "|") + word;
  return out;
}

}  // namespace

TEST_CASE(
    "glm4 and llama-bpe take up to three digits, any one sign before letters, contractions in any "
    "case") {
  for (const char* pre : {"glm4", "llama-bpe", "llama3"}) {
    CHECK(joined(pre, "I'll pay 12345!") == "I|'ll| pay| |123|45|!");
    CHECK(joined(pre, "WE'VE (ok)") == "WE|'VE| (|ok|)");
    CHECK(joined(pre, "(ok) $abc") == "(ok|)| $|abc");
    CHECK(joined(pre, "a\n\n  b") == "a|\n\n| | b");
    CHECK(joined(pre, "x?!\r\n y") == "x|?!\r\n| y");
    CHECK(joined(pre, "end  ") == "end|  ");
  }
}

TEST_CASE("qwen2 takes one digit at a time") { CHECK(joined("qwen2", "in 2024, don't") == "in| |2|0|2|4|,| don|'t"); }

TEST_CASE("gpt-2 keeps a space before numbers and knows contractions in lower case only") {
  CHECK(joined("gpt-2", "it's IT'S 2024 ...") == "it|'s| IT|'|S| 2024| ...");
  CHECK(joined("gpt-2", "a  b\n\nc") == "a| | b|\n|\n|c");
}

TEST_CASE("starcoder cuts digits out first") { CHECK(joined("starcoder", "x 42y") == "x| |4|2|y"); }

TEST_CASE("gpt-4o and tekken end a word before a capital letter") {
  for (const char* pre : {"gpt-4o", "tekken"}) {
    CHECK(joined(pre, "camelCase HTTPServer ABC") == "camel|Case| HTTPServer| ABC");
    CHECK(joined(pre, "XXªYY") == "XXª|YY");  // ª has no case: it ends what may begin with capitals
    CHECK(joined(pre, "//\n/ x") == "//\n/| x");
  }
  CHECK(joined("gpt-4o", "he'll IT'S 1234") == "he'll| IT'S| |123|4");
  CHECK(joined("tekken", "he'll 1234") == "he|'ll| |1|2|3|4");
}

TEST_CASE("kimi-k2 sets Chinese apart, qwen35 keeps marks with letters, seed-coder signs from newlines") {
  CHECK(joined("kimi-k2", "ab你好cd's//\n") == "ab|你好|cd's|//\n");
  CHECK(joined("kimi-k2", "/你/") == "/|你|/");
  CHECK(joined("qwen35", "e\u0301x \u0301") == "e\u0301x| \u0301");
  CHECK(joined("qwen2", "e\u0301x") == "e|\u0301x");
  CHECK(joined("seed-coder", "a;\n") == "a|;|\n");
  CHECK(joined("falcon", "a`b 1234") == "a|`|b| |123|4");
}

TEST_CASE("deepseek-v3 joins a sign to letters, keeps marks with letters, sets Chinese and kana apart") {
  CHECK(joined("deepseek-v3", "a_b e\u0301x") == "a|_b| e\u0301x");
  CHECK(joined("deepseek-v3", "see你好ok 12345") == "see|你好|ok| |123|45");
  CHECK(joined("deepseek-v3", "'tis \"quoted\"") == "'tis| \"|quoted|\"");
}

TEST_CASE("deepseek-coder and deepseek-llm set newlines apart") {
  CHECK(joined("deepseek-coder", "if x:\n\n  y1") == "if| x|:|\n|\n| | y|1");
  CHECK(joined("deepseek-llm", "if x:\n\n  y12 ") == "if| x|:|\n|\n| | y|12| ");
}

TEST_CASE("words are those of the published expressions") {
  std::ifstream file(SMELT_SOURCE_DIR "/tests/data/pretokenizer_splits.json");
  REQUIRE(file);
  for (const auto& row : nlohmann::json::parse(file)) {
    const std::string text = row["text"];
    for (const auto& [pre, lengths] : row["words"].items()) {
      std::vector<size_t> found;
      for (const std::string& word : words(pre.c_str(), text)) found.push_back(word.size());
      CAPTURE(pre);
      CAPTURE(text);
      CHECK(found == lengths.get<std::vector<size_t>>());
    }
  }
}

TEST_CASE("words are the text again, whatever the bytes") {
  uint64_t state = 1;
  for (int round = 0; round < 200; ++round) {
    std::string text;
    for (int i = 0; i < round; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      // Half of the bytes from a few that make interesting neighbours.
      text += state >> 63 ? static_cast<char>(state >> 50)
                          : " \n\r'sL1\xE2\x82\xAC\xF0\x9F\x80\xE3\x80\x80."[state >> 40 & 15];
    }
    for (const Pretokenizer& pre : all_pretokenizers()) {
      std::string again;
      for (const std::string& word : words(std::string(pre.names[0]).c_str(), text)) {
        CHECK_FALSE(word.empty());
        again += word;
      }
      CHECK(again == text);
    }
  }
}

TEST_CASE("a byte that is no UTF-8 is neither letter, number nor space") {
  CHECK(joined("glm4", "a\xFF\xFE b") == "a|\xFF\xFE| b");
  CHECK(joined("glm4", "ab\xE2\x82") == "ab|\xE2\x82");
}
