// What a download reads from outside: the journal of an earlier try, a server's list of files, names as typed. None of
// it crashes, and no name that passes leads out of a folder.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/ensure.h"
#include "hub/model_name.h"
#include "hub/piece_journal.h"
#include "hub/pull.h"

using namespace smelt;

namespace {

void check_safe(const std::string& path) {
  ENSURE(path.find("..") != 0 && path[0] != '/' && path.find("/.") == std::string::npos,
         "a path leads out of its folder");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  (void)PieceJournal::parse(text, 5 * kPieceBytes - 1, "sha256:x");
  if (const auto name = parse_model_name(text); name && !name->file.empty()) check_safe(name->file);
  if (const auto listing = parse_listing("user/repo", text)) {
    for (const RepoFile& file : listing->files) check_safe(file.path);
    (void)choose_files({.repo = "user/repo"}, listing->files);
  }
  return 0;
}
