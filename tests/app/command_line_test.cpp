// What the program answers to wrong use and to files that are not as they should be.
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "app/process.h"

using smelt::test::Outcome;
using smelt::test::scratch;

namespace {

using Arguments = std::vector<std::string>;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// One line `smelt: ...` that holds `part`; usage errors add where to find help. Nothing on standard output.
void check_refused(const Arguments& arguments, int exit_code, const std::string& part) {
  const Outcome run = smelt::test::smelt(arguments);
  CAPTURE(arguments.back());
  CAPTURE(run.err);
  CHECK(run.exit_code == exit_code);
  CHECK(run.out.empty());
  CHECK(run.err.starts_with("smelt: "));
  CHECK(contains(run.err, part));
  CHECK(contains(run.err, " --help`.") == (exit_code == 2));
}

}  // namespace

TEST_CASE("wrong use exits 2 and says what is wrong") {
  check_refused({"melt"}, 2, "melt");
  check_refused({"run", "--tempo", "1"}, 2, "--tempo");
  check_refused({"run", "-n", "many"}, 2, "many");
  check_refused({"run", "-n", "-2"}, 2, "-2");
  check_refused({"run", "-t", "-1"}, 2, "-1");
  check_refused({"run", "--temp", "nan"}, 2, "nan");
  check_refused({"run", "--top-p", "1.5"}, 2, "1.5");
  check_refused({"run", "--seed", "-1"}, 2, "-1");
  check_refused({"run", "--cache-type", "q4_0"}, 2, "q4_0");
  check_refused({"run", "-p", "Once", "-f", "file"}, 2, "--file");
  check_refused({"run", "--benchmark", "0"}, 2, "0");
  check_refused({"logits", "--ids", "1,x", "-o", "out"}, 2, "x");
  check_refused({"logits", "--ids", "1"}, 2, "--output");
  check_refused({"perplexity"}, 2, "--file");
  check_refused({"inspect"}, 2, "file");
}

TEST_CASE("a policy for activations that does not exist is refused by name") {
  check_refused({"run", "--activations", "q3", "-p", "Once"}, 2, "'q3'");
}

TEST_CASE("no command at all is a usage error") {
  const Outcome run = smelt::test::smelt({});
  CHECK(run.exit_code == 2);
  CHECK(contains(run.err, "smelt: "));
}

TEST_CASE("a wrong environment switch is a usage error that names it") {
  const Outcome run = smelt::test::smelt({"run", "-p", "Once"}, {.environment = {"DEBUG=9"}});
  CHECK(run.exit_code == 2);
  CHECK(contains(run.err, "DEBUG"));
}

TEST_CASE("files that cannot be read exit 1 and are named") {
  const std::string text = scratch().file("story.txt");
  std::ofstream(text) << "Once upon a time";
  check_refused({"run", "-m", "/nowhere/model.gguf", "-p", "Once"}, 1, "/nowhere/model.gguf");
  check_refused({"run", "-m", text, "-p", "Once"}, 1, "story.txt");
  check_refused({"run", "-f", "/nowhere/prompt.txt"}, 1, "/nowhere/prompt.txt");
  check_refused({"inspect", text}, 1, "story.txt");
  check_refused({"tokenize", "-m", text, "Once"}, 1, "story.txt");
  check_refused({"perplexity", "-f", text}, 1, "fewer than one chunk of 512");
  check_refused({"replay", text}, 1, "story.txt");
}

TEST_CASE("a model other than the embedded one needs a prompt") {
  const Outcome run =
      smelt::test::smelt({"run", "-m", SMELT_SOURCE_DIR "/models/tiny-glm-Q4_K_M.gguf"});
  CHECK(run.exit_code == 2);
  CHECK(contains(run.err, "no prompt"));
}

TEST_CASE("help fits a line of 100 columns and shows values as they are typed") {
  for (const char* command : {"run", "inspect", "tokenize", "logits", "bench", "profile", "tune"}) {
    const std::string help = smelt::test::smelt({command, "--help"}).out;
    std::istringstream options(help.substr(0, help.find("\n\nEx")));
    for (std::string line; std::getline(options, line);) {
      CAPTURE(line);
      CHECK((line.size() <= 100 || line[0] != ' '));
    }
    for (const char* noise : {"=[", "{", "} ", ",... ..."}) CHECK(!contains(help, noise));
  }
  const std::string bench = smelt::test::smelt({"bench", "--help"}).out;
  CHECK(contains(bench, "-p,--n-prompt N,...=512 "));
  CHECK(contains(bench, "moonlight-16b-a3b"));
  CHECK(!contains(smelt::test::smelt({"inspect", "--help"}).out, "DEBUG"));
}

TEST_CASE("help explains every command with examples, on standard output") {
  const Outcome help = smelt::test::smelt({"--help"});
  CHECK(help.exit_code == 0);
  CHECK(contains(help.out, "Examples:"));
  CHECK(contains(help.out, "DEBUG_KERNEL"));
  for (const char* command :
       {"run", "inspect", "tokenize", "logits", "perplexity", "bench", "replay"}) {
    CAPTURE(command);
    CHECK(contains(help.out, command));
    const Outcome own = smelt::test::smelt({command, "--help"});
    CHECK(own.exit_code == 0);
    CHECK(own.err.empty());
    CHECK(contains(own.out, "--help"));
  }
}

TEST_CASE("--version prints name and version") {
  const Outcome run = smelt::test::smelt({"--version"});
  CHECK(run.exit_code == 0);
  CHECK(run.out.starts_with("smelt "));
}
