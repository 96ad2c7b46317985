// Commands that write a file: never over one that they read.
#include "app/sources.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "app/process.h"
#include "base/file.h"
#include "support/gguf_writer.h"

using namespace smelt;
using namespace smelt::test;

namespace fs = std::filesystem;

namespace {

std::string synthetic_file() {
  const std::string path = scratch().file("read.gguf");
  const Outcome written = smelt::test::smelt({"bench", "--synthetic", "tiny-llama:q4_0:1", "--write", path});
  REQUIRE_MESSAGE(written.exit_code == 0, written.err);
  return path;
}

}  // namespace

TEST_CASE("every shard of a model is a source, also under the name of a link") {
  const auto path_of = [](int number) {
    return scratch().file("part-0000" + std::to_string(number) + "-of-00002.gguf");
  };
  for (uint16_t i = 0; i < 2; ++i) {
    GgufWriter w;
    w.u16("split.no", i).u16("split.count", 2).i32("split.tensors.count", 2);
    if (i == 0) w.string("general.architecture", "llama");
    REQUIRE(w.tensor("tensor." + std::to_string(i), {8}).save(path_of(i + 1)));
  }
  const std::string link = scratch().file("second.gguf");
  fs::create_symlink(path_of(2), link);
  const auto model = GgufFile::open(path_of(1));
  REQUIRE(model.ok());
  const std::vector<std::string> sources = files_of(*model);
  CHECK(sources == std::vector{path_of(1), path_of(2)});
  for (const std::string& output : {path_of(1), path_of(2), link})
    CHECK(!check_is_no_source("quantize", output, sources).ok());
  CHECK(check_is_no_source("quantize", scratch().file("new.gguf"), sources).ok());
  CHECK(check_is_no_source("quantize", SMELT_BINARY, sources).ok());  // there, and another file
}

TEST_CASE("no command writes its result over its model") {
  const std::string model = synthetic_file(), before = *read_file(model), text = scratch().file("text.txt");
  std::ofstream(text) << "these trees are those trees, and those trees are these trees";
  const std::vector<std::vector<std::string>> commands = {
      {"imatrix", "-f", text, "--chunk", "8", "-o"},
      {"logits", "--ids", "1,2", "-o"},
      {"perplexity", "-f", text, "--chunk", "8", "--save-logits"},
      {"tune", "--json"},
      {"profile", "-n", "1", "--json"},
      {"profile", "-n", "1", "--trace"},
      {"chat", "Hi", "-n", "1", "--save"},
      {"viz", "-n", "1", "--prompt-tokens", "0", "--json"},
      {"viz", "-n", "1", "--prompt-tokens", "0", "--out"},
  };
  for (std::vector<std::string> arguments : commands) {
    arguments.insert(arguments.end(), {model, "-m", model});
    CAPTURE(arguments[0]);
    const Outcome done = smelt::test::smelt(on_one_thread(arguments));
    CHECK(done.exit_code == 1);
    CHECK_MESSAGE(done.err.find(model + ": this file is read; name another one") != std::string::npos, done.err);
    CHECK(*read_file(model) == before);
  }
  const Outcome saved =
      smelt::test::smelt(on_one_thread({"perplexity", "-m", model, "-f", text, "--chunk", "8", "--save-logits", text}));
  CHECK(saved.err.find(text + ": this file is read") != std::string::npos);
  CHECK(smelt::test::smelt({"bench", "-m", model, "--synthetic", "tiny-llama:q4_0:1", "--write", model}).exit_code ==
        2);
  CHECK(*read_file(model) == before);
}
