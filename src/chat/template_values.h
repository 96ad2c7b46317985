// What a template is given of a chat: its variables, and whose text each string of them is.
#pragma once

#include "base/result.h"
#include "chat/chat.h"
#include "jinja/template.h"
#include "text/tokenizer.h"

namespace smelt {

// Ways in which templates expect messages.
struct TemplateShape {
  bool parse_arguments = false;  // arguments of calls that are JSON in a string become objects
  bool null_as_empty = false;    // a content of null becomes ""
  bool join_parts = false;       // contents in parts, all of them text, become one string
};

// messages, tools, documents, add_generation_prompt, the texts of the tokenizer's tokens, and the chat's variables. All
// strings of messages, tools and documents are a user's, but for the names of known roles: those may be part of a
// special token, as in '<|' + role + '|>'.
Result<jinja::Context> template_context(const Chat& chat, const TemplateShape& shape, const Tokenizer& tokenizer);

}  // namespace smelt
