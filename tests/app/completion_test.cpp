// What is made from the table of commands: completion scripts and the manual page; and names of models from outside.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "app/process.h"

using smelt::test::Outcome;
using smelt::test::scratch;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string script(const char* reader) {
  const Outcome run = smelt::test::smelt({"completion", reader});
  REQUIRE(run.exit_code == 0);
  return run.out;
}

// The folders of a hub of this test's own.
smelt::test::RunOptions own_hub() { return {.environment = {"HF_HOME=" + scratch().file("hub-home")}}; }

}  // namespace

TEST_CASE("completion scripts and the manual know every command and its flags") {
  for (const char* reader : {"bash", "zsh", "fish", "man"}) {
    CAPTURE(reader);
    const std::string text = script(reader);
    for (const char* word : {"run", "detokenize", "pull", "completion", "ctx", "repetitions"}) {
      CAPTURE(word);
      CHECK(contains(text, word));
    }
  }
  CHECK(smelt::test::smelt({"completion", "tcsh"}).exit_code == 2);
}

TEST_CASE("bash reads its script and completes commands and flags with it") {
  const std::string path = scratch().file("smelt.bash"), answer = scratch().file("answer");
  std::ofstream(path) << script("bash") << "COMP_WORDS=(smelt det) COMP_CWORD=1; _smelt; echo ${COMPREPLY[@]} > "
                      << answer << "\nCOMP_WORDS=(smelt run --top) COMP_CWORD=2; _smelt; echo ${COMPREPLY[@]} >> "
                      << answer << "\n";
  REQUIRE(std::system(("bash " + path).c_str()) == 0);
  std::ifstream in(answer);
  std::string commands, flags;
  std::getline(in, commands);
  std::getline(in, flags);
  CHECK(commands == "detokenize");
  CHECK(flags == "--top-k --top-p");
}

TEST_CASE("no line of the manual is taken for a request that it is not") {
  std::istringstream lines(script("man"));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || (line[0] != '.' && line[0] != '\'')) continue;
    const std::string request = line.substr(0, line.find(' '));
    CAPTURE(line);
    bool known = false;
    for (const char* r : {".TH", ".SH", ".SS", ".TP", ".PP", ".B", ".br", ".nf", ".fi"}) known = known || request == r;
    CHECK(known);
  }
}

TEST_CASE("a model that is not on this machine is not fetched unasked, and the answer says how to") {
  const Outcome run = smelt::test::smelt({"run", "-m", "user/repo:Q4_0", "-p", "Once"}, own_hub());
  CHECK(run.exit_code == 1);
  CHECK(contains(run.err, "smelt pull user/repo:Q4_0"));
  CHECK(contains(smelt::test::smelt({"show", "glm-4.7-flash"}, own_hub()).err, "not on this machine"));
  CHECK(smelt::test::smelt({"list"}, own_hub()).out.empty());
}

TEST_CASE("the name of a model on this machine works as its file does") {
  const std::string commit(40, 'a');
  const std::string folder = scratch().file("hub-home") + "/hub/models--user--tiny/snapshots/" + commit;
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(SMELT_SOURCE_DIR "/models/tiny-glm-Q4_K_M.gguf", folder + "/tiny-Q4_K_M.gguf");
  CHECK(contains(smelt::test::smelt({"list"}, own_hub()).out, "user/tiny:Q4_K_M"));
  CHECK(smelt::test::smelt({"list", "--names"}, own_hub()).out == "user/tiny:Q4_K_M\n");
  const Outcome expected = smelt::test::smelt({"tokenize", "Once upon"});
  CHECK(smelt::test::smelt({"tokenize", "-m", "user/tiny:Q4_K_M", "Once upon"}, own_hub()).out == expected.out);
  CHECK(smelt::test::smelt({"tokenize", "-hf", "user/tiny", "Once upon"}, own_hub()).out == expected.out);
  CHECK(contains(smelt::test::smelt({"show", "user/tiny"}, own_hub()).out, "15.4 M parameters"));
  const Outcome text = smelt::test::smelt({"user/tiny:Q4_K_M", "Once", "-n", "2", "--seed", "7", "-t", "1"}, own_hub());
  CHECK(text.out == smelt::test::smelt({"run", "-p", "Once", "-n", "2", "--seed", "7", "-t", "1"}).out);
  CHECK(contains(smelt::test::smelt({"rm", "user/tiny"}, own_hub()).out, "removed user/tiny, 9.53 MB"));
  CHECK(smelt::test::smelt({"list"}, own_hub()).out.empty());
}

TEST_CASE("cache shows what lies on the disk and clears what it is told to") {
  const std::string cache = scratch().file("cache-of-cache");
  std::filesystem::create_directories(cache + "/packs");
  std::ofstream(cache + "/packs/model-1.pack") << "1234";
  std::ofstream(cache + "/tuned.txt") << "12";
  const smelt::test::RunOptions options{.environment = {"SMELT_CACHE=" + cache}};
  const Outcome shown = smelt::test::smelt({"cache"}, options);
  CHECK(contains(shown.out, "packs         1 file"));
  CHECK(contains(shown.out, "tuned         1 file"));
  CHECK(contains(smelt::test::smelt({"cache", "--clear", "packs"}, options).out, "removed"));
  CHECK_FALSE(std::filesystem::exists(cache + "/packs/model-1.pack"));
  CHECK(std::filesystem::exists(cache + "/tuned.txt"));
  CHECK(smelt::test::smelt({"cache", "--clear", "everything"}, options).exit_code == 2);
}
