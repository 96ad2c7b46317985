#include "app/checks.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace smelt {
namespace {

constexpr const char* kNothingInHelp = "";

}  // namespace

CLI::Validator whole_number(int64_t min, int64_t max) {
  const auto check = [=](const std::string& text) -> std::string {
    char* end = nullptr;
    errno = 0;
    const long long value = std::strtoll(text.c_str(), &end, 10);
    const bool is_number = !text.empty() && *end == '\0' && errno == 0;
    if (is_number && value >= min && value <= max) return {};
    return "'" + text + "' is not a whole number from " + std::to_string(min) + " to " + std::to_string(max);
  };
  return {check, kNothingInHelp};
}

CLI::Validator number(double min, double max) {
  const auto check = [=](const std::string& text) -> std::string {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (!text.empty() && *end == '\0' && value >= min && value <= max) return {};
    char bounds[64];
    std::snprintf(bounds, sizeof bounds, "%g to %g", min, max);
    return "'" + text + "' is not a number from " + bounds;
  };
  return {check, kNothingInHelp};
}

CLI::Validator one_of(std::initializer_list<const char*> names) {
  const auto check = [list = std::vector<std::string>(names.begin(), names.end())](const std::string& text) -> std::string {
    std::string known;
    for (const std::string& name : list) {
      if (text == name) return {};
      known += (known.empty() ? "" : ", ") + name;
    }
    return "'" + text + "' is unknown; choose from: " + known;
  };
  return {check, kNothingInHelp};
}

}  // namespace smelt
