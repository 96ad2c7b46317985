#include "base/file_watch.h"

#include <doctest/doctest.h>

#include <array>
#include <filesystem>

#include "base/file.h"
#include "support/temp_folder.h"

using namespace smelt;
using smelt::test::TempFolder;

namespace {

constexpr auto kAlways = std::chrono::milliseconds(0);

struct Case {
  TempFolder folder;
  const std::string path = folder / "model", other = folder / "other";
  std::array<FileWatch::File, 2> files;

  Case() {
    for (const std::string& file : {path, other}) REQUIRE(publish_file(file, "12345678").ok());
    files = {FileWatch::File{other, 8}, FileWatch::File{path, 8}};
  }
  // What is wrong with `path`.
  std::string problem(FileWatch& watch) const {
    const std::string sentence = watch.problem();
    if (sentence.empty()) return {};
    CHECK(sentence.starts_with(path + ": "));
    const size_t begin = path.size() + 2;
    return sentence.substr(begin, sentence.find(" while it was in use; ") - begin);
  }
};

}  // namespace

TEST_CASE("a file that is cut, changed or replaced is named, and one that is removed is not missed") {
  Case c;
  FileWatch watch(c.files, kAlways);
  CHECK(c.problem(watch) == "");
  const auto time = std::filesystem::last_write_time(c.path);
  std::filesystem::resize_file(c.path, 4);
  CHECK(c.problem(watch) == "became shorter");
  std::filesystem::resize_file(c.path, 8);
  std::filesystem::last_write_time(c.path, time + std::chrono::seconds(1));
  CHECK(c.problem(watch) == "was changed");
  std::filesystem::last_write_time(c.path, time);
  CHECK(c.problem(watch) == "");
  REQUIRE(publish_file(c.path, "12345678").ok());
  std::filesystem::last_write_time(c.path, time);
  CHECK(c.problem(watch) == "was replaced by another file");
  std::filesystem::remove(c.path);
  CHECK(c.problem(watch) == "");
}

TEST_CASE("a file that was cut before the watch began is named, too") {
  Case c;
  std::filesystem::resize_file(c.path, 4);
  FileWatch watch(c.files, kAlways);
  CHECK(c.problem(watch) == "became shorter");
}

TEST_CASE("files are looked at once in a while") {
  Case c;
  FileWatch watch(c.files, std::chrono::hours(1));
  CHECK(c.problem(watch) == "");
  std::filesystem::resize_file(c.path, 4);
  CHECK(c.problem(watch) == "");
}
