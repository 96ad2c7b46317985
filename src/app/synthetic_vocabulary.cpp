#include "app/synthetic_vocabulary.h"

#include "base/ensure.h"
#include "text/byte_level.h"
#include "text/tokenizer.h"

namespace smelt {
namespace {

constexpr std::string_view kLetters = "etaoinshrdlcumwfgypbvkjxqz";
// The last tokens, by their place behind all others.
enum Control : uint32_t { text_end, turn_begin, turn_end, control_count };
constexpr const char* kControlTexts[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};

constexpr const char* kChatTemplate =
    "{%- for message in messages -%}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}";

struct Tokens {
  size_t most;
  std::vector<std::string> texts, merges;

  void join(const std::string& left, const std::string& right) {
    if (texts.size() == most) return;
    texts.push_back(left + right);
    merges.push_back(left + " " + right);
  }
};

Tokens make_tokens(size_t most) {
  Tokens tokens{.most = most, .texts = {}, .merges = {}};
  for (int byte = 0; byte < 256; ++byte)
    tokens.texts.push_back(token_text_of_bytes(std::string(1, static_cast<char>(byte))));
  struct Pair {
    std::string text;
    bool begins_word;
  };
  std::vector<Pair> pairs;
  for (const char left : " " + std::string(kLetters))
    for (const char right : kLetters) {
      const std::string head = token_text_of_bytes(std::string(1, left)), tail(1, right);
      tokens.join(head, tail);
      pairs.push_back({head + tail, left == ' '});
    }
  for (const Pair& left : pairs)
    for (const Pair& right : pairs)
      if (!right.begins_word) tokens.join(left.text, right.text);
  return tokens;
}

}  // namespace

void write_synthetic_vocabulary(int64_t size, NewMetadata& out) {
  const auto texts = static_cast<uint32_t>(size - control_count);
  Tokens tokens = make_tokens(texts);
  ENSURE(tokens.texts.size() == texts, "a vocabulary of another size than the rule makes");
  std::vector<int32_t> types(texts, static_cast<int32_t>(TokenType::normal));
  tokens.texts.insert(tokens.texts.end(), std::begin(kControlTexts), std::end(kControlTexts));
  types.resize(tokens.texts.size(), static_cast<int32_t>(TokenType::control));
  out.text("tokenizer.ggml.model", "gpt2");
  out.text("tokenizer.ggml.pre", "gpt-2");
  out.texts("tokenizer.ggml.tokens", tokens.texts);
  out.numbers("tokenizer.ggml.token_type", types);
  out.texts("tokenizer.ggml.merges", tokens.merges);
  out.number("tokenizer.ggml.bos_token_id", texts + text_end);
  out.number("tokenizer.ggml.eos_token_id", texts + text_end);
  out.number("tokenizer.ggml.eot_token_id", texts + turn_end);
  out.number("tokenizer.ggml.padding_token_id", texts + text_end);
  out.flag("tokenizer.ggml.add_bos_token", false);
  out.text("tokenizer.chat_template", kChatTemplate);
}

}  // namespace smelt
