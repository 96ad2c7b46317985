#include "base/dirs.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/options.h"

namespace smelt {
namespace {

Result<std::string> wanted_folder() {
  const Options& o = options();
  if (!o.cache.empty()) return o.cache;
  // The XDG rules: a relative path is invalid and must be ignored.
  if (!o.xdg_cache_home.empty() && o.xdg_cache_home[0] == '/') return o.xdg_cache_home + "/smelt";
  if (!o.home.empty()) return o.home + "/.cache/smelt";
  return Error{"[cache] HOME: not set; set SMELT_CACHE to a folder, or to `off` for no cache"};
}

}  // namespace

Result<std::string> cache_folder() {
  if (options().cache == "off") return std::string();
  SMELT_TRY(path, wanted_folder());
  SMELT_CHECK(make_folders(path));
  SMELT_CHECK(check_own_folder(path, "[cache] "));
  return path;
}

Status check_own_folder(const std::string& path, const std::string& what) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return Error{what + path + ": cannot be examined; check its permissions"};
  if (info.st_uid != ::geteuid())
    return Error{what + path + ": belongs to another user; set SMELT_CACHE to a folder of yours"};
  if (info.st_mode & (S_IWGRP | S_IWOTH))
    return Error{what + path + ": other users may write to it; run chmod go-w on it"};
  return {};
}

}  // namespace smelt
