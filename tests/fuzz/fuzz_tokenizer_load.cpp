// libFuzzer target: any vocabulary. It is refused with an error of one line, or it can encode and
// decode.
//
// The input is either a GGUF file or, so that more inputs get past the container, lines: a byte of
// choices, tokens that follow the 256 bytes, an empty line, merges. A token's last character tells
// its type where it is a digit. With the choice 32 it is a vocabulary of SentencePiece, and what would be the merge of
// a token is its score: the first character of the line.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "gguf/gguf.h"
#include "text/byte_level.h"
#include "text/pretokenize.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

using namespace smelt;

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

std::string_view take_line(std::string_view& text) {
  size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text = end == text.npos ? std::string_view() : text.substr(end + 1);
  return line;
}

void add_bytes(TokenizerData& data, bool sentencepiece) {
  for (int byte = 0; byte < 256; ++byte) {
    char c = static_cast<char>(byte), spelled[8];
    std::snprintf(spelled, sizeof spelled, "<0x%02X>", byte);
    data.tokens.push_back(sentencepiece ? spelled : token_text_of_bytes({&c, 1}));
    data.types.push_back(sentencepiece ? 6 : 1);
  }
}

double score_of(std::string_view line) { return line.empty() ? 0 : line[0]; }

TokenizerData data_from(uint8_t choices, std::string_view text) {
  TokenizerData data;
  auto all = all_pretokenizers();
  data.pre = all[choices % all.size()].names[0];
  const bool sentencepiece = choices & 32;
  if (sentencepiece) data.model = choices & 64 ? "t5" : "llama";
  add_bytes(data, sentencepiece);
  for (std::string_view line = take_line(text); !line.empty(); line = take_line(text)) {
    char last = line.back();
    data.types.push_back(last >= '0' && last <= '9' ? last - '0' : 1);
    data.tokens.emplace_back(line);
  }
  if (sentencepiece) {
    data.add_space_prefix = choices & 1;
    data.remove_extra_whitespaces = choices & 2;
    data.scores.assign(256, 0);
    while (data.scores.size() < data.tokens.size()) data.scores.push_back(score_of(take_line(text)));
    data.charsmap = text;
    return data;
  }
  while (!text.empty()) data.merges.emplace_back(take_line(text));
  if (choices & 64) data.bos = data.tokens.size() - 1;
  if (choices & 128) data.eos = static_cast<int64_t>(choices) * 3;
  return data;
}

void check(const Result<Tokenizer>& tokenizer, std::string_view text) {
  if (!tokenizer) {
    const std::string& message = tokenizer.error().message;
    require(message.starts_with('[') && message.find('\n') == std::string::npos && message.size() < 4096);
    return;
  }
  // The tokens' own texts are what is most likely to meet a merge or a special token.
  text = text.substr(0, 4096);
  for (bool parse_special : {false, true}) {
    auto ids = tokenizer->encode(text, parse_special, false);
    std::string back = tokenizer->decode(ids);
    StreamDecoder decoder(*tokenizer);
    std::string streamed, pieces;
    for (int32_t id : ids) {
      require(id >= 0 && id < tokenizer->size());
      streamed += decoder.push(id);
      pieces += tokenizer->piece(id);
    }
    require(streamed + decoder.flush() == to_valid_utf8(pieces));
    // Less where a byte has no token. What SentencePiece calls unknown has a text of its own, and it sets spaces.
    if (tokenizer->is_byte_level()) require(back == pieces && back.size() <= text.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(bytes), size);
  if (text.starts_with("GGUF")) {
    auto file = GgufFile::open_memory(std::as_bytes(std::span(bytes, size)), "fuzz");
    if (file) check(Tokenizer::from_gguf(*file), text);
  } else if (size > 0) {
    check(Tokenizer::from_data(data_from(bytes[0], text.substr(1))), text);
  }
  return 0;
}
