// Files that appear whole or not at all, and what is left of those that do not.
#include "base/new_file.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "support/temp_folder.h"

using namespace smelt;
namespace fs = std::filesystem;

namespace {

size_t files_in(const std::string& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), {}));
}

std::string contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

NewFile begin(const std::string& path) {
  auto file = NewFile::create(path);
  REQUIRE(file.ok());
  REQUIRE(::write(file->fd(), "half", 4) == 4);
  return file.take();
}

// Leaves what a process leaves that is killed while it writes.
void die_writing(const std::string& path) {
  const pid_t child = ::fork();
  if (child == 0) {
    auto file = NewFile::create(path);
    ::raise(SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  REQUIRE(WIFSIGNALED(status));
}

}  // namespace

TEST_CASE("a new file has its name once it is published, and replaces an old one") {
  const test::TempFolder folder;
  const std::string path = folder / "a.pack";
  std::ofstream(path) << "old";
  {
    NewFile file = begin(path);
    CHECK(contents(path) == "old");
    REQUIRE(::write(file.fd(), " and half", 9) == 9);
    CHECK(file.publish().ok());
  }
  CHECK(contents(path) == "half and half");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("a file that is given up leaves nothing") {
  const test::TempFolder folder;
  {
    const NewFile file = begin(folder / "a.pack");
  }
  CHECK(files_in(folder.path()) == 0);
  CHECK_FALSE(NewFile::create(folder / "absent/a.pack").ok());
}

TEST_CASE("unfinished files can be removed while they are being written, and are then not published") {
  const test::TempFolder folder;
  NewFile file = begin(folder / "a.pack");
  remove_unfinished_files();
  CHECK(files_in(folder.path()) == 0);
  CHECK_FALSE(file.publish().ok());
  CHECK(files_in(folder.path()) == 0);
}

TEST_CASE("files of dead writers are removed, those of living ones and others stay") {
  const test::TempFolder folder;
  die_writing(folder / "dead.pack");
  die_writing(folder / "dead.other");
  CHECK(files_in(folder.path()) == 2);
  NewFile living = begin(folder / "living.pack");
  remove_abandoned_files(folder.path(), ".pack");
  CHECK(files_in(folder.path()) == 2);
  CHECK(living.publish().ok());
  CHECK(contents(folder / "living.pack") == "half");
}
