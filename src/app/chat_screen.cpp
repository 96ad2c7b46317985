#include "app/chat_screen.h"

#include <unistd.h>

#include <cstdio>
#include <string>

#include "app/printing.h"
#include "app/text_of.h"
#include "base/printable.h"
#include "base/progress.h"

namespace smelt {
namespace {

constexpr std::string_view kDim = "\033[2m", kPlain = "\033[0m";

// A model may write anything; what commands a terminal is shown as text.
std::string harmless(std::string_view text) {
  std::string out;
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool commands = (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f;
    out += commands ? printable({&c, 1}) : std::string(1, c);
  }
  return out;
}

}  // namespace

ChatScreen::ChatScreen() : colour_(::isatty(STDOUT_FILENO) && stderr_has_colour()) {}

void ChatScreen::write(std::string_view text) {
  const std::string safe = ::isatty(STDOUT_FILENO) ? harmless(text) : std::string(text);
  print_now(safe);
  wrote_ = true;
}

void ChatScreen::write_content(std::string_view text) {
  if (!colour_) return write(text);
  print_now(markdown_.push(harmless(text)));
  wrote_ = true;
}

void ChatScreen::begin() { in_thoughts_ = wrote_ = false; }

void ChatScreen::leave_thoughts() {
  if (!in_thoughts_) return;
  in_thoughts_ = false;
  if (fold_thoughts) write(text_of(" %.0f s, /thoughts shows it", thinking_.lap()));
  if (colour_) print_now(kPlain);
  print_now(fold_thoughts ? "\n" : "\n\n");
}

void ChatScreen::show(const Output& part) {
  if (!part.reasoning.empty()) {
    if (!in_thoughts_ && colour_) print_now(kDim);
    if (!in_thoughts_ && fold_thoughts) {
      thinking_.lap();
      write("thinking ...");
    }
    in_thoughts_ = true;
    if (!fold_thoughts) write(part.reasoning);
  }
  if (!part.content.empty()) {
    leave_thoughts();
    write_content(part.content);
  }
  for (const ToolCall& call : part.calls) {
    leave_thoughts();
    if (!call.name.empty()) write((wrote_ ? "\n" : "") + ("calls " + call.name + " "));
    write(call.arguments);
  }
}

void ChatScreen::end() {
  leave_thoughts();
  print_now(markdown_.finish());
  if (wrote_) print_now("\n");
}

void ChatScreen::note(std::string_view text) {
  const std::string line = colour_ ? std::string(kDim) + std::string(text) + std::string(kPlain) : std::string(text);
  std::fprintf(stderr, "%s\n", line.c_str());
}

}  // namespace smelt
