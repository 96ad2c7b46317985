#include "app/checks.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "runtime/target.h"

namespace smelt {
namespace {

constexpr int kMostThreads = 64, kMostThreadsOfACore = 8;

}  // namespace

Check whole_number(int64_t min, int64_t max) {
  return [=](const std::string& text) -> std::string {
    char* end = nullptr;
    errno = 0;
    const long long value = std::strtoll(text.c_str(), &end, 10);
    const bool is_number = !text.empty() && *end == '\0' && errno == 0;
    if (is_number && value >= min && value <= max) return {};
    return "'" + text + "' is not a whole number from " + std::to_string(min) + " to " + std::to_string(max);
  };
}

Check number(double min, double max) {
  return [=](const std::string& text) -> std::string {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (!text.empty() && *end == '\0' && value >= min && value <= max) return {};
    char bounds[64];
    std::snprintf(bounds, sizeof bounds, "%g to %g", min, max);
    return "'" + text + "' is not a number from " + bounds;
  };
}

Check not_empty() {
  return [](const std::string& text) -> std::string { return text.empty() ? "the name is empty" : ""; };
}

int most_threads() { return std::max(kMostThreads, kMostThreadsOfACore * thread_count(0)); }

Check thread_number() {
  return [](const std::string& text) -> std::string {
    const int cores = thread_count(0), most = most_threads();
    if (std::string wrong = whole_number(0, most)(text); !wrong.empty())
      return wrong + " (this program may use " + std::to_string(cores) + (cores == 1 ? " core)" : " cores)");
    return {};
  };
}

Check one_of(std::initializer_list<const char*> names) {
  return [list = std::vector<std::string>(names.begin(), names.end())](const std::string& text) -> std::string {
    std::string known;
    for (const std::string& name : list) {
      if (text == name) return {};
      known += (known.empty() ? "" : ", ") + name;
    }
    return "'" + text + "' is unknown; choose from: " + known;
  };
}

}  // namespace smelt
