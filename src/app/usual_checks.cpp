#include "app/usual_checks.h"

#include <cstdio>

#include "base/dirs.h"
#include "base/file.h"
#include "base/new_file.h"
#include "base/options.h"

namespace smelt {
namespace {

Status check_writable(const std::string& folder) {
  SMELT_CHECK(make_folders(folder));
  const auto tried = NewFile::create(folder + "/test");
  return tried ? Status() : Status(tried.error());
}

}  // namespace

Status check_switches() {
  const std::string& dump = options().dump;
  if (dump.empty()) return {};
  if (const Status usable = check_writable(dump); !usable) return Error{"DUMP: " + without_tag(usable.error().message)};
  return {};
}

void note_idle_switches() {
  const Options& o = options();
  const bool asked = !o.debug_kernel.empty() && (o.debug > 0 || !o.dump.empty());
  if (asked && !debug_kernel_was_met())
    std::fprintf(stderr, "smelt: DEBUG_KERNEL=%s: no kernel that was compiled has this in its name\n",
                 o.debug_kernel.c_str());
}

void note_unusable_cache() {
  static bool said = false;
  if (std::exchange(said, true)) return;
  const auto folder = cache_folder();
  if (folder && folder->empty()) return;  // none is wanted
  const Status usable = folder ? check_writable(*folder) : Status(folder.error());
  if (!usable)
    std::fprintf(stderr, "smelt: nothing is kept for the next start: %s\n",
                 without_tag(usable.error().message).c_str());
}

std::string without_tag(const std::string& message) {
  const size_t end = message.find("] ");
  if (message.empty() || message[0] != '[' || end == std::string::npos || end > 24) return message;
  return message.substr(end + 2);
}

}  // namespace smelt
