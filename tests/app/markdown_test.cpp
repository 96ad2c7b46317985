// Markdown on a terminal: what is styled, what stays, and that pieces do not matter.
#include "app/markdown.h"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

using namespace smelt;

namespace {

// Styles as [bold], [code], [both] and [plain].
std::string readable(std::string text) {
  const auto replace = [&](const std::string& from, const std::string& to) {
    for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size()) text.replace(at, from.size(), to);
  };
  replace("\033[0m\033[1m\033[36m", "[both]");
  replace("\033[0m\033[1m", "[bold]");
  replace("\033[0m\033[36m", "[code]");
  replace("\033[0m", "[plain]");
  return text;
}

std::string shown(const std::vector<std::string>& pieces) {
  Markdown markdown;
  std::string out;
  for (const std::string& piece : pieces) out += markdown.push(piece);
  return readable(out + markdown.finish());
}

const std::vector<std::pair<std::string, std::string>>& examples() {
  static const std::vector<std::pair<std::string, std::string>> all = {
      {"plain text\n", "plain text\n"},
      {"a **word** here", "a [bold]word[plain] here"},
      {"use `ls -l **` now", "use [code]ls -l **[plain] now"},
      {"# Title\nbody", "[bold]# Title[plain]\nbody"},
      {"#hashtag", "#hashtag"},
      {"- one\n  * two\n-3\n", "\xE2\x80\xA2 one\n  \xE2\x80\xA2 two\n-3\n"},
      {"```c\nint *a; // **no** `tick`\n# include\n- x\n```\nend",
       "[code]```c\nint *a; // **no** `tick`\n# include\n- x\n[code]```[plain]\nend"},
      {"2 * 3 and 2 ** 3, **never closed\nnext", "2 * 3 and 2 ** 3, [bold]never closed[plain]\nnext"},
      {"**bold `both`** end", "[bold]bold [both]both[bold][plain] end"},
      {"`open", "[code]open[plain]"},
      {"*it*", "*it*"},
      {"##", "##"},
      {"--- \n", "--- \n"},
      {"", ""},
  };
  return all;
}

}  // namespace

TEST_CASE("headings, bold words, code and bullets are styled") {
  for (const auto& [text, expected] : examples()) {
    CAPTURE(text);
    CHECK(shown({text}) == expected);
  }
}

TEST_CASE("markdown in any pieces is shown as the whole is") {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    static const std::vector<std::string> kParts = {"*", "**", "`", "```", "#", "- ", " ", "\n", "word", "\xC3\xA4"};
    for (int i = 0; i < 14; ++i) text += kParts[random() % kParts.size()];
    std::vector<std::string> bytes;
    for (char c : text) bytes.emplace_back(1, c);
    CAPTURE(text);
    CHECK(shown(bytes) == shown({text}));
  }
}
