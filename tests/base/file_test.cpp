#include "base/file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <atomic>
#include <thread>

#include "base/dirs.h"
#include "base/options.h"
#include "support/temp_folder.h"

using namespace smelt;
using smelt::test::TempFolder;

namespace {

size_t files_in(const TempFolder& folder) {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) ++count;
  return count;
}

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.size()};
}

}  // namespace

TEST_CASE("a published file is read and mapped as it was written, and leaves nothing beside it") {
  TempFolder folder;
  const std::string path = folder / "entry";
  for (const std::string& contents : {std::string("first"), std::string(100000, 'x'), std::string()}) {
    REQUIRE(publish_file(path, contents).ok());
    CHECK(*read_file(path) == contents);
    auto map = MappedFile::open(path);
    REQUIRE(map.ok());
    CHECK(text_of(*map) == contents);
    CHECK(files_in(folder) == 1);
  }
}

TEST_CASE("a mapping keeps its bytes when it moves, and when its file is replaced") {
  TempFolder folder;
  REQUIRE(publish_file(folder / "a", "old").ok());
  auto opened = MappedFile::open(folder / "a");
  REQUIRE(opened.ok());
  MappedFile map = opened.take();
  REQUIRE(publish_file(folder / "a", "newer").ok());
  const std::byte* address = map.bytes().data();
  MappedFile moved = std::move(map);
  CHECK(moved.bytes().data() == address);
  CHECK(text_of(moved) == "old");
  CHECK(map.size() == 0);
}

TEST_CASE("what cannot be read is named") {
  TempFolder folder;
  CHECK(MappedFile::open(folder / "absent").error().message == "[file] " + (folder / "absent") +
                                                                   ": cannot open: No such file or directory; "
                                                                   "check the path and its permissions");
  CHECK(MappedFile::open(folder.path()).error().message.find("folder") != std::string::npos);
  CHECK(MappedFile::open("/dev/zero").error().message.find("regular") != std::string::npos);
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(MappedFile::open(folder / "pipe").error().message.find("regular") != std::string::npos);
  REQUIRE(publish_file(folder / "big", "12345").ok());
  CHECK(read_file(folder / "big", 5).ok());
  CHECK(!read_file(folder / "big", 4).ok());
}

TEST_CASE("publishing where it is not possible is an error and leaves nothing") {
  TempFolder folder;
  CHECK(!publish_file(folder / "absent/entry", "x").ok());
  REQUIRE(make_folders(folder / "taken/inside").ok());
  CHECK(!publish_file(folder / "taken", "x").ok());
  CHECK(files_in(folder) == 1);
}

TEST_CASE("readers see the old or the new contents while threads publish") {
  TempFolder folder;
  const std::string path = folder / "entry";
  REQUIRE(publish_file(path, std::string(5000, 'a')).ok());
  std::atomic<bool> failed = false;
  const auto publish = [&](char c) {
    for (int i = 0; i < 20; ++i) failed = failed || !publish_file(path, std::string(5000, c)).ok();
  };
  std::thread first(publish, 'b'), second(publish, 'c');
  for (int i = 0; i < 200; ++i) {
    auto text = read_file(path);
    REQUIRE(text.ok());
    CHECK(*text == std::string(5000, text->empty() ? '?' : (*text)[0]));
  }
  first.join();
  second.join();
  CHECK(!failed);
  CHECK(files_in(folder) == 1);
}

TEST_CASE("folders are made with their parents, once or again") {
  TempFolder folder;
  for (int i = 0; i < 2; ++i) CHECK(make_folders(folder / "a/b//c/").ok());
  CHECK(std::filesystem::is_directory(folder / "a/b/c"));
  REQUIRE(publish_file(folder / "file", "").ok());
  CHECK(!make_folders(folder / "file").ok());
  CHECK(!make_folders(folder / "file/inside").ok());
}

TEST_CASE("the cache folder follows SMELT_CACHE, then XDG_CACHE_HOME, then HOME") {
  TempFolder folder;
  ScopedOptions scope([&](Options& o) {
    o.cache = "";
    o.xdg_cache_home = folder / "xdg";
    o.home = folder / "home";
  });
  CHECK(*cache_folder() == (folder / "xdg/smelt"));
  {
    ScopedOptions relative([](Options& o) { o.xdg_cache_home = "relative"; });
    CHECK(*cache_folder() == (folder / "home/.cache/smelt"));
    CHECK(std::filesystem::is_directory(folder / "home/.cache/smelt"));
  }
  ScopedOptions own([&](Options& o) { o.cache = folder / "own"; });
  CHECK(*cache_folder() == (folder / "own"));
  ScopedOptions off([](Options& o) { o.cache = "off"; });
  CHECK(cache_folder()->empty());
}

TEST_CASE("a cache folder that others may write to is refused") {
  TempFolder folder;
  ScopedOptions scope([&](Options& o) { o.cache = folder / "shared"; });
  REQUIRE(cache_folder().ok());
  REQUIRE(::chmod((folder / "shared").c_str(), 0777) == 0);
  CHECK(cache_folder().error().message.find("other users may write") != std::string::npos);
}
