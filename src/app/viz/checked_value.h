// A value of a document that is not trusted, and its place in it: what is asked of it and is not so is told with that
// place, "kernels[3].tree: 70 is no node; there are 12".
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace smelt {

// Thrown by checks, caught by check_recording().
struct WrongValue {
  std::string what;
};

// A value and its place in the document. Each question fails where the answer is no.
class CheckedValue {
 public:
  CheckedValue(const nlohmann::ordered_json& json, std::string at) : json_(json), at_(std::move(at)) {}

  [[noreturn]] void fail(const std::string& what) const;

  const nlohmann::ordered_json& json() const { return json_; }
  bool has(const char* key) const { return json_.is_object() && json_.contains(key); }
  CheckedValue operator[](const char* key) const;
  CheckedValue operator[](size_t i) const;

  void text() const;
  void flag() const;
  double number(double least, double most) const;
  void size() const;  // a number that a page holds exactly, from 0 on
  int64_t whole(int64_t least, int64_t most) const;
  // A number of `things`, such as "node", of which there are `count`.
  void index(size_t count, const char* thing) const;
  size_t list(size_t least, size_t most) const;
  void each(size_t most, const std::function<void(const CheckedValue&)>& check) const;

 private:
  const nlohmann::ordered_json& json_;
  const std::string at_;
};

constexpr double kLargestExact = 9007199254740992.0;  // whole numbers beyond are no longer exact in a page
constexpr size_t kMostItems = 1'000'000;              // of any list

}  // namespace smelt
