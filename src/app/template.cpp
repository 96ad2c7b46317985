// `smelt template`: what a chat becomes before a model sees it, as text and as token ids.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>

#include "app/command.h"
#include "app/engine_flags.h"
#include "base/file.h"
#include "chat/chat_template.h"
#include "chat/output_format.h"

namespace smelt {
namespace {

using nlohmann::ordered_json;

struct TemplateFlags {
  std::string model, file;
  std::optional<std::string> question, template_file;
  bool ids = false, json = false, source = false;
};

Result<Chat> chat_of(const TemplateFlags& flags) {
  Chat chat;
  if (flags.question) {
    chat.messages.push_back({{"role", "user"}, {"content", *flags.question}});
    return chat;
  }
  SMELT_TRY(text, read_stream(flags.file.empty() ? "-" : flags.file));
  const ordered_json json = ordered_json::parse(text, nullptr, false);
  if (json.is_discarded())
    return Error{"[template] the chat is no JSON; expected a list of messages, or an object with them"};
  if (json.is_array()) {
    chat.messages = json;
    return chat;
  }
  for (const auto& [key, value] : json.items()) {
    if (key == "messages")
      chat.messages = value;
    else if (key == "tools")
      chat.tools = value;
    else if (key == "documents")
      chat.documents = value;
    else if (key == "add_generation_prompt")
      chat.add_generation_prompt = value == true;
    else if (key == "chat_template_kwargs")
      chat.variables = value;
  }
  if (!chat.messages.is_array()) return Error{"[template] messages: expected a list"};
  return chat;
}

Result<ChatTemplate> template_of(const TemplateFlags& flags, const GgufFile& file, const Tokenizer& tokenizer) {
  if (!flags.template_file) return ChatTemplate::from_gguf(file, tokenizer);
  SMELT_TRY(source, read_file(*flags.template_file));
  return ChatTemplate::from_source(std::move(source), tokenizer);
}

void print_ids(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  for (int32_t id : ids) {
    const ordered_json piece = std::string(tokenizer.piece(id));
    std::printf("%7d %s %s\n", id, tokenizer.is_control(id) ? "*" : " ",
                piece.dump(-1, ' ', false, ordered_json::error_handler_t::replace).c_str());
  }
}

Result<int> show(const TemplateFlags& flags) {
  SMELT_TRY(file, open_model(flags.model));
  SMELT_TRY(tokenizer, Tokenizer::from_gguf(file));
  SMELT_TRY(chat_template, template_of(flags, file, tokenizer));
  if (flags.source) {
    std::printf("%s\n", chat_template.source().c_str());
    return 0;
  }
  SMELT_TRY(chat, chat_of(flags));
  SMELT_TRY(prompt, chat_template.render(chat));
  const std::vector<int32_t> ids = chat_template.encode(prompt);
  if (flags.json) {
    const OutputFormat format = detect_format(chat_template.source());
    const ordered_json json = {{"prompt", prompt.bytes()},
                               {"ids", ids},
                               {"stop_ids", chat_template.stop_tokens()},
                               {"calls", std::string(name_of(format.calls))}};
    std::printf("%s\n", json.dump(-1, ' ', false, ordered_json::error_handler_t::replace).c_str());
  } else if (flags.ids) {
    print_ids(tokenizer, ids);
  } else {
    std::printf("%s\n", prompt.bytes().c_str());
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) return Error{"[template] standard output: cannot be written"};
  return 0;
}

}  // namespace

Action declare_template(CLI::App& app) {
  const auto flags = std::make_shared<TemplateFlags>();
  declare_model_flag(app, flags->model);
  app.add_option("question", flags->question, "a chat of this one question; without it, JSON from -f or standard input")
      ->type_name("TEXT");
  app.add_option("-f,--file", flags->file, "a JSON file: a list of messages, or an object with messages, tools, ...")
      ->type_name("FILE");
  app.add_option("--chat-template-file", flags->template_file, "a template in place of the model's own")
      ->type_name("FILE");
  app.add_flag("--ids", flags->ids, "the tokens, one a line; * marks control tokens");
  app.add_flag("--json", flags->json, "text, ids and the ids that end an answer, as JSON");
  app.add_flag("--source", flags->source, "the template itself");
  app.footer(
      "Examples:\n  smelt template -m model.gguf \"Hello\"\n  smelt template -m model.gguf --ids -f chat.json\n");
  return [flags] { return show(*flags); };
}

}  // namespace smelt
