#include "base/options.h"

#include <doctest/doctest.h>

#include <map>

using namespace smelt;

namespace {

Result<Options> parse(std::map<std::string, std::string> environment) {
  return parse_options([&](const char* variable) -> std::optional<std::string> {
    const auto found = environment.find(variable);
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  });
}

}  // namespace

TEST_CASE("switches that are not set, or empty, have their defaults") {
  for (const auto& environment : {std::map<std::string, std::string>{}, {{"DEBUG", ""}, {"NOOPT", ""}, {"DUMP", ""}}}) {
    auto o = parse(environment);
    REQUIRE(o.ok());
    CHECK(o->debug == 0);
    CHECK(!o->noopt);
    CHECK(o->dump.empty());
  }
}

TEST_CASE("switches are read by their kind") {
  auto o = parse({{"DEBUG", "6"}, {"NOOPT", "1"}, {"VERIFY", "0"}, {"DUMP", "some/folder"}, {"NO_COLOR", "yes"}});
  REQUIRE(o.ok());
  CHECK(o->debug == 6);
  CHECK(o->noopt);
  CHECK(!o->verify);
  CHECK(o->dump == "some/folder");
  CHECK(o->no_color);
}

TEST_CASE("a bad switch is named with its value") {
  CHECK(parse({{"DEBUG", "7"}}).error().message ==
        "[options] DEBUG: '7' is not a level from 0 to 6; unset it or correct it");
  for (const char* bad : {"-1", "1x", "two", "10"}) CHECK(!parse({{"DEBUG", bad}}).ok());
  CHECK(parse({{"NOOPT", "true"}}).error().message == "[options] NOOPT: 'true' is not 0 or 1; unset it or correct it");
}

TEST_CASE("a scope changes switches until it ends, and scopes nest") {
  const int before = options().debug;
  {
    ScopedOptions outer([](Options& o) { o.debug = 3; });
    CHECK(options().debug == 3);
    {
      ScopedOptions inner([](Options& o) { o.debug_kernel = "softmax"; });
      CHECK(debug(3));
      CHECK(debug(3, "softmax_4096"));
      CHECK(!debug(3, "matvec_1"));
      CHECK(!debug(4, "softmax_4096"));
    }
    CHECK(debug(3, "matvec_1"));
  }
  CHECK(options().debug == before);
}

TEST_CASE("the help has a line for every switch") {
  const std::string help = options_help();
  for (const char* name : {"DEBUG ", "DEBUG_KERNEL ", "DUMP ", "NOOPT ", "VERIFY ", "SMELT_CACHE "}) {
    CAPTURE(name);
    CHECK(help.find(name) != std::string::npos);
  }
}
