#include <doctest/doctest.h>

#include <random>

#include "text/sample_vocabulary.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

using namespace smelt;
using namespace smelt::test;

namespace {

std::vector<std::string> chunks(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool hide = false) {
  StreamDecoder decoder(tokenizer, hide);
  std::vector<std::string> out;
  for (int32_t id : ids) out.push_back(decoder.push(id));
  out.push_back(decoder.flush());
  return out;
}

std::string together(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += part;
  return out;
}

using Chunks = std::vector<std::string>;

}  // namespace

TEST_CASE("a character is held back until all of it is there") {
  Tokenizer tokenizer = make(byte_vocabulary());
  CHECK(chunks(tokenizer, {'a', 0xE2, 0x82, 0xAC, 'b'}) == Chunks{"a", "", "", "€", "b", ""});
  CHECK(chunks(tokenizer, {0xF0, 0x9F, 0xA6, 0x99}) == Chunks{"", "", "", "🦙", ""});
}

TEST_CASE("bytes that are no UTF-8 become U+FFFD as soon as that is certain") {
  Tokenizer tokenizer = make(byte_vocabulary());
  CHECK(chunks(tokenizer, {0xE2, 0x82, 'x'}) == Chunks{"", "", "\uFFFDx", ""});
  CHECK(chunks(tokenizer, {0xE2, 0x82}) == Chunks{"", "", "\uFFFD"});
  CHECK(chunks(tokenizer, {0x80, 0xFF}) == Chunks{"\uFFFD", "\uFFFD", ""});
  CHECK(chunks(tokenizer, {0xE2, 0xE2, 0x82, 0xAC}) == Chunks{"", "\uFFFD", "", "€", ""});
}

TEST_CASE("a token may end one character and begin another") {
  TokenizerData data = byte_vocabulary();
  add_merge(data, "\xAC", "\xE2");
  Tokenizer tokenizer = make(std::move(data));
  CHECK(chunks(tokenizer, {0xE2, 0x82, 256, 0x82, 0xAC}) == Chunks{"", "", "€", "", "€", ""});
}

TEST_CASE("control tokens can be hidden, user-defined ones stay") {
  TokenizerData data = byte_vocabulary();
  int32_t user = add_token(data, "<|user|>", TokenType::control);
  int32_t think = add_token(data, "<think>", TokenType::user_defined);
  Tokenizer tokenizer = make(std::move(data));
  CHECK(together(chunks(tokenizer, {'a', user, think, 'b'})) == "a<|user|><think>b");
  CHECK(together(chunks(tokenizer, {'a', user, think, 'b'}, true)) == "a<think>b");
}

TEST_CASE("a decoder can be used again after flush") {
  Tokenizer tokenizer = make(byte_vocabulary());
  StreamDecoder decoder(tokenizer);
  CHECK(decoder.push(0xE2) == "");
  CHECK(decoder.flush() == "\uFFFD");
  CHECK(decoder.push('a') == "a");
  CHECK(decoder.flush() == "");
}

TEST_CASE("streamed text equals the text decoded at once, and every chunk is whole UTF-8") {
  TokenizerData data = byte_vocabulary();
  for (auto [left, right] : {std::pair("\xE2", "\x82"), {"\x82", "\xAC"}, {"\x9F", "\xA6"}, {"\x99", "\xF0"}})
    add_merge(data, left, right);
  Tokenizer tokenizer = make(std::move(data));
  std::mt19937 random(4);
  for (int round = 0; round < 2000; ++round) {
    std::vector<int32_t> ids;
    for (int i = 0; i < 20; ++i) {
      const int32_t likely[] = {0xE2, 0x82, 0xAC, 0xF0, 0x9F, 0xA6, 0x99, 'a'};
      ids.push_back(random() % 4 ? likely[random() % 8] : static_cast<int32_t>(random() % tokenizer.size()));
    }
    Chunks parts = chunks(tokenizer, ids);
    CHECK(together(parts) == to_valid_utf8(tokenizer.decode(ids)));
    for (const std::string& part : parts) CHECK(part == to_valid_utf8(part));
  }
}

TEST_CASE("UTF-8 is strict") {
  for (const char* good :
       {"", "a", "\u0080", "\u07FF", "\u0800", "\uD7FF", "\uE000", "\uFFFF", "\U00010000", "\U0010FFFF"})
    CHECK(to_valid_utf8(good) == good);
  CHECK(to_valid_utf8("\xC0\x80") == "\uFFFD\uFFFD");                      // overlong
  CHECK(to_valid_utf8("\xED\xA0\x80") == "\uFFFD\uFFFD\uFFFD");            // surrogate
  CHECK(to_valid_utf8("\xF4\x90\x80\x80") == "\uFFFD\uFFFD\uFFFD\uFFFD");  // too large
  CHECK(to_valid_utf8("\xF0\x9F\xA6x\xE2\x82") == "\uFFFDx\uFFFD");        // cut short
  for (uint32_t c : {0x24u, 0x7FFu, 0x20ACu, 0x1F999u, 0x10FFFFu}) {
    std::string text;
    append_utf8(text, c);
    Utf8Char read = utf8_at(text, 0);
    CHECK(read.status == Utf8::valid);
    CHECK(read.codepoint == c);
    CHECK(read.length == text.size());
  }
}
