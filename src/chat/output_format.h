// OutputFormat: how a model writes thoughts and calls of tools, as its template shows it.
#pragma once

#include <string>
#include <string_view>

namespace smelt {

enum class CallStyle {
  none,
  json_in_tags,  // <tool_call>{"name": "f", "arguments": {...}}</tool_call>          Hermes, Qwen
  glm,           // <tool_call>f<arg_key>k</arg_key><arg_value>v</arg_value></tool_call>
  qwen_coder,    // <tool_call><function=f><parameter=k>v</parameter></function></tool_call>
  llama3,        // {"name": "f", "parameters": {...}}, all of the answer
  mistral,       // [TOOL_CALLS][{"name": "f", "arguments": {...}}] or [TOOL_CALLS]f[ARGS]{...}
  deepseek,      // <｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{...}\n```<｜tool▁call▁end｜>
  harmony,       // <|channel|>commentary to=functions.f<|message|>{...}<|call|>       gpt-oss
  gemma,         // <|tool_call>call:f{k:<|"|>v<|"|>}<tool_call|>
  kimi,          // <|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{...}<|tool_call_end|>
  seed,          // <seed:tool_call><function=f><parameter=k>v</parameter></function></seed:tool_call>
  command,       // <|START_ACTION|>[{"tool_name": "f", "parameters": {...}}]<|END_ACTION|>       Command R7B and A
  dsml,          // <｜DSML｜invoke name="f"><｜DSML｜parameter name="k" string="true">v...         DeepSeek V3.2
};

struct OutputFormat {
  CallStyle calls = CallStyle::none;
  std::string think_begin = {}, think_end = {};  // empty: it does not think aloud, or in channels
  bool is_older = false;                         // Mistral: calls in a list; DeepSeek: arguments in a fence
};

OutputFormat detect_format(std::string_view template_source);
std::string_view name_of(CallStyle style);

// Whether a prompt ends within thoughts: the answer begins there then.
bool ends_in_thoughts(const OutputFormat& format, std::string_view prompt);

}  // namespace smelt
