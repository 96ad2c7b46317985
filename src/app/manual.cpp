// The manual page, in the language of man(7).
#include <cctype>

#include "app/completions.h"
#include "app/option_names.h"
#include "base/options.h"

namespace smelt {
namespace {

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out;
}

// A line that begins with a dot or a quote would be a request.
std::string line_of(const std::string& text) {
  return (text.starts_with('.') || text.starts_with('\'') ? "\\&" : "") + escaped(text) + "\n";
}

std::string lines_of(const std::string& text) {
  std::string out;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    out += line_of(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

// As it is, line by line.
std::string example_of(const std::string& text) { return ".nf\n" + lines_of(text) + ".fi\n"; }

std::string option_entry(const OptionNames& option) {
  std::string head;
  for (const std::string& spelling : option.spellings())
    head += (head.empty() ? "" : ", ") + ("\\fB" + escaped(spelling)) + "\\fR";
  if (option.takes_value) head += " \\fI" + escaped(option.value) + "\\fR";
  return ".TP\n" + head + "\n" + line_of(option.description);
}

std::string command_section(const CLI::App& command) {
  std::string out = ".SS smelt " + escaped(command.get_name()) + " " + escaped(arguments_of(command)) + "\n" +
                    line_of(command.get_description() + ".");
  for (const OptionNames& option : options_of(command)) out += option_entry(option);
  if (!command.get_footer().empty()) out += ".PP\n" + example_of(command.get_footer());
  return out;
}

std::string environment_section() {
  std::string out = ".SH ENVIRONMENT\n";
#define OPTION(kind, field, variable, fallback, doc) out += ".TP\n\\fB" + escaped(variable) + "\\fR\n" + line_of(doc);
#include "base/options.def"
#undef OPTION
  return out;
}

}  // namespace

std::string manual_page(const CommandLine& line) {
  std::string out =
      ".TH SMELT 1 \"\" \"smelt " SMELT_VERSION
      "\" \"User Commands\"\n"
      ".SH NAME\n"
      "smelt \\- run large language models from GGUF files\n"
      ".SH SYNOPSIS\n"
      ".B smelt\n\\fICOMMAND\\fR [\\fIOPTION\\fR]... [\\fIARGUMENT\\fR]...\n.br\n"
      ".B smelt\n\\fIMODEL\\fR [\\fIPROMPT\\fR] [\\fIOPTION\\fR]...\n"
      ".SH DESCRIPTION\n" +
      lines_of(line.app.get_description()) +
      ".PP\nA \\fIMODEL\\fR is a GGUF file, the first shard of one, or the name of a model that was fetched with\n"
      "\\fBsmelt pull\\fR.\n"
      ".SH COMMANDS\n";
  for (const auto& [command, action] : line.commands) out += command_section(*command);
  return out + environment_section() +
         ".SH FILES\n"
         ".TP\n~/.cache/smelt\nCompiled kernels, packed weights, tuned options: \\fBsmelt cache\\fR shows and clears "
         "them.\n"
         ".TP\n~/.cache/huggingface/hub\nModels, shared with other tools: \\fBsmelt list\\fR.\n"
         ".SH EXIT STATUS\n"
         "0: done. 1: a file, a model or a device is not as it should be. 2: the command line is wrong.\n"
         "130: interrupted.\n";
}

}  // namespace smelt
