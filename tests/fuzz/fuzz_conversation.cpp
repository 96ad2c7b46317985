// libFuzzer target: any bytes as a saved conversation and as a list of tools. What is read keeps its promises, and is
// the same when it is written and read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "chat/call_values.h"
#include "chat/saved_conversation.h"

using namespace smelt;

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

template <class R>
bool is_read(const R& result) {
  if (!result)
    require(result.error().message.starts_with("[chat] fuzz: ") &&
            result.error().message.find('\n') == std::string::npos);
  return result.ok();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  if (const auto tools = read_tools(text, "fuzz"); is_read(tools)) require(tools->is_array());
  const auto saved = read_conversation(text, "fuzz");
  if (!is_read(saved)) return 0;
  require(!saved->tools || saved->tools->is_array());
  require(!saved->variables || saved->variables->is_object());
  for (const auto& message : saved->messages) {
    require(message["role"].is_string());
    if (!message.contains("tool_calls")) continue;
    for (const auto& call : message["tool_calls"]) require(call["function"]["name"].is_string());
  }
  const auto again = read_conversation(json_text(saved->messages), "fuzz");
  require(again.ok() && again->messages == saved->messages);
  return 0;
}
