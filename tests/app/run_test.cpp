// `smelt run` from outside, with the embedded model.
#include <doctest/doctest.h>

#include <fstream>

#include "app/process.h"

using namespace smelt::test;

namespace {

using Arguments = std::vector<std::string>;

// What the independent reference implementation writes after "Once" from the same file (models/README.md).
const std::string kAfterOnce =
    " upon a time, there was a little girl named Lily. She loved to play outside in the sun with "
    "her friends. One day, "
    "she found a big, red ball in the park. She was very happy and wanted to play with it\n";

// With exact numbers, as the reference has them.
Outcome greedy(Arguments more, const RunOptions& options = {}) {
  Arguments arguments = {"run", "--temp", "0", "--activations", "f32", "--cache-type", "f32"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return smelt::test::smelt(on_one_thread(arguments), options);
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("greedy text of the embedded model is the reference's, on any number of threads" *
          doctest::test_suite("threads")) {
  for (const char* threads : {"1", "2"}) {
    const Outcome run = greedy({"-p", "Once", "-n", "48", "-t", threads});
    CHECK(run.exit_code == 0);
    CHECK(run.out == kAfterOnce);
  }
}

TEST_CASE("figures go to standard error: load, prompt, decode, kernels, bytes") {
  const Outcome run = greedy({"-p", "Once upon", "-n", "4"});
  for (const char* part :
       {"load ", "compile ", "prompt 2 tokens", "decode 3 tokens", " tok/s", " kernels and ", " a token", " GB/s"}) {
    CAPTURE(part);
    CHECK(contains(run.err, part));
  }
}

TEST_CASE("a second run finds its kernels in the cache") {
  greedy({"-p", "Once", "-n", "1"});
  const Outcome again = greedy({"-p", "Once", "-n", "1"});
  CHECK(contains(again.err, "(0 kernels compiled, "));
  CHECK_FALSE(contains(again.err, " 0 from the cache"));
}

TEST_CASE("the prompt may come from a file or from standard input, without its last newline") {
  const std::string path = scratch().file("prompt.txt");
  std::ofstream(path) << "Once\n";
  CHECK(greedy({"-f", path, "-n", "48"}).out == kAfterOnce);
  CHECK(greedy({"-n", "48"}, {.input = "Once\n"}).out == kAfterOnce);
}

TEST_CASE("without any prompt the embedded model begins a story by itself") {
  const Outcome run = greedy({"-n", "8"});
  CHECK(run.exit_code == 0);
  CHECK(run.out.starts_with("Once upon a time"));
  CHECK(run.out.size() > 20);
}

TEST_CASE("--echo prints the prompt first") {
  CHECK(greedy({"--echo", "-p", "Once", "-n", "48"}).out == "Once" + kAfterOnce);
}

TEST_CASE("a seed gives the same text again, another seed another text") {
  const auto text = [](const char* seed) {
    return smelt::test::smelt({"run", "-p", "Once upon a time", "-n", "24", "--temp", "1", "--seed", seed}).out;
  };
  CHECK(text("1") == text("1"));
  CHECK(text("1") != text("2"));
}

TEST_CASE("a stop token ends the text, and --ignore-eos goes on") {
  // The dog story of the training format ends well before 400 tokens.
  const Arguments story = {"-p", "[gMASK]<sop><|user|>Tell me a story about a dog.<|assistant|></think>", "-n", "400"};
  const Outcome stops = greedy(story);
  CHECK(stops.exit_code == 0);
  Arguments more = story;
  more.push_back("--ignore-eos");
  const Outcome goes_on = greedy(more);
  CHECK(contains(goes_on.err, "decode 399 tokens"));
  CHECK(goes_on.out.size() > stops.out.size());
}

TEST_CASE("the context fills up to its last token, and no further") {
  const Outcome run = greedy({"-p", "Once", "-c", "16", "-n", "-1", "--ignore-eos"});
  CHECK(run.exit_code == 0);
  CHECK(contains(run.err, "stopped: the context is full"));
  CHECK(contains(run.err, "decode 15 tokens"));
  CHECK(kAfterOnce.starts_with(run.out.substr(0, run.out.size() - 1)));
}

TEST_CASE("a prompt as long as the context gets one token, a longer one is refused by name") {
  std::string words = "Once";
  for (int i = 1; i < 8; ++i) words += " the";
  CHECK(contains(greedy({"-p", words, "-c", "8", "-n", "5"}).err, "prompt 8 tokens"));
  const Outcome refused = greedy({"-p", words + " the", "-c", "8"});
  CHECK(refused.exit_code == 1);
  CHECK(refused.out.empty());
  CHECK(contains(refused.err, "smelt: prompt: its 9 tokens do not fit a context of 8"));
}

TEST_CASE("Ctrl-C stops, prints the figures and exits 130") {
  // As many tokens as fit, which take seconds: whoever presses may be slow.
  const Outcome run = greedy({"-p", "Once", "-c", "8192", "-n", "-1", "--ignore-eos"}, {.interrupt_after = 60});
  CHECK(run.exit_code == 130);
  CHECK(contains(run.err, "stopped: interrupted"));
  CHECK(contains(run.err, "decode "));
  CHECK(run.out.ends_with("\n"));
}

TEST_CASE("--benchmark prints speeds and no text") {
  for (const Arguments& flags : {Arguments{"--benchmark", "8"}, Arguments{"--benchmark"}}) {
    Arguments arguments = {"run"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Outcome run = smelt::test::smelt(on_one_thread(arguments));
    CHECK(run.exit_code == 0);
    CHECK(contains(run.out, "load "));
    CHECK(contains(run.out, flags.size() == 2 ? "decode 8 tokens, median " : "decode 128 tokens, median "));
    CHECK((run.err.empty() || run.err.starts_with("smelt: [target]")));
  }
}

TEST_CASE("caches in half precision and in bytes write a story too") {
  for (const char* kind : {"f16", "q8"}) {
    const Outcome run =
        smelt::test::smelt(on_one_thread({"run", "--temp", "0", "-p", "Once", "-n", "12", "--cache-type", kind}));
    CHECK(run.exit_code == 0);
    CHECK(run.out.starts_with(" upon a time, there was"));
  }
}
