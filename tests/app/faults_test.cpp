// What strikes a running program from outside: no memory, a file that is cut. One sentence and exit code 1.
#include <doctest/doctest.h>

#include <filesystem>

#include "app/process.h"
#include "support/effort.h"

using smelt::test::Outcome;
using smelt::test::scratch;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

int lines_of(const std::string& text) { return static_cast<int>(std::count(text.begin(), text.end(), '\n')); }

std::string own_model(const std::string& name) {
  const std::string path = scratch().file(name);
  std::filesystem::copy_file(SMELT_SOURCE_DIR "/models/tiny-glm-Q4_K_M.gguf", path);
  return path;
}

}  // namespace

TEST_CASE("a model file that becomes shorter while it is in use ends in a sentence that names it") {
  for (const bool in_place : {false, true}) {
    const std::string path = own_model(in_place ? "cut in place.gguf" : "cut.gguf");
    // Rows of the embedding are read from the file for every token.
    std::vector<std::string> arguments = {"run", "-m", path, "-p", "Once", "-n", "400", "-t", "2", "--ignore-eos"};
    if (in_place) arguments.push_back("--no-repack");
    const Outcome run =
        smelt::test::smelt(arguments, {.at_first_output = [&] { std::filesystem::resize_file(path, 4096); }});
    CAPTURE(run.err);
    CHECK(run.exit_code == 1);
    CHECK(contains(run.err, "smelt: " + path + ": became shorter while it was in use"));
    CHECK(lines_of(run.err) == 1 + contains(run.err, "smelt: [target] "));  // what this processor lacks is said, too
  }
}

TEST_CASE("memory that ends anywhere ends in a sentence") {
  if (smelt::test::kSanitized) return;  // shadow memory takes terabytes of addresses, so no limit fits
  REQUIRE(smelt::test::smelt({"run", "-p", "Once", "-n", "2"}).exit_code == 0);  // its kernels are in the cache now
  // Below this not even the libraries of the program find room.
  uint64_t least = 64 << 20;
  while (smelt::test::smelt({"--version"}, {.address_space = least}).exit_code != 0) least += 16 << 20;
  int refused = 0, went = 0;
  for (uint64_t room = 0; room <= 1024; room = room < 32 ? room + 4 : room * 5 / 4)
    for (const bool compiles : {false, true}) {
      if (compiles && room > 256) continue;
      smelt::test::RunOptions options{.address_space = least + (room << 20)};
      if (compiles) options.environment = {"SMELT_CACHE=off"};
      const Outcome run = smelt::test::smelt({"run", "-p", "Once", "-n", "2", "-t", "2"}, options);
      CAPTURE(room);
      CAPTURE(compiles);
      CAPTURE(run.err);
      CHECK((run.exit_code == 0 || run.exit_code == 1));
      if (run.exit_code == 1) CHECK(contains(run.err, "smelt: "));
      ++(run.exit_code == 0 ? went : refused);
    }
  CHECK(refused > 0);
  CHECK(went > 0);
}

TEST_CASE("a stack that a limit makes small is no matter: commands get one of their own") {
  const std::vector<std::string> story = {"run", "-p", "Once", "-n", "4", "-t", "2", "--seed", "7"};
  const std::string text = smelt::test::smelt(story).out;
  CHECK(text.size() > 4);
  for (const uint64_t kilobytes : {64, 128, 1024}) {
    const Outcome run = smelt::test::smelt(story, {.stack = kilobytes << 10});
    CAPTURE(kilobytes);
    CAPTURE(run.err);
    CHECK(run.exit_code == 0);
    CHECK(run.out == text);
  }
  // Kernels are compiled on threads of that kind, too.
  CHECK(smelt::test::smelt(story, {.environment = {"SMELT_CACHE=off"}, .stack = 64 << 10}).out == text);
}

TEST_CASE("where there is no room for a stack of its own, a small one ends in a sentence") {
  if (smelt::test::kSanitized) return;
  const auto version_in = [](uint64_t bytes, uint64_t stack = 0) {
    return smelt::test::smelt({"--version"}, {.address_space = bytes, .stack = stack});
  };
  uint64_t least = 64 << 20;
  while (version_in(least).exit_code != 0) least += 4 << 20;
  const auto expect_a_sentence = [&](uint64_t room) {
    const Outcome run = version_in(least + room, 64 << 10);
    CAPTURE(room);
    CAPTURE(run.err);
    CHECK((run.exit_code == 0 || run.exit_code == 1));
    const bool lacks_a_stack = contains(run.err, "smelt: its stack has ");
    CHECK((lacks_a_stack || contains(run.err, "smelt: no memory is left")) == (run.exit_code == 1));
    return lacks_a_stack;
  };
  for (const uint64_t megabytes : {0, 4, 8, 16, 32}) expect_a_sentence(megabytes << 20);
  // Where there is room for the stack and for nothing else.
  uint64_t no_stack = 1 << 20, stack = 32 << 20;
  REQUIRE(expect_a_sentence(no_stack));
  while (stack - no_stack > 4096) {
    const uint64_t between = (no_stack + stack) / 2 / 4096 * 4096;
    (expect_a_sentence(between) ? no_stack : stack) = between;
  }
  for (int pages = 1; pages <= 32; ++pages) expect_a_sentence(stack + pages * 4096);
}
