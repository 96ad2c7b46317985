// libFuzzer target: any text through any pre-tokenizer. Its tokens are the text again, streamed or
// not. The first byte of the input chooses the pre-tokenizer and whether special tokens are looked
// for.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "text/byte_level.h"
#include "text/pretokenize.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

using namespace smelt;

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void add_merge(TokenizerData& data, std::string_view left, std::string_view right) {
  std::string l = token_text_of_bytes(left), r = token_text_of_bytes(right);
  data.tokens.push_back(l + r);
  data.merges.push_back(l + " " + r);
}

Tokenizer make(std::string_view pre) {
  TokenizerData data;
  data.pre = pre;
  for (int byte = 0; byte < 256; ++byte) {
    char c = static_cast<char>(byte);
    data.tokens.push_back(token_text_of_bytes({&c, 1}));
  }
  for (std::string run : {"a", " ", "\n"})
    for (int i = 0; i < 4; ++i, run += run) add_merge(data, run, run);
  for (auto [left, right] : {std::pair("\xE2", "\x82"), {"\xE2\x82", "\xAC"}, {"\x9F", "\xF0"}, {" ", "a"}, {"'", "s"}})
    add_merge(data, left, right);
  data.types.assign(data.tokens.size(), 1);
  for (std::string_view special : {"<|user|>", "<|", "<|u", "[gMASK]", "   ", "ш"}) {
    data.tokens.emplace_back(special);
    data.types.push_back(special.size() > 3 ? 3 : 4);
  }
  auto tokenizer = Tokenizer::from_data(std::move(data));
  require(tokenizer.ok());
  return tokenizer.take();
}

std::vector<Tokenizer> make_all() {
  std::vector<Tokenizer> all;
  for (const Pretokenizer& pre : all_pretokenizers()) all.push_back(make(pre.names[0]));
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const std::vector<Tokenizer> tokenizers = make_all();
  if (size == 0) return 0;
  // The first byte chooses; one of many ways at a time leaves time for many more texts.
  const Tokenizer& tokenizer = tokenizers[(bytes[0] >> 1) % tokenizers.size()];
  bool parse_special = bytes[0] & 1;
  std::string_view text(reinterpret_cast<const char*>(bytes + 1), size - 1);
  auto ids = tokenizer.encode(text, parse_special);
  require(tokenizer.decode(ids) == text);
  StreamDecoder decoder(tokenizer);
  std::string streamed;
  for (int32_t id : ids) {
    std::string chunk = decoder.push(id);
    require(chunk == to_valid_utf8(chunk));
    streamed += chunk;
  }
  require(streamed + decoder.flush() == to_valid_utf8(text));
  return 0;
}
