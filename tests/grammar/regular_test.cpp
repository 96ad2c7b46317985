#include "grammar/regular.h"

#include <doctest/doctest.h>

#include <regex>

#include "grammar/numbers.h"
#include "grammar/sampling.h"

using namespace smelt;

namespace {

Grammar whole(const Regular& language) {
  Grammar grammar;
  grammar.set_root(to_grammar(grammar, language, plain_form));
  return grammar;
}

bool matches(std::string_view expression, std::string_view text, bool search = false) {
  const auto language = read_regex(expression, search);
  REQUIRE_MESSAGE(language.ok(), (language ? "" : language.error().message));
  return test::accepts(whole(*language), text);
}

bool has(const NumberBounds& bounds, const char* text) {
  const auto language = number_language(bounds);
  REQUIRE(language.ok());
  return test::accepts(whole(*language), text);
}

}  // namespace

TEST_CASE("regular expressions match whole texts or search in them") {
  CHECK(matches("a(b|c)*d{2,3}", "abcbdd"));
  CHECK_FALSE(matches("a(b|c)*d{2,3}", "abcbdddd"));
  CHECK(matches("b+", "aabba", true));
  CHECK(matches("^a|b$", "xxb", true));
  CHECK(matches("^a|b$", "axx", true));
  CHECK_FALSE(matches("^a|b$", "xax", true));
  CHECK(matches("\\d{3}-[^\\d\\s]\\u0041", "123-xA"));
  CHECK(matches("(?:x|y){0}z", "z"));
  CHECK(matches("(?<year>[0-9]{4})?", ""));
  CHECK(matches("[\\w.-]+@[a-z]+\\.(com|org)", "a.b-c@d.org"));
  CHECK(matches("a{2,}", "aaaa"));
  CHECK_FALSE(matches("a{2,}", "a"));
}

TEST_CASE("random regular expressions agree with the standard library's") {
  std::mt19937 random(7);
  const auto pick = [&](auto... options) {
    const char* list[] = {options...};
    return std::string(list[random() % sizeof...(options)]);
  };
  for (int round = 0; round < 300; ++round) {
    std::string expression;
    const int parts = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < parts; ++i)
      expression += pick("a", "b", "[ab]", "(a|bc)", "(ab|c*)", "[^a]", "(a(b|c)?)") +
                    pick("", "", "*", "?", "+", "{2}", "{1,3}");
    if (random() % 4 == 0) expression += "|" + pick("c", "ca", "b*");
    const std::regex expected(expression, std::regex::ECMAScript);
    for (int k = 0; k < 20; ++k) {
      std::string text;
      for (size_t n = random() % 7; n > 0; --n) text += "abc"[random() % 3];
      CAPTURE(expression);
      CAPTURE(text);
      CHECK(matches(expression, text) == std::regex_match(text, expected));
    }
  }
}

TEST_CASE("what is not regular is refused by a sentence") {
  for (const char* expression : {"(?=a)b", "(a)\\1", "\\bword", "a**", "*a", "[z-a]", "(a", "a)", "\\"})
    CHECK_FALSE(read_regex(expression, false).ok());
  CHECK_FALSE(read_regex(std::string(100'000, '('), false).ok());
  CHECK_FALSE(read_regex("((((a{999}){999}){999}){999})", false).ok());
}

TEST_CASE("numbers keep within their bounds, digit by digit") {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const int low = static_cast<int>(random() % 400) - 200, high = low + static_cast<int>(random() % 300);
    NumberBounds bounds{.is_integer = true,
                        .least = Decimal::from(std::to_string(low)),
                        .most = Decimal::from(std::to_string(high)),
                        .above_least = random() % 2 == 0,
                        .below_most = random() % 2 == 0};
    const int multiple = static_cast<int>(random() % 3) * 7;
    if (multiple > 0) bounds.multiple_of = Decimal::from(std::to_string(multiple));
    const auto language = number_language(bounds);
    REQUIRE(language.ok());
    const Grammar grammar = whole(*language);
    if (!Automaton::from(grammar).ok()) continue;  // no number at all, which the loop would find as well
    for (int n = -210; n <= 510; n += 1 + static_cast<int>(random() % 5)) {
      const bool inside = (bounds.above_least ? n > low : n >= low) && (bounds.below_most ? n < high : n <= high) &&
                          (multiple == 0 || n % multiple == 0);
      CAPTURE(low);
      CAPTURE(high);
      CAPTURE(n);
      CHECK(test::accepts(grammar, std::to_string(n)) == inside);
    }
  }
}

TEST_CASE("bounds of numbers with a fraction are exact") {
  const NumberBounds bounds{.least = Decimal::from("-0.25"), .most = Decimal::from("1.5e1"), .below_most = true};
  for (const char* inside : {"0", "-0.25", "-0.1", "-0.249", "14.999", "3.5", "1.0"}) CHECK(has(bounds, inside));
  for (const char* outside : {"15", "15.0", "-0.251", "-1", "007", "1.", ".5", "100"})
    CHECK_FALSE(has(bounds, outside));
  const NumberBounds cents{.least = Decimal::from("0"), .multiple_of = Decimal::from("0.01")};
  CHECK(has(cents, "12.34"));
  CHECK_FALSE(has(cents, "12.345"));
  const NumberBounds narrow{.least = Decimal::from("0.5"), .most = Decimal::from("0.7")};
  CHECK(has(narrow, "0.61"));
  CHECK_FALSE(has(narrow, "0.71"));
}

TEST_CASE("lengths are counted in characters") {
  const auto word = read_regex("[a-zä]*", false);
  const auto bounded = with_length(*word, 2, 3);
  REQUIRE(bounded.ok());
  CHECK(test::accepts(whole(*bounded), "äb"));
  CHECK(test::accepts(whole(*bounded), "äää"));
  CHECK_FALSE(test::accepts(whole(*bounded), "ä"));
  CHECK_FALSE(test::accepts(whole(*bounded), "abcd"));
  CHECK(test::accepts(whole(*with_length(*word, 2, -1)), "abcdefgh"));
}

TEST_CASE("all texts but some") {
  const Grammar grammar = whole(all_but({"name", "nam", "größe"}));
  for (const char* text : {"", "n", "na", "names", "größ", "x"}) CHECK(test::accepts(grammar, text));
  for (const char* text : {"name", "nam", "größe"}) CHECK_FALSE(test::accepts(grammar, text));
}
