#include "app/printing.h"

#include <unistd.h>

#include <cstdio>

#include "base/file.h"

namespace smelt {
namespace {

bool failed = false;

}  // namespace

bool print_now(std::string_view text) {
  if (failed) return false;
  failed = std::fflush(stdout) != 0 || write_all(STDOUT_FILENO, text) != 0;
  return !failed;
}

Status all_printed() {
  if (!failed) return {};
  return Error{"[output] standard output cannot be written; is the disk full?"};
}

}  // namespace smelt
