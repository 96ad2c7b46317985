// Opening a model from outside: packs on disk, and Ctrl-C before the first token.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "app/process.h"

using namespace smelt::test;
namespace fs = std::filesystem;

namespace {

constexpr const char* kModel = SMELT_SOURCE_DIR "/models/tiny-glm-Q4_K_M.gguf";

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Outcome write_story(const std::string& model, const std::vector<std::string>& more, const RunOptions& options = {}) {
  std::vector<std::string> arguments = {"run", "-m", model, "-p", "Once", "-n", "8", "--temp", "0"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return smelt::test::smelt(on_one_thread(arguments), options);
}

// A cache of its own for a test; kernels are compiled anew in it.
std::string cache(const std::string& name) { return "SMELT_CACHE=" + scratch().file(name); }

// Every file below a folder.
std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> files;
  if (fs::exists(folder))
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      if (entry.is_regular_file()) files.push_back(entry.path().filename().string());
  return files;
}

// A first file may be there before its content, or only to try whether the folder can be written.
bool keeps_a_file(const std::string& folder) {
  const std::vector<std::string> files = files_in(folder);
  return std::any_of(files.begin(), files.end(), [](const std::string& file) { return !contains(file, ".tmp-"); });
}

}  // namespace

TEST_CASE("--pack-cache keeps the packed weights, and the next start maps them for the same text") {
  const RunOptions options = {.environment = {cache("packs")}};
  const Outcome plain = write_story(kModel, {}, options);
  const Outcome first = write_story(kModel, {"--pack-cache"}, options);
  const Outcome second = write_story(kModel, {"--pack-cache"}, options);
  CHECK(first.exit_code == 0);
  CHECK(contains(first.err, "smelt: [pack cache] wrote "));
  CHECK(contains(second.err, "smelt: [pack cache] mapped " + scratch().file("packs") + "/packs/"));
  CHECK(first.out == plain.out);
  CHECK(second.out == plain.out);
}

TEST_CASE("a pack that is damaged is dropped with one line, and the text is the same") {
  const RunOptions options = {.environment = {cache("damaged")}};
  const Outcome first = write_story(kModel, {"--pack-cache"}, options);
  const auto pack = *fs::directory_iterator(scratch().file("damaged") + "/packs");
  std::fstream file(pack.path(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1000, std::ios::end);
  file.write("damaged", 7);
  file.close();
  const Outcome again = write_story(kModel, {"--pack-cache"}, options);
  CHECK(again.exit_code == 0);
  CHECK(again.out == first.out);
  CHECK(contains(again.err, ".pack: damaged; the model is packed anew\n"));
  CHECK(contains(again.err, "smelt: [pack cache] wrote "));
}

TEST_CASE("where a pack cannot be kept, one line says so and the run goes on") {
  const Outcome off = write_story(kModel, {"--pack-cache"}, {.environment = {"SMELT_CACHE=off"}});
  CHECK(off.exit_code == 0);
  CHECK(contains(off.err, "SMELT_CACHE is off, so nothing is kept"));
  const Outcome embedded = smelt::test::smelt({"run", "-p", "Once", "-n", "4", "--temp", "0", "--pack-cache"});
  CHECK(embedded.exit_code == 0);
  CHECK(contains(embedded.err, "embedded model: not a file, so nothing is kept"));
  const Outcome in_place = write_story(kModel, {"--pack-cache", "--no-repack"});
  CHECK(in_place.exit_code == 0);
  CHECK(contains(in_place.err, "nothing is packed with --no-repack, so nothing is kept"));
}

TEST_CASE("Ctrl-C while a model opens says how far it came, exits 130 and leaves nothing unfinished") {
  // When its first kernels have been kept, it is compiling the others. On a machine so busy that we look too late, it
  // was quicker: then again.
  bool stopped = false;
  for (int attempt = 0; attempt < 20 && !stopped; ++attempt) {
    const std::string folder = "interrupted" + std::to_string(attempt);
    const auto is_compiling = [&] { return keeps_a_file(scratch().file(folder)); };
    const Outcome run =
        write_story(kModel, {"--pack-cache"}, {.environment = {cache(folder)}, .interrupt_when = is_compiling});
    stopped = run.exit_code == 130 && run.out.empty();
    if (!stopped) continue;
    CAPTURE(run.err);
    CHECK(contains(run.err, "stopped: interrupted while "));
    for (const std::string& file : files_in(scratch().file(folder))) CHECK_FALSE(contains(file, ".tmp-"));
  }
  CHECK(stopped);
}
