#include "chat/headed_call_reader.h"

#include "chat/call_values.h"

namespace smelt {
namespace {

using Head = HeadedCallReader::Head;

std::optional<Head> named(std::string_view name, std::string_view id = {}) {
  if (!is_tool_name(name)) return std::nullopt;
  return Head{std::string(name), std::string(id)};
}

}  // namespace

std::optional<Head> read_mistral_head(std::string_view head) {
  std::string_view rest = head, id = take_until(rest, "[ARGS]");
  if (!trimmed(rest).empty()) return std::nullopt;
  const std::string_view name = trimmed(take_until(id, "[CALL_ID]"));
  return named(name, trimmed(id));
}

std::optional<Head> read_kimi_head(std::string_view head) {
  std::string_view rest = head;
  const std::string_view id = trimmed(take_until(rest, "<|tool_call_argument_begin|>"));
  if (!trimmed(rest).empty()) return std::nullopt;
  constexpr std::string_view kFunctions = "functions.";
  std::string_view name = id.substr(0, id.rfind(':'));
  if (name.starts_with(kFunctions)) name.remove_prefix(kFunctions.size());
  return named(name, id);
}

std::optional<Head> read_deepseek_head(std::string_view head) {
  constexpr std::string_view kSeparator = "<｜tool▁sep｜>";
  if (head.find(kSeparator) == head.npos) return std::nullopt;
  std::string_view rest = head;
  const std::string_view first = trimmed(take_until(rest, kSeparator)), second = trimmed(rest);
  return named(second.empty() ? first : trimmed(second.substr(0, second.find("```"))));
}

void HeadedCallReader::take(char byte, Output& out) {
  if (arguments_ && !arguments_->is_over()) return arguments_->take(byte, out);
  if (byte == '{' && !has_brace_) {
    has_brace_ = true;
    if (auto head = read_head_(text_)) {
      begin_call(std::move(head->name), std::move(head->id), out);
      text_.clear();
      return arguments_.emplace().take(byte, out);
    }
  }
  text_ += byte;
}

std::string HeadedCallReader::end(TextEnd how, Output& out) {
  const bool is_fence = arguments_ && trimmed(text_) == "```";
  if (is_fence) return {};
  if (!has_brace_ && may_lack_arguments_ && how == TextEnd::complete) {
    if (auto head = read_head_(text_)) {
      add_call(std::move(head->name), std::move(head->id), "{}", out);
      return {};
    }
  }
  return arguments_ ? std::string(trimmed(text_)) : text_;
}

}  // namespace smelt
