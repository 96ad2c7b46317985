#include "server/text_routes.h"

#include "server/chat_completion.h"
#include "server/completion.h"
#include "server/settings.h"

namespace smelt {

std::optional<ApiError> tokenize(const Json& body, const ServedModel& model, Json& answer,
                                 const std::atomic<bool>& cancel) {
  Fields fields(body);
  const std::string content = fields.text("content", "");
  const bool add_special = fields.flag("add_special", false), parse_special = fields.flag("parse_special", true),
             with_pieces = fields.flag("with_pieces", false);
  if (fields.problem()) return fields.problem();
  Json tokens = Json::array();
  for (int32_t id : model.tokenizer().encode(content, parse_special, add_special, &cancel)) {
    if (with_pieces)
      tokens.push_back({{"id", id}, {"piece", std::string(model.tokenizer().piece(id))}});
    else
      tokens.push_back(id);
  }
  answer = {{"tokens", tokens}};
  return std::nullopt;
}

std::optional<ApiError> detokenize(const Json& body, const ServedModel& model, Json& answer, const std::atomic<bool>&) {
  std::vector<int32_t> ids;
  if (auto problem = read_ids("tokens", body.value("tokens", Json()), model, ids)) return problem;
  answer = {{"content", model.tokenizer().decode(ids)}};
  return std::nullopt;
}

std::optional<ApiError> apply_template(const Json& body, const ServedModel& model, Json& answer,
                                       const std::atomic<bool>&) {
  Chat chat;
  if (auto problem = read_chat(body, chat)) return problem;
  const auto prompt = model.render(chat);
  if (!prompt) return ApiError{.message = plain_message(prompt.error()), .param = "messages"};
  answer = {{"prompt", prompt->bytes()}};
  return std::nullopt;
}

}  // namespace smelt
