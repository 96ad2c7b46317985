// Packed weights on disk: read back as they were written, and never believed when they should not be.
#include "engine/pack_cache.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/progress.h"
#include "engine/packed_weights.h"
#include "runtime/devices.h"
#include "support/temp_folder.h"

using namespace smelt;
namespace fs = std::filesystem;

namespace {

constexpr const char* kModel = SMELT_SOURCE_DIR "/models/tiny-glm-Q4_K_M.gguf";
const LoadOptions kTwoThreads = {.threads = 2};

WantedLayouts layouts(const GgufFile& file, int interleave) {
  WantedLayouts all;
  for (const GgufTensor& t : file.tensors()) {
    const bool fits = can_interleave(t.type, static_cast<int64_t>(t.rows()), interleave);
    all.insert({std::string(t.name), {.interleave = fits ? interleave : 1}});
  }
  return all;
}

// A copy of the small model, its plan and its packed weights.
struct Model {
  explicit Model(const test::TempFolder& folder, int interleave = 8, const char* name = "model.gguf")
      : path(folder / name), packs(folder / "packs") {
    if (!fs::exists(path)) fs::copy_file(kModel, path);
    file = std::make_unique<GgufFile>(GgufFile::open(path).take());
    plan = PackPlan::make(*file, layouts(*file, interleave));
    weights = PackedWeights::pack(plan, kTwoThreads, *device).take();
  }
  PackCache cache() const { return PackCache::open(*file, plan, packs).take(); }
  size_t files() const { return static_cast<size_t>(std::distance(fs::directory_iterator(packs), {})); }
  std::string path, packs;
  std::shared_ptr<Device> device = shared_device({.threads = 1, .use_cache = false}).take();
  std::unique_ptr<GgufFile> file;
  PackPlan plan;
  PackedWeights weights;
};

// What load() says about a pack that it drops; empty where it finds none.
std::string why_dropped(const Model& model) {
  std::string problem;
  CHECK_FALSE(model.cache().load(kTwoThreads, problem));
  CHECK_FALSE(fs::exists(model.cache().path()));
  return problem;
}

void flip_byte(const std::string& path, uint64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(byte ^ 0x10));
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Written a minute later: the clock of a file system may be a coarse one.
void touch(const std::string& path) { fs::last_write_time(path, fs::last_write_time(path) + std::chrono::minutes(1)); }

// Runs `f` in a process of its own; true if it returned true.
template <class F>
bool in_a_process(const F& f) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(f() ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

TEST_CASE("a pack is read as it was written, and its weights are found by name") {
  const test::TempFolder folder;
  const Model model(folder);
  std::string problem;
  CHECK_FALSE(model.cache().load(kTwoThreads, problem));
  CHECK(problem.empty());
  REQUIRE(model.cache().store(model.weights.bytes(), kTwoThreads).ok());
  CHECK(model.files() == 1);
  CHECK(fs::path(model.cache().path()).filename().string().starts_with("model-"));
  double last = 0;
  auto kept = model.cache().load({.threads = 1, .progress = [&](double fraction) { last = fraction; }}, problem);
  REQUIRE(kept);
  CHECK(problem.empty());
  CHECK(last == 1.0);
  const PackedWeights mapped = PackedWeights::mapped(model.plan, std::move(*kept));
  REQUIRE(mapped.bytes().size() == model.weights.bytes().size());
  CHECK(std::memcmp(mapped.bytes().data(), model.weights.bytes().data(), mapped.bytes().size()) == 0);
  for (const PackedTensor& t : model.plan.tensors) {
    const std::string name(t.tensor->name);
    CHECK(mapped.find(name, t.layout) - mapped.bytes().data() ==
          model.weights.find(name, t.layout) - model.weights.bytes().data());
  }
}

TEST_CASE("a byte that is wrong anywhere in a pack is noticed, and the pack is dropped") {
  const test::TempFolder folder;
  const Model model(folder);
  const auto weights = static_cast<uint64_t>(model.plan.bytes);
  for (uint64_t from_end : {uint64_t{1}, weights / 2, weights}) {
    REQUIRE(model.cache().store(model.weights.bytes(), kTwoThreads).ok());
    flip_byte(model.cache().path(), fs::file_size(model.cache().path()) - from_end);
    CHECK(contains(why_dropped(model), ": damaged; the model is packed anew"));
  }
  for (uint64_t at : {0, 8, 12, 16, 24, 32, 40, 100}) {
    REQUIRE(model.cache().store(model.weights.bytes(), kTwoThreads).ok());
    flip_byte(model.cache().path(), at);
    CAPTURE(at);
    CHECK(contains(why_dropped(model), ": damaged; the model is packed anew"));
  }
}

TEST_CASE("a pack that was cut off, is empty or no pack at all is dropped") {
  const test::TempFolder folder;
  const Model model(folder);
  for (uint64_t size : {uint64_t{0}, uint64_t{20}, uint64_t{5000}, static_cast<uint64_t>(model.plan.bytes)}) {
    REQUIRE(model.cache().store(model.weights.bytes(), kTwoThreads).ok());
    fs::resize_file(model.cache().path(), size);
    CHECK(contains(why_dropped(model), "damaged"));
  }
  std::ofstream(model.cache().path()) << std::string(100000, 'x');
  ::chmod(model.cache().path().c_str(), 0600);
  CHECK(contains(why_dropped(model), "damaged"));
}

TEST_CASE("a pack of a file that has changed is dropped") {
  const test::TempFolder folder;
  {
    const Model model(folder);
    REQUIRE(model.cache().store(model.weights.bytes(), kTwoThreads).ok());
  }
  touch(folder / "model.gguf");
  CHECK(contains(why_dropped(Model(folder)), "made from an older model file"));
}

TEST_CASE("a pack that others could have written is not believed") {
  const test::TempFolder folder;
  const Model model(folder);
  REQUIRE(model.cache().store(model.weights.bytes(), kTwoThreads).ok());
  ::chmod(model.cache().path().c_str(), 0666);
  CHECK(contains(why_dropped(model), "others could have written it"));
}

TEST_CASE("each layout has a pack of its own") {
  const test::TempFolder folder;
  const Model eight(folder, 8), four(folder, 4);
  CHECK(eight.cache().path() != four.cache().path());
  REQUIRE(eight.cache().store(eight.weights.bytes(), kTwoThreads).ok());
  REQUIRE(four.cache().store(four.weights.bytes(), kTwoThreads).ok());
  CHECK(eight.files() == 2);
  std::string problem;
  CHECK(eight.cache().load(kTwoThreads, problem));
  CHECK(four.cache().load(kTwoThreads, problem));
}

TEST_CASE("writing a pack removes those of models that have changed or are gone, and leftovers") {
  const test::TempFolder folder;
  const Model model(folder), other(folder, 4);
  REQUIRE(other.cache().store(other.weights.bytes(), kTwoThreads).ok());
  std::ofstream(folder / "packs/killed.pack.tmp-1-0") << "half";
  std::ofstream(folder / "packs/notes.txt") << "mine";
  touch(model.path);
  const Model again(folder);
  REQUIRE(again.cache().store(again.weights.bytes(), kTwoThreads).ok());
  CHECK(fs::exists(again.cache().path()));
  CHECK(fs::exists(folder / "packs/notes.txt"));
  CHECK(model.files() == 2);
}

TEST_CASE("packs of a disk that is not mounted now are kept") {
  const test::TempFolder folder;
  fs::create_directories(folder / "disk");
  const Model there(folder, 8, "disk/model.gguf"), here(folder);
  REQUIRE(there.cache().store(there.weights.bytes(), kTwoThreads).ok());
  const std::string pack = there.cache().path();
  const auto is_kept = [&] {
    REQUIRE(here.cache().store(here.weights.bytes(), kTwoThreads).ok());
    return fs::exists(pack);
  };
  fs::rename(folder / "disk", folder / "elsewhere");
  CHECK(is_kept());
  fs::create_directories(folder / "disk");  // where it is mounted at other times
  CHECK(is_kept());
  std::ofstream(folder / "disk/other.gguf") << "the disk is there, the model is not";
  CHECK_FALSE(is_kept());
}

TEST_CASE("a folder of packs that others may write to is refused") {
  const test::TempFolder folder;
  const Model model(folder);
  fs::create_directories(model.packs);
  fs::permissions(model.packs, fs::perms::all);
  const auto refused = PackCache::open(*model.file, model.plan, model.packs);
  REQUIRE(!refused.ok());
  CHECK(contains(refused.error().message, model.packs + ": other users may write to it"));
}

TEST_CASE("a process that is killed while it writes leaves no pack, and the next one cleans up") {
  const test::TempFolder folder;
  const Model model(folder);
  const PackCache cache = model.cache();
  CHECK_FALSE(in_a_process([&] {
    // The first report comes in the middle of the writing.
    (void)cache.store(model.weights.bytes(), {.progress = [](double) { ::raise(SIGKILL); }});
    return true;
  }));
  CHECK_FALSE(fs::exists(cache.path()));
  CHECK(model.files() == 1);  // the temporary file
  REQUIRE(cache.store(model.weights.bytes(), kTwoThreads).ok());
  CHECK(model.files() == 1);
  std::string problem;
  CHECK(cache.load(kTwoThreads, problem));
}

TEST_CASE("a cancelled or failed write leaves nothing") {
  const test::TempFolder folder;
  const Model model(folder);
  std::atomic<bool> cancel = false;
  const Status stopped =
      model.cache().store(model.weights.bytes(), {.progress = [&](double) { cancel = true; }, .cancel = &cancel});
  REQUIRE_FALSE(stopped.ok());
  CHECK(model.files() == 0);
  // As on a full disk: the file may not grow beyond a megabyte.
  CHECK(in_a_process([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {1 << 20, 1 << 20};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const Status status = model.cache().store(model.weights.bytes(), kTwoThreads);
    return !status && contains(status.error().message, ".pack: cannot be written: ");
  }));
  CHECK(model.files() == 0);
}

TEST_CASE("a disk without the space is told about with both sizes before anything is written") {
  const test::TempFolder folder;
  const Model model(folder);
  constexpr size_t kHuge = size_t{1} << 50;  // only said to be there: nobody reads before the refusal
  const Status status = model.cache().store({model.weights.bytes().data(), kHuge}, kTwoThreads);
  REQUIRE_FALSE(status.ok());
  CHECK(contains(status.error().message, bytes_text(kHuge) + " are needed, "));
  CHECK(contains(status.error().message, " are free on this disk; "));
  CHECK(model.files() == 0);
}

TEST_CASE("a model that is no file has no pack") {
  const test::TempFolder folder;
  const Model model(folder);
  const GgufFile memory = GgufFile::open_memory(model.file->shards()[0].bytes).take();
  const auto cache = PackCache::open(memory, PackPlan::make(memory, layouts(memory, 8)), model.packs);
  REQUIRE_FALSE(cache.ok());
  CHECK(contains(cache.error().message, "not a file, so nothing is kept"));
}
