// What the program answers to wrong use and to files that are not as they should be.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "app/process.h"

using smelt::test::Outcome;
using smelt::test::scratch;

namespace {

using Arguments = std::vector<std::string>;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

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
  check_refused({"run", "--seed", "-2"}, 2, "-2");
  check_refused({"run", "-m", ""}, 2, "empty");
  check_refused({"run", "-t", "100000"}, 2, "100000");
  check_refused({"run", "--cache-type", "q4_0"}, 2, "q4_0");
  check_refused({"run", "-p", "Once", "-f", "file"}, 2, "--file");
  check_refused({"run", "--benchmark", "0"}, 2, "0");
  check_refused({"logits", "--ids", "1,x", "-o", "out"}, 2, "x");
  check_refused({"logits", "--ids", "1"}, 2, "--output");
  check_refused({"logits", "--ids", "1,,2", "-o", "out"}, 2, "between two commas");
  check_refused({"logits", "--ids", "", "-o", "out"}, 2, "--ids");
  check_refused({"inspect", "a.gguf", "b.gguf"}, 2, "b.gguf");
}

TEST_CASE("a policy for activations that does not exist is refused by name") {
  check_refused({"run", "--activations", "q3", "-p", "Once"}, 2, "'q3'");
}

TEST_CASE("what is misspelt is named, in the order it was typed, with the nearest that exists") {
  check_refused({"beench"}, 2, "did you mean `smelt bench`?");
  check_refused({"run", "--tempp", "1"}, 2, "there is no option --tempp; did you mean --temp?");
  check_refused({"bench", "one", "two"}, 2, "'one two'");
}

TEST_CASE("flags of other programs work, or the answer says what to do") {
  check_refused({"run", "-ngl", "99", "-p", "Once"}, 2, "-ngl: ");
  check_refused({"serve", "--metrics", "--port", "70000"}, 2, "--port: ");
  check_refused({"run", "-cnv"}, 2, "`smelt chat`");
  const Arguments ours = {"run", "-p", "Once", "--predict", "3", "--seed", "7", "--cache-type", "q8", "-t", "1"};
  const Arguments theirs = {"run", "-p", "Once", "--n-predict",       "3",           "-s", "7", "-ctk", "q8_0", "-fa",
                            "on",  "-b", "512",  "--temperature=0.8", "--no-warmup", "-t", "1"};
  const Outcome expected = smelt::test::smelt(ours), run = smelt::test::smelt(theirs);
  CAPTURE(run.err);
  CHECK(run.exit_code == 0);
  CHECK(run.out == expected.out);
  CHECK(smelt::test::smelt({"run", "-p", "Once", "-n", "9", "-n", "3", "--seed", "7", "-t", "1"}).out == expected.out);
}

TEST_CASE("a model and a prompt without flags are enough") {
  const std::string model = SMELT_SOURCE_DIR "/models/tiny-glm-Q4_K_M.gguf";
  const Arguments rest = {"-n", "3", "--seed", "7", "-t", "1"};
  const auto with_rest = [&](Arguments words) {
    words.insert(words.end(), rest.begin(), rest.end());
    return smelt::test::smelt(words);
  };
  const Outcome expected = with_rest({"run", "-m", model, "-p", "Once upon"});
  REQUIRE(expected.exit_code == 0);
  CHECK(with_rest({"run", model, "Once upon"}).out == expected.out);
  CHECK(with_rest({model, "Once upon"}).out == expected.out);
  CHECK(with_rest({"run", "Once upon"}).out == expected.out);
  check_refused({"run", "-p", "Once", "upon"}, 2, "second prompt");
}

TEST_CASE("a text that nobody takes ends with its first token") {
  const std::string figures = scratch().file("figures.txt");
  const std::string line = std::string(SMELT_BINARY) + " run -p Once -n 400 --ignore-eos -t 1 >/dev/full 2>" + figures;
  const int status = std::system(line.c_str());
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 1));
  std::ifstream file(figures);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  CHECK(text.find("is the disk full?") != std::string::npos);
  CHECK(text.find("decode") == std::string::npos);
}

TEST_CASE("output that is lost is an error") {
  for (const char* command : {"--help", "inspect", "cache"}) {
    CAPTURE(command);
    const std::string line = std::string(SMELT_BINARY) + " " + command + " >/dev/full 2>/dev/null";
    const int status = std::system(line.c_str());
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 1));
  }
}

TEST_CASE("DUMP that cannot be a folder is one sentence before the work") {
  const std::string file = scratch().file("not-a-folder");
  std::ofstream(file) << "x";
  const Outcome run =
      smelt::test::smelt({"run", "-p", "Once", "-n", "1", "-t", "1"}, {.environment = {"DUMP=" + file}});
  CHECK(run.exit_code == 1);
  CHECK(run.out.empty());
  CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
}

TEST_CASE("a cache folder that cannot be used is named once, and the work goes on") {
  const std::string file = scratch().file("no-cache");
  std::ofstream(file) << "x";
  const Outcome run =
      smelt::test::smelt({"run", "-p", "Once", "-n", "1", "-t", "1"}, {.environment = {"SMELT_CACHE=" + file}});
  CHECK(run.exit_code == 0);
  CHECK(contains(run.err, "nothing is kept for the next start: " + file));
}

TEST_CASE("help comes whatever the environment says") {
  const Outcome run = smelt::test::smelt({"--help"}, {.environment = {"DEBUG=true"}});
  CHECK(run.exit_code == 0);
}

TEST_CASE("a prompt may come through a pipe that is named as a file") {
  const Outcome run = smelt::test::smelt({"run", "-f", "-", "-n", "1", "-t", "1", "--echo"}, {.input = "Once upon"});
  CHECK(run.exit_code == 0);
  CHECK(run.out.starts_with("Once upon"));
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
  const Outcome run = smelt::test::smelt({"run", "-m", SMELT_SOURCE_DIR "/models/tiny-glm-Q4_K_M.gguf"});
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
  for (const char* command : {"run", "inspect", "tokenize", "detokenize", "logits", "perplexity", "imatrix", "quantize",
                              "bench", "replay", "pull", "list", "show", "rm", "cache"}) {
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

TEST_CASE("devices lists the processor with its bandwidth, and the GPUs or why there are none") {
  const Outcome run = smelt::test::smelt({"devices"});
  CHECK(run.exit_code == 0);
  CHECK(run.out.starts_with("cpu "));
  CHECK(contains(run.out, "GB/s"));
  CHECK(contains(run.out, "cuda:0") != contains(run.err, "smelt: [cuda] "));
}

TEST_CASE("a device that is not there is refused in one sentence") {
  check_refused({"run", "--device", "abacus"}, 2, "no device abacus; use auto, cpu, cuda, cuda:N, metal or metal-shim");
  check_refused({"run", "--device", "cuda:1000", "-p", "Once", "-n", "1"}, 1, "NVIDIA");
}
