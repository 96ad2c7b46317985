#include "runtime/available_memory.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

namespace smelt {
namespace {

constexpr uint64_t kUnlimited = UINT64_MAX;

// The number of a file that is one number; "max" is none.
std::optional<uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

// The number after a word at the start of a line; 0 where the line is missing.
uint64_t read_field(const std::string& path, std::string_view wanted) {
  std::ifstream file(path);
  std::string word;
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    if (uint64_t value = 0; fields >> word >> value && word == wanted) return value;
  }
  return 0;
}

uint64_t machine_memory(const std::string& root) {
  const uint64_t kilobytes = read_field(root + "/proc/meminfo", "MemAvailable:");
  return kilobytes > 0 ? kilobytes << 10 : kUnlimited;
}

// The names of the two generations of control groups for the same things.
struct Names {
  const char *limit, *usage, *active, *inactive;
};
constexpr Names kVersion2 = {"/memory.max", "/memory.current", "active_file", "inactive_file"};
constexpr Names kVersion1 = {"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_active_file",
                             "total_inactive_file"};

// What one group leaves. Its page cache counts as free: the system drops it before it refuses memory.
uint64_t left_in(const std::string& folder, const Names& names) {
  const auto limit = read_number(folder + names.limit), usage = read_number(folder + names.usage);
  if (!limit || !usage) return kUnlimited;
  const std::string details = folder + "/memory.stat";
  const uint64_t cached = read_field(details, names.active) + read_field(details, names.inactive);
  const uint64_t used = *usage - std::min(*usage, cached);
  return *limit - std::min(*limit, used);
}

// A group and all groups around it. Within a container the path may be one of the host that is not there; the walk ends
// at the mount, which is then the container's own group.
uint64_t left_in_all(const std::string& mount, std::string path, const Names& names) {
  uint64_t left = left_in(mount, names);
  while (path.size() > 1 && path[0] == '/') {
    left = std::min(left, left_in(mount + path, names));
    path.resize(path.rfind('/'));
  }
  return left;
}

// /proc/self/cgroup has lines "NUMBER:CONTROLLERS:/path"; version 2 has number 0 and no controllers.
uint64_t group_memory(const std::string& root) {
  std::ifstream file(root + "/proc/self/cgroup");
  uint64_t left = kUnlimited;
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1), mount = root + "/sys/fs/cgroup";
    if (line.starts_with("0::"))
      left = std::min(left, left_in_all(mount, path, kVersion2));
    else if (controllers.find(",memory,") != std::string::npos)
      left = std::min(left, left_in_all(mount + "/memory", path, kVersion1));
  }
  return left;
}

// What a limit of this process's address space (ulimit -v) leaves of it: "Max address space  2048000000  ...".
uint64_t address_space(const std::string& root) {
  constexpr std::string_view kLine = "Max address space ";
  std::ifstream limits(root + "/proc/self/limits");
  for (std::string line; std::getline(limits, line);) {
    if (!line.starts_with(kLine)) continue;
    uint64_t limit = 0;
    if (!(std::istringstream(line.substr(kLine.size())) >> limit)) break;  // "unlimited"
    const uint64_t used = read_field(root + "/proc/self/status", "VmSize:") << 10;
    return limit - std::min(limit, used);
  }
  return kUnlimited;
}

}  // namespace

uint64_t available_memory(const std::string& root) {
  return std::min({machine_memory(root), group_memory(root), address_space(root)});
}

}  // namespace smelt
