#include "base/printable.h"

#include <doctest/doctest.h>

using smelt::printable;

TEST_CASE("ordinary text and UTF-8 stay as they are") {
  CHECK(printable("blk.0.attn_q_a.weight") == "blk.0.attn_q_a.weight");
  CHECK(printable("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80") == "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
}

TEST_CASE("control characters, terminal commands and broken UTF-8 are escaped") {
  CHECK(printable("a\nb\tc\\") == "a\\nb\\tc\\\\");
  CHECK(printable("\x1b[2J") == "\\x1b[2J");
  CHECK(printable(std::string_view("\0\x7f", 2)) == "\\x00\\x7f");
  CHECK(printable("\xc2\x9b") == "\\xc2\\x9b");                    // a terminal command in one character
  CHECK(printable("\xe2\x80\xae") == "\\xe2\\x80\\xae");           // turns the text after it around
  CHECK(printable("\xc3") == "\\xc3");                             // cut off
  CHECK(printable("\xc0\x80") == "\\xc0\\x80");                    // overlong
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");           // surrogate
  CHECK(printable("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");  // past the last character
  CHECK(printable("\xff") == "\\xff");
}

TEST_CASE("long text is cut, never inside a character") {
  CHECK(printable("abcdef", 3) == "abc...");
  CHECK(printable("abc", 3) == "abc");
  CHECK(printable("ab\xc3\xa9z", 3) == "ab\xc3\xa9...");
}
