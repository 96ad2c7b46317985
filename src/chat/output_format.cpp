#include "chat/output_format.h"

#include <utility>

namespace smelt {
namespace {

// What only the template of that style mentions; the first that is found counts.
constexpr std::pair<std::string_view, CallStyle> kSigns[] = {{"<|channel|>", CallStyle::harmony},
                                                             {"<seed:tool_call>", CallStyle::seed},
                                                             {"｜DSML｜", CallStyle::dsml},
                                                             {"<|tool_call_begin|>", CallStyle::kimi},
                                                             {"<|START_ACTION|>", CallStyle::command},
                                                             {"<arg_key>", CallStyle::glm},
                                                             {"<parameter=", CallStyle::qwen_coder},
                                                             {"<|tool_call>", CallStyle::gemma},
                                                             {"<｜tool▁calls▁begin｜>", CallStyle::deepseek},
                                                             {"<｜tool▁call▁begin｜>", CallStyle::deepseek},
                                                             {"[TOOL_CALLS]", CallStyle::mistral},
                                                             {"<tool_call>", CallStyle::json_in_tags},
                                                             {"<|start_header_id|>", CallStyle::llama3}};

constexpr std::pair<std::string_view, std::string_view> kThoughts[] = {{"<think>", "</think>"},
                                                                       {"[THINK]", "[/THINK]"},
                                                                       {"<|channel>", "<channel|>"},
                                                                       {"<seed:think>", "</seed:think>"},
                                                                       {"<|START_THINKING|>", "<|END_THINKING|>"}};

std::string_view without_spaces_at_end(std::string_view text) {
  const size_t last = text.find_last_not_of(" \t\r\n");
  return text.substr(0, last == text.npos ? 0 : last + 1);
}

}  // namespace

OutputFormat detect_format(std::string_view source) {
  OutputFormat format;
  const auto has = [&](std::string_view sign) { return source.find(sign) != source.npos; };
  for (const auto& [sign, style] : kSigns) {
    if (!has(sign)) continue;
    format.calls = style;
    break;
  }
  format.is_older = format.calls == CallStyle::mistral ? !has("[ARGS]") : has("```json");
  if (format.calls == CallStyle::harmony) return format;
  for (const auto& [begin, end] : kThoughts) {
    // Some templates only cut thoughts out of earlier answers.
    if (!has(begin) && !has(end)) continue;
    format.think_begin = begin;
    format.think_end = end;
    break;
  }
  return format;
}

std::string_view name_of(CallStyle style) {
  switch (style) {
    case CallStyle::none: return "none";
    case CallStyle::json_in_tags: return "JSON in tags";
    case CallStyle::glm: return "GLM";
    case CallStyle::qwen_coder: return "Qwen3-Coder";
    case CallStyle::llama3: return "Llama 3";
    case CallStyle::mistral: return "Mistral";
    case CallStyle::deepseek: return "DeepSeek";
    case CallStyle::harmony: return "harmony";
    case CallStyle::gemma: return "Gemma";
    case CallStyle::kimi: return "Kimi";
    case CallStyle::seed: return "Seed";
    case CallStyle::command: return "Command";
    case CallStyle::dsml: return "DSML";
  }
  return "none";
}

bool ends_in_thoughts(const OutputFormat& format, std::string_view prompt) {
  return !format.think_begin.empty() && without_spaces_at_end(prompt).ends_with(format.think_begin);
}

}  // namespace smelt
