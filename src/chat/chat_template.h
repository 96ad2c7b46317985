// ChatTemplate: from a chat to the prompt that a model was trained on, by the template of its file.
//
//   auto t = ChatTemplate::from_gguf(file, tokenizer);
//   auto prompt = t->render(chat);                  // text, with the bytes that users wrote
//   t->encode(*prompt)                              // ids: special tokens only where the template wrote them
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/chat.h"
#include "gguf/gguf.h"
#include "jinja/template.h"
#include "text/tokenizer.h"

namespace smelt {

class ChatTemplate {
 public:
  // `tokenizer.chat_template`, or the one with that name (`tokenizer.chat_template.NAME`). A file without any gets the
  // plain one: texts one after the other, which the model goes on with. REQUIRES: `tokenizer` outlives this.
  static Result<ChatTemplate> from_gguf(const GgufFile& file, const Tokenizer& tokenizer, std::string_view name = "");
  static Result<ChatTemplate> from_source(std::string source, const Tokenizer& tokenizer);
  // The names of the templates of a file besides the unnamed one.
  static std::vector<std::string> names(const GgufFile& file);

  const std::string& source() const { return source_; }
  bool is_plain() const { return is_plain_; }  // the file has none

  // The time that strftime_now writes is the clock's unless `options` say otherwise.
  Result<jinja::Text> render(const Chat& chat, const jinja::RenderOptions& options = {}) const;
  // BOS comes first where the file asks for it and the template has not written it.
  std::vector<int32_t> encode(const jinja::Text& prompt) const;

  // Tokens that end an answer, ascending: those of the tokenizer, and what the template writes behind one. Where an
  // answer has several messages (harmony), the end of one of them is not among them.
  std::vector<int32_t> stop_tokens() const;

 private:
  ChatTemplate(std::string source, jinja::Template parsed, const Tokenizer& tokenizer)
      : source_(std::move(source)), template_(std::move(parsed)), tokenizer_(&tokenizer) {}
  std::optional<int32_t> token_after_answer(bool is_last) const;

  std::string source_;
  jinja::Template template_;
  const Tokenizer* tokenizer_;
  bool is_plain_ = false;
};

}  // namespace smelt
