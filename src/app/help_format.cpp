#include "app/help_format.h"

#include "app/wrapped.h"

namespace smelt {
namespace {

constexpr size_t kColumn = 28;  // where descriptions begin
constexpr size_t kWidth = 100;

// Defaults of lists come as "[512]".
std::string without_brackets(std::string text) {
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') text = text.substr(1, text.size() - 2);
  return text;
}

}  // namespace

HelpFormat::HelpFormat() {
  label("SUBCOMMAND", "COMMAND");
  column_width(kColumn);
}

std::string HelpFormat::make_option(const CLI::Option* option, bool is_positional) const {
  std::string left = "  " + make_option_name(option, is_positional) + make_option_opts(option);
  if (left.size() + 1 > kColumn)
    left += "\n" + std::string(kColumn, ' ');
  else
    left.resize(kColumn, ' ');
  return left + wrapped(make_option_desc(option), kWidth - kColumn, kColumn) + "\n";
}

std::string HelpFormat::make_option_opts(const CLI::Option* option) const {
  if (option->get_type_size() == 0) return "";  // a flag
  const std::string value = without_brackets(option->get_default_str());
  return " " + option->get_type_name() + (value.empty() ? "" : "=" + value) +
         (option->get_required() ? " (required)" : "");
}

std::string HelpFormat::make_option_usage(const CLI::Option* option) const {
  const std::string form = option->get_type_name();
  return form.starts_with('[') ? form : CLI::Formatter::make_option_usage(option);
}

// Flags that turn something off carry "{false}" in their name.
std::string HelpFormat::make_option_name(const CLI::Option* option, bool is_positional) const {
  std::string name = CLI::Formatter::make_option_name(option, is_positional);
  if (const size_t brace = name.find('{'); brace != std::string::npos) name.erase(brace, name.find('}') - brace + 1);
  return name;
}

}  // namespace smelt
