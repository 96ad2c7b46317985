#include "base/output_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "base/line_diff.h"
#include "support/temp_folder.h"

using namespace smelt;
using smelt::test::TempFolder;

namespace {

Status write_output(const std::string& path, std::string_view contents) {
  SMELT_TRY(file, OutputFile::open(path));
  return file.write(contents);
}

}  // namespace

TEST_CASE("a new output file gets the mode that the user's umask leaves, an old one keeps its own") {
  const TempFolder folder;
  const mode_t before = ::umask(027);
  REQUIRE(write_output(folder / "new", "one").ok());
  ::umask(before);
  struct stat info;
  REQUIRE(::stat((folder / "new").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0640);
  ::chmod((folder / "new").c_str(), 0604);
  REQUIRE(write_output(folder / "new", "two").ok());
  REQUIRE(::stat((folder / "new").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0604);
  CHECK(*read_file(folder / "new") == "two");
}

TEST_CASE("an output file follows links, also one to a file that is not there yet") {
  const TempFolder folder;
  std::filesystem::create_symlink("target", folder / "link");
  REQUIRE(write_output(folder / "link", "text").ok());
  CHECK(std::filesystem::is_symlink(folder / "link"));
  CHECK(*read_file(folder / "target") == "text");
}

TEST_CASE("a device is written into and stays a device") {
  const TempFolder folder;
  std::filesystem::create_symlink("/dev/null", folder / "null");
  CHECK(write_output(folder / "null", "text").ok());
  CHECK(std::filesystem::is_character_file(folder / "null"));
  CHECK_FALSE(write_output("/dev/full", "text").ok());
  CHECK(std::filesystem::is_character_file("/dev/full"));
}

TEST_CASE("an output file that cannot be made is found before the work, and nothing is changed") {
  const TempFolder folder;
  CHECK_FALSE(OutputFile::open(folder / "no/file").ok());
  CHECK_FALSE(OutputFile::open(folder.path()).ok());
  CHECK_FALSE(OutputFile::open("").ok());
  REQUIRE(OutputFile::open(folder / "file").ok());
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("a difference of lines shows what went and what came, and counts the rest") {
  CHECK(line_diff("a\nb\nc\nd\n", "a\nb\nx\nd\n") == "  (2 lines as before)\n- c\n+ x\n  (1 line as before)\n");
  CHECK(line_diff("a\n", "a\n") == "  (1 line as before)\n");
  CHECK(line_diff("", "a\n") == "+ a\n");
  CHECK(line_diff("a\nb\nc\n", "b\nc\na\n") == "- a\n  (2 lines as before)\n+ a\n");
}
