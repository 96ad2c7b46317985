#include "app/number_list.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <optional>

namespace smelt {
namespace {

constexpr size_t kMost = 1 << 20;  // numbers in a list

std::optional<int64_t> take_number(std::string_view& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

struct Range {
  int64_t first = 0, last = 0;
  bool multiplies = false;
  int64_t step = 1;
};

// "7", "1-3", "1-9+2", "1-8*2"
std::optional<Range> parse_range(std::string_view text) {
  const auto first = take_number(text);
  if (!first) return std::nullopt;
  Range range{*first, *first};
  if (text.empty()) return range;
  if (text[0] != '-') return std::nullopt;
  text.remove_prefix(1);
  const auto last = take_number(text);
  if (!last || *last < *first) return std::nullopt;
  range.last = *last;
  if (text.empty()) return range;
  range.multiplies = text[0] == '*';
  if (text[0] != '+' && !range.multiplies) return std::nullopt;
  text.remove_prefix(1);
  const auto step = take_number(text);
  if (!step || !text.empty() || *step < (range.multiplies ? 2 : 1) || (range.multiplies && *first < 1))
    return std::nullopt;
  range.step = *step;
  return range;
}

std::string read_item(const std::string& item, int64_t min, int64_t max, std::vector<int64_t>& numbers) {
  if (item.empty()) return "there is nothing between two commas, or at an end; give numbers such as 1,2,3";
  const auto range = parse_range(item);
  if (!range || range->first < min || range->last > max)
    return "'" + item + "' is not a whole number from " + std::to_string(min) + " to " + std::to_string(max);
  for (int64_t n = range->first; n <= range->last; n = range->multiplies ? n * range->step : n + range->step) {
    if (numbers.size() == kMost) return "more than " + std::to_string(kMost) + " numbers";
    numbers.push_back(n);
    if (range->last - n < (range->multiplies ? n * (range->step - 1) : range->step)) break;  // nor may `n` wrap
  }
  return {};
}

}  // namespace

std::string read_numbers(const std::string& text, int64_t min, int64_t max, std::vector<int64_t>& numbers) {
  for (size_t begin = 0;;) {
    const size_t comma = text.find(',', begin);
    if (std::string wrong = read_item(text.substr(begin, comma - begin), min, max, numbers); !wrong.empty())
      return wrong;
    if (comma == std::string::npos) return {};
    begin = comma + 1;
  }
}

CLI::Option* add_number_list(CLI::App& app, const char* names, std::vector<int64_t>& numbers, int64_t min, int64_t max,
                             const char* form, const std::string& help) {
  std::string preset;
  for (const int64_t n : numbers) preset += (preset.empty() ? "" : ",") + std::to_string(n);
  const auto read = [&numbers, min, max, names](const std::vector<std::string>& texts) {
    numbers.clear();
    for (const std::string& text : texts)
      if (const std::string wrong = read_numbers(text, min, max, numbers); !wrong.empty())
        throw CLI::ValidationError(std::string(names).substr(std::string_view(names).rfind(',') + 1), wrong);
  };
  return app.add_option_function<std::vector<std::string>>(names, read, help)
      ->type_name(form)
      ->default_str(preset)
      ->allow_extra_args(false);
}

}  // namespace smelt
