#include "app/input.h"

#include <unistd.h>

#include "base/file.h"

namespace smelt {

Result<std::string> piped_text() {
  if (::isatty(STDIN_FILENO)) return std::string();
  return read_stream("-");
}

}  // namespace smelt
