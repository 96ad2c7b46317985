// What computes without --device: a GPU where there is one and the model fits. The GPU is not there: its driver
// answers, and its kernels do nothing.
#include <doctest/doctest.h>

#include <fstream>

#include "app/process.h"

using namespace smelt::test;

namespace {

Outcome on_fake_gpu(const std::vector<std::string>& arguments, std::vector<std::string> environment = {}) {
  environment.push_back("LD_LIBRARY_PATH=" FAKE_CUDA_FOLDER);
  return smelt::test::smelt(on_one_thread(arguments), {.environment = std::move(environment)});
}

const std::vector<std::string> kStory = {"run", "-p", "Once", "-n", "8", "--temp", "0", "--cache-type", "f16"};

std::vector<std::string> with(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string on_the_processor() {
  const Outcome told = on_fake_gpu(with(kStory, {"--device", "cpu"}));
  REQUIRE(told.exit_code == 0);
  return told.out;
}

}  // namespace

TEST_CASE("a model that does not fit a GPU runs on the processor, and a sentence says so") {
  const Outcome story = on_fake_gpu(kStory, {"FAKE_CUDA_MEMORY=4194304"});
  REQUIRE(story.exit_code == 0);
  CHECK(contains(story.err, " of memory of cuda:0 are needed, "));
  CHECK(contains(story.err, "; so the processor computes"));
  CHECK(story.out == on_the_processor());
}

TEST_CASE("a GPU that is asked for and too small is an error that says what would help") {
  const Outcome story = on_fake_gpu(with(kStory, {"--device", "cuda"}), {"FAKE_CUDA_MEMORY=4194304"});
  CHECK(story.exit_code == 1);
  CHECK(contains(story.err, "use --device cpu, or a file with fewer bits a weight"));
  CHECK(story.out.empty());
}

TEST_CASE("a GPU that smelt has no kernels for is left alone") {
  const Outcome story = on_fake_gpu(kStory, {"FAKE_CUDA_MAJOR=6"});
  REQUIRE(story.exit_code == 0);
  CHECK(contains(story.err, "; so the processor computes"));
  CHECK(story.out == on_the_processor());
}

TEST_SUITE("long") {
  TEST_CASE("a GPU with enough memory computes") {
    const std::string path = scratch().file("logits.bin");
    const Outcome done = on_fake_gpu({"logits", "--ids", "1,2", "-o", path});
    REQUIRE(done.exit_code == 0);
    CHECK_FALSE(contains(done.err, "so the processor computes"));
    std::ifstream file(path, std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    CHECK(bytes.size() >= 4096);
    CHECK(bytes == std::string(bytes.size(), '\0'));  // nothing has written them
  }
}
