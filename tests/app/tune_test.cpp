// `smelt tune` as a user runs it, on the embedded model.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "app/process.h"

namespace test = smelt::test;
using test::Outcome, test::RunOptions, test::scratch;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The name of the first kernel that a dry run lists under a plan.
std::string first_kernel(const std::string& list, const std::string& plan) {
  size_t at = list.find(plan + ": ");
  at = list.find(" %", at);
  const size_t comma = list.find(',', at), space = list.rfind(' ', comma);
  return list.substr(space + 1, comma - space - 1);
}

}  // namespace

TEST_CASE("a dry run lists the kernels of both plans and leaves nothing") {
  const std::string cache = scratch().file("tune-dry");
  const Outcome o = test::smelt({"tune", "--dry-run"}, {.environment = {"SMELT_CACHE=" + cache}});
  CHECK(o.exit_code == 0);
  CHECK(has(o.out, "decode: a token takes"));
  CHECK(has(o.out, "prefill: a prompt of 256 tokens takes"));
  CHECK(has(o.out, "local("));
  CHECK_FALSE(std::filesystem::exists(cache + "/tuned.txt"));
}

TEST_CASE("sequences that decode side by side have kernels of their own to search") {
  const std::vector<std::string> environment{"SMELT_CACHE=" + scratch().file("parallel")};
  const Outcome o =
      test::smelt({"tune", "--dry-run", "--plan", "decode", "--parallel", "4"}, {.environment = environment});
  REQUIRE_MESSAGE(o.exit_code == 0, o.err);
  CHECK(has(o.out, "decode: a step of 4 tokens takes"));
  CHECK(has(o.out, "reduce_sum_4_"));
}

TEST_CASE("a known model can be searched before its file is there, which has the same kernels") {
  const std::string cache = scratch().file("tune-synthetic"), file = scratch().file("tiny.gguf");
  const std::vector<std::string> environment{"SMELT_CACHE=" + cache};
  const Outcome listed = test::smelt({"tune", "--synthetic", "tiny-lite:q4_0", "--dry-run", "--plan", "decode"},
                                     {.environment = environment});
  REQUIRE_MESSAGE(listed.exit_code == 0, listed.err);
  REQUIRE(test::smelt({"bench", "--synthetic", "tiny-lite:q4_0", "--write", file}, {}).exit_code == 0);
  const Outcome of_file =
      test::smelt({"tune", "-m", file, "--dry-run", "--plan", "decode"}, {.environment = environment});
  REQUIRE_MESSAGE(of_file.exit_code == 0, of_file.err);
  const std::string costliest = first_kernel(listed.out, "decode");
  CHECK(has(costliest, "_"));
  CHECK_MESSAGE(has(of_file.out, costliest), costliest);
  CHECK(test::smelt({"tune", "--synthetic", "tiny-lite:q4_0", "-m", file}, {}).exit_code == 2);
  const Outcome unknown = test::smelt({"tune", "--synthetic", "no-such-model"}, {.environment = environment});
  CHECK(unknown.exit_code == 1);
  CHECK(has(unknown.err, "no-such-model"));
}

TEST_CASE("wrong flags of tune are usage errors, and what is not there is named") {
  CHECK(test::smelt({"tune", "--minutes", "0"}).exit_code == 2);
  CHECK(test::smelt({"tune", "--plan", "both-of-them"}).exit_code == 2);
  CHECK(test::smelt({"tune", "--parallel", "0"}).exit_code == 2);
  CHECK(test::smelt({"tune", "--dry-run", "--json", "tried.json"}).exit_code == 2);
  CHECK(test::smelt({"tune", "--json", scratch().file("no such folder/tried.json")}).exit_code == 1);
  const Outcome nowhere = test::smelt({"tune", "--minutes", "0.01"}, {.environment = {"SMELT_CACHE=off"}});
  CHECK(nowhere.exit_code == 1);
  CHECK(has(nowhere.err, "SMELT_CACHE: off"));
  const Outcome unknown = test::smelt({"tune", "--kernel", "no-such-kernel"});
  CHECK(unknown.exit_code == 1);
  CHECK(has(unknown.err, "smelt: no-such-kernel: no kernel"));
  const Outcome small = test::smelt({"tune", "-c", "64"});
  CHECK(small.exit_code == 1);
  CHECK(has(small.err, "--prompt-tokens"));
}

TEST_CASE("a search ends with a table, and what it keeps gives one text for any number of threads" *
          doctest::test_suite("long")) {
  const std::string cache = scratch().file("tune-cache");
  const RunOptions own{.environment = {"SMELT_CACHE=" + cache}};
  const std::vector<std::string> story = {"run", "-p", "Once", "-n", "24", "--temp", "0"};
  const std::string name = first_kernel(test::smelt({"tune", "--dry-run"}, own).out, "decode");
  const std::string tried = scratch().file("tried.json");
  const Outcome o = test::smelt({"tune", "--minutes", "0.2", "--kernel", name, "--json", tried}, own);
  REQUIRE_MESSAGE(o.exit_code == 0, o.err);
  CHECK(has(o.out, "us before"));
  CHECK(has(o.out, "compiled and timed, 0 wrong"));
  CHECK(has(o.out, "with them:"));
  CHECK(std::filesystem::exists(cache + "/tuned.txt") == has(o.out, "kept in"));
  const Outcome shown = test::smelt({"viz", tried, "--print", "search", "--kernel", name, "--top", "10000"}, own);
  REQUIRE_MESSAGE(shown.exit_code == 0, shown.err);
  CHECK(has(shown.out, name + ", decode"));
  CHECK(has(shown.out, " 1.000 of its time"));  // where it began
  std::string text;
  for (const char* threads : {"1", "2", "3"}) {
    std::vector<std::string> again = story;
    again.insert(again.end(), {"-t", threads});
    const Outcome after = test::smelt(again, own);
    REQUIRE(after.exit_code == 0);
    CHECK_FALSE(has(after.err, "[tuned]"));
    if (text.empty()) text = after.out;
    CHECK(after.out == text);
  }
}

TEST_CASE("a damaged database is told of and does no harm") {
  const std::string cache = scratch().file("tune-damaged");
  std::filesystem::create_directory(cache);
  std::ofstream(cache + "/tuned.txt") << "# a header\n0123 half of a line";
  const Outcome o = test::smelt({"run", "-p", "Once", "-n", "2"}, {.environment = {"SMELT_CACHE=" + cache}});
  CHECK(o.exit_code == 0);
  CHECK(has(o.err, "tuned.txt: line 2"));
  CHECK(contents(cache + "/tuned.txt") == "# a header\n0123 half of a line");
}
