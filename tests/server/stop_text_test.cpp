// Stop strings over the borders of pieces.
#include "server/stop_text.h"

#include <doctest/doctest.h>

using smelt::StopText;

namespace {

// The text that is given out where each piece has `size` bytes.
std::string cut(const std::string& text, const std::vector<std::string>& stops, size_t size) {
  StopText stop(stops);
  std::string out;
  for (size_t at = 0; at < text.size(); at += size) out += stop.push(text.substr(at, size));
  return out + stop.finish();
}

}  // namespace

TEST_CASE("a text ends in front of its first stop string, whatever the pieces are") {
  for (size_t size : {1, 2, 3, 5, 100}) {
    CAPTURE(size);
    CHECK(cut("one two three", {"two"}, size) == "one ");
    CHECK(cut("one two three", {"three", "two"}, size) == "one ");
    CHECK(cut("one two three", {"four"}, size) == "one two three");
    CHECK(cut("aab", {"ab"}, size) == "a");
    CHECK(cut("aaaab!", {"aab"}, size) == "aa");
    CHECK(cut("end\n", {"\n\n"}, size) == "end\n");
    CHECK(cut("stop", {"stop"}, size) == "");
    CHECK(cut("text", {}, size) == "text");
  }
}

TEST_CASE("what cannot become a stop string is given out at once") {
  StopText stop({"\nUser:"});
  CHECK(stop.push("Yes.\nUs") == "Yes.");
  CHECK(stop.found().empty());
  CHECK(stop.push("ual") == "\nUsual");
  CHECK(stop.push("\nUser: no") == "");
  CHECK(stop.found() == "\nUser:");
  CHECK(stop.push("more") == "");
  CHECK(stop.finish() == "");
}
