#include "chat/call_marks.h"

namespace smelt {

CallMarks call_marks(CallStyle style) {
  switch (style) {
    case CallStyle::none:
    case CallStyle::harmony: return {};
    case CallStyle::json_in_tags:
    case CallStyle::glm: return {{"<tool_call>"}, {"</tool_call>"}, {}};
    case CallStyle::qwen_coder: return {{"<tool_call>", kFunctionMark}, {"</tool_call>"}, {}};
    case CallStyle::llama3: return {{"<|python_tag|>"}, {}, {}};
    case CallStyle::mistral: return {{"[TOOL_CALLS]"}, {}, {}};
    case CallStyle::deepseek:
      return {{"<｜tool▁call▁begin｜>"}, {"<｜tool▁call▁end｜>"}, {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"}};
    case CallStyle::gemma: return {{"<|tool_call>"}, {"<tool_call|>"}, {}};
    case CallStyle::kimi:
      return {{"<|tool_call_begin|>"},
              {"<|tool_call_end|>"},
              {"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"}};
    case CallStyle::seed: return {{"<seed:tool_call>", kFunctionMark}, {"</seed:tool_call>"}, {}};
    case CallStyle::command:
      return {{"<|START_ACTION|>"}, {"<|END_ACTION|>"}, {"<|START_RESPONSE|>", "<|END_RESPONSE|>"}};
    case CallStyle::dsml: return {{"<｜DSML｜function_calls>"}, {"</｜DSML｜function_calls>"}, {}};
  }
  return {};
}

}  // namespace smelt
