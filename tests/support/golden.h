// Golden files: text that a test produces, kept in tests/golden. UPDATE_GOLDEN=1 rewrites them.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/options.h"

namespace smelt::test {

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// What changed between two texts: equal lines at both ends are left out, but for two of context.
inline std::string difference(const std::string& expected, const std::string& actual) {
  std::vector<std::string> a = lines_of(expected), b = lines_of(actual);
  size_t begin = 0, end = 0;
  while (begin < a.size() && begin < b.size() && a[begin] == b[begin]) ++begin;
  while (end < a.size() - begin && end < b.size() - begin && a[a.size() - 1 - end] == b[b.size() - 1 - end]) ++end;
  size_t context = begin < 2 ? begin : 2;
  std::string text = "line " + std::to_string(begin + 1) + ":\n";
  for (size_t i = begin - context; i < begin; ++i) text += "  " + a[i] + "\n";
  for (size_t i = begin; i < a.size() - end; ++i) text += "- " + a[i] + "\n";
  for (size_t i = begin; i < b.size() - end; ++i) text += "+ " + b[i] + "\n";
  for (size_t i = a.size() - end; i < a.size() && i < a.size() - end + 2; ++i) text += "  " + a[i] + "\n";
  return text;
}

// `name` is below tests/golden, such as "render/dot.ll". Empty if the file says the same.
inline std::string golden_difference(const std::string& actual, const std::string& name) {
  std::filesystem::path path = std::filesystem::path(SMELT_SOURCE_DIR) / "tests" / "golden" / name;
  if (options().update_golden) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << actual;
    return "";
  }
  std::ifstream file(path);
  if (!file) return "tests/golden/" + name + " is not there; run this test with UPDATE_GOLDEN=1 and review it";
  std::stringstream expected;
  expected << file.rdbuf();
  if (expected.str() == actual) return "";
  return "tests/golden/" + name + " differs (UPDATE_GOLDEN=1 rewrites it), " + difference(expected.str(), actual);
}

}  // namespace smelt::test

#define CHECK_GOLDEN(text, name) CHECK(::smelt::test::golden_difference((text), (name)) == "")
