// libFuzzer target: any bytes as a saved conversation and as a list of tools. What is read keeps its promises, and is
// the same when it is written and read again.
#include <cstddef>
#include <cstdint>

#include "chat/call_values.h"
#include "chat/saved_conversation.h"
#include "fuzz/checks.h"

using namespace smelt;
using namespace smelt::test;

static const std::string kTag = "[chat] fuzz: ";

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  if (const auto tools = read_tools(text, "fuzz"); is_read(tools, kTag)) require(tools->is_array());
  const auto saved = read_conversation(text, "fuzz");
  if (!is_read(saved, kTag)) return 0;
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
