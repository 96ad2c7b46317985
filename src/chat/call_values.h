// What the readers of calls have in common: names, and values as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace smelt {

inline constexpr std::string_view kCallSpaces = " \t\r\n";
std::string_view trimmed(std::string_view text);

// The text up to a mark; `rest` begins behind it. Without the mark: all of it.
std::string_view take_until(std::string_view& rest, std::string_view mark);

// Whether calls in all styles can name a tool so.
bool is_tool_name(std::string_view text);

// Discarded where the text is no JSON, or nested deeper than anybody means.
nlohmann::ordered_json parse_json(std::string_view text);

// As one line; what is no UTF-8 becomes U+FFFD.
std::string json_text(const nlohmann::ordered_json& value);

// What stands for a byte in a string of JSON.
std::string json_escaped(char byte);

bool has_tool(const nlohmann::ordered_json& tools, std::string_view name);

// The type that the schema of a tool gives an argument; empty where it says nothing.
std::string declared_type(const nlohmann::ordered_json& tools, std::string_view tool, std::string_view argument);

// A value without quotes: JSON where it is some, else text.
nlohmann::ordered_json untyped_value(std::string_view text);

}  // namespace smelt
