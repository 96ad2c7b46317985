// The texts of calls, between the marks that begin and end them, to names and arguments.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "chat/output_parser.h"

namespace smelt {

// Nothing where the text is no call in that style.
std::optional<std::vector<ToolCall>> read_calls(CallStyle style, std::string_view body,
                                                const nlohmann::ordered_json& tools);

// Whether calls in all styles can name a tool so.
bool is_tool_name(std::string_view text);

// Where a JSON value that begins the text ends; npos where it does not end.
size_t end_of_json(std::string_view text);

}  // namespace smelt
