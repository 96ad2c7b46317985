#include "chat/chat_template.h"

#include <algorithm>

#include "chat/output_format.h"
#include "chat/template_values.h"

namespace smelt {
namespace {

constexpr std::string_view kKey = "tokenizer.chat_template";

// For models that only go on with a text.
constexpr const char* kPlainTemplate =
    "{% for message in messages %}{{ message.content }}{{ '\\n' if message.role == 'assistant' }}{% endfor %}";

// Control tokens that end a turn in families whose files do not always say so: calls of tools end with them.
constexpr std::string_view kTurnEnds[] = {"<|eom_id|>", "<|observation|>", "<|call|>", "<|return|>",      "<|eot_id|>",
                                          "<|im_end|>", "<end_of_turn>",   "<turn|>",  "<|tool_response>"};

}  // namespace

Result<ChatTemplate> ChatTemplate::from_source(std::string source, const Tokenizer& tokenizer) {
  SMELT_TRY(parsed, jinja::Template::parse(source));
  return ChatTemplate(std::move(source), std::move(parsed), tokenizer);
}

Result<ChatTemplate> ChatTemplate::from_gguf(const GgufFile& file, const Tokenizer& tokenizer, std::string_view name) {
  const std::string key = std::string(kKey) + (name.empty() ? "" : "." + std::string(name));
  if (name.empty() && !file.has(key)) {
    SMELT_TRY(plain, from_source(kPlainTemplate, tokenizer));
    plain.is_plain_ = true;
    return plain;
  }
  SMELT_TRY(source, file.string(key));
  return from_source(std::string(source), tokenizer);
}

std::vector<std::string> ChatTemplate::names(const GgufFile& file) {
  std::vector<std::string> found;
  for (const GgufValue& value : file.metadata()) {
    const std::string prefix = std::string(kKey) + ".";
    if (value.key.starts_with(prefix)) found.emplace_back(value.key.substr(prefix.size()));
  }
  return found;
}

// Templates disagree on what they take: arguments of calls as objects or as text, null contents or empty ones.
Result<jinja::Text> ChatTemplate::render(const Chat& chat, const jinja::RenderOptions& options) const {
  static constexpr TemplateShape kShapes[] = {
      {.parse_arguments = true}, {.parse_arguments = true, .null_as_empty = true}, {.null_as_empty = true}};
  std::optional<Error> first_error;
  for (TemplateShape shape : kShapes) {
    shape.join_parts = source_.find("text") == source_.npos;
    SMELT_TRY(context, template_context(chat, shape, *tokenizer_));
    auto text = template_.render(context, options);
    if (text) return text;
    if (!first_error) first_error = text.error();
  }
  return *first_error;
}

std::vector<int32_t> ChatTemplate::encode(const jinja::Text& prompt) const {
  std::vector<Tokenizer::Run> runs;
  const std::string_view bytes = prompt.bytes();
  size_t done = 0;
  for (const auto& [begin, end] : prompt.user()) {
    runs.push_back({bytes.substr(done, begin - done), true});
    runs.push_back({bytes.substr(begin, end - begin), false});
    done = end;
  }
  runs.push_back({bytes.substr(done), true});
  std::vector<int32_t> ids = tokenizer_->encode_runs(runs);
  const bool has_bos = !ids.empty() && ids.front() == tokenizer_->bos();
  if (tokenizer_->adds_bos() && !has_bos) ids.insert(ids.begin(), *tokenizer_->bos());
  return ids;
}

// The first control token behind the text of an answer.
std::optional<int32_t> ChatTemplate::token_after_answer(bool is_last) const {
  static const std::string kAnswer = "answer-7d1e";
  Chat chat;
  chat.messages = {{{"role", "user"}, {"content", "question"}}, {{"role", "assistant"}, {"content", kAnswer}}};
  if (!is_last) chat.messages.push_back({{"role", "user"}, {"content", "question"}});
  chat.add_generation_prompt = false;
  const auto text = render(chat);
  const size_t at = text ? text->bytes().rfind(kAnswer) : std::string::npos;
  if (at == std::string::npos) return std::nullopt;
  const std::vector<int32_t> ids = tokenizer_->encode(text->bytes().substr(at + kAnswer.size()), true, false);
  const auto found = std::find_if(ids.begin(), ids.end(), [&](int32_t id) { return tokenizer_->is_control(id); });
  return found == ids.end() ? std::nullopt : std::optional(*found);
}

std::vector<int32_t> ChatTemplate::stop_tokens() const {
  std::vector<int32_t> stops = tokenizer_->stop_tokens();
  auto behind = token_after_answer(true);
  if (!behind) behind = token_after_answer(false);
  if (behind) stops.push_back(*behind);
  for (std::string_view text : kTurnEnds) {
    const auto id = tokenizer_->find(text);
    if (id && tokenizer_->is_control(*id)) stops.push_back(*id);
  }
  if (detect_format(source_).calls == CallStyle::harmony) {
    if (const auto id = tokenizer_->find("<|end|>")) std::erase(stops, *id);
  }
  std::sort(stops.begin(), stops.end());
  stops.erase(std::unique(stops.begin(), stops.end()), stops.end());
  return stops;
}

}  // namespace smelt
