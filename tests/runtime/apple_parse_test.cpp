// What is for Apple's systems alone (the folders apple/) is read here by clang, with declarations of our own in place
// of Apple's (apple_headers/): so that no name, type or count of arguments is wrong by a typo.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "runtime/metal_shim/compile.h"
#include "support/temp_folder.h"

using namespace smelt;

namespace {

const std::string kSource = SMELT_SOURCE_DIR "/src/runtime/metal/apple/apple_gpu.mm";
const char* const kPlain[] = {
    SMELT_SOURCE_DIR "/src/base/apple/build_id.cpp", SMELT_SOURCE_DIR "/src/base/apple/stack.cpp",
    SMELT_SOURCE_DIR "/src/runtime/apple/available_memory.cpp", SMELT_SOURCE_DIR "/src/runtime/apple/cores.cpp"};

std::string contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// What clang says of a text; empty where it is right.
std::string parse(const std::string& text) {
  const test::TempFolder folder;
  const std::string source = folder.path() + "/source.mm", said = folder.path() + "/said";
  std::ofstream(source) << text;
  const auto compiler = find_shim_compiler();
  REQUIRE_MESSAGE(compiler.ok(), compiler.error().message);
  const std::string command = compiler->path +
                              " -fsyntax-only -fobjc-arc -fblocks -fobjc-runtime=macosx-13.0 -std=c++20 -Wall -Wextra"
                              " -Werror -I " SMELT_SOURCE_DIR "/src -isystem " SMELT_SOURCE_DIR
                              "/tests/runtime/apple_headers " +
                              source + " 2> " + said;
  const int status = std::system(command.c_str());
  const std::string words = contents(said);
  return status == 0 ? words : "refused: " + words;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("what is for Macs alone is read without a word") {
  CHECK(parse(contents(kSource)) == "");
  for (const char* plain : kPlain) CHECK(parse(contents(plain)) == "");
}

TEST_CASE("a typo in it is found: in a message, in a constant, in the type of an argument") {
  const std::string text = contents(kSource);
  const auto refused = [](const std::string& wrong) { return parse(wrong).starts_with("refused: "); };
  CHECK(refused(replaced(text, "executeCommandsInBuffer:", "executeCommandInBuffer:")));
  CHECK(refused(replaced(text, "MTLDispatchTypeConcurrent", "MTLDispatchConcurrent")));
  CHECK(refused(replaced(text, "[encoder waitForFence:fence]", "[encoder waitForFence:buffer]")));
}
