// Small vocabularies for tests: all 256 bytes, then whatever the test adds.
#pragma once

#include <doctest/doctest.h>

#include "text/byte_level.h"
#include "text/tokenizer.h"

namespace smelt::test {

// Ids 0 to 255 are the bytes.
inline TokenizerData byte_vocabulary(std::string pre = "glm4") {
  TokenizerData data;
  data.pre = std::move(pre);
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    data.tokens.push_back(token_text_of_bytes({&c, 1}));
  }
  data.types.assign(256, 1);
  return data;
}

inline int32_t add_token(TokenizerData& data, std::string text, TokenType type) {
  data.tokens.push_back(std::move(text));
  data.types.push_back(static_cast<int64_t>(type));
  return static_cast<int32_t>(data.tokens.size() - 1);
}

// Adds the merge of two byte strings, and the token that it makes if that is not there yet.
inline void add_merge(TokenizerData& data, std::string_view left, std::string_view right) {
  const std::string l = token_text_of_bytes(left), r = token_text_of_bytes(right);
  data.merges.push_back(l + " " + r);
  bool known = false;
  for (const std::string& token : data.tokens) known = known || token == l + r;
  if (!known) add_token(data, l + r, TokenType::normal);
}

inline Tokenizer make(TokenizerData data) {
  auto tokenizer = Tokenizer::from_data(std::move(data));
  REQUIRE_MESSAGE(tokenizer.ok(), tokenizer.error().message);
  return tokenizer.take();
}

inline std::string error_of(TokenizerData data) {
  auto tokenizer = Tokenizer::from_data(std::move(data));
  return tokenizer ? "" : tokenizer.error().message;
}

}  // namespace smelt::test
