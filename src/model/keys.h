// Reading the numbers of a model from the metadata, each held to a range, and writing them for files that are made up.
// Errors name the key and its value:
//   [model] llama.rope.dimension_count: 33 is odd; rotation works on pairs
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gguf/gguf.h"

namespace smelt {

constexpr int64_t kMostWidth = 1 << 20;    // of any axis that a token's values have
constexpr int64_t kMostContext = 1 << 28;  // positions
constexpr int64_t kMostHeads = 1 << 14;

Error model_error(const std::string& where, const std::string& what);
std::string in_quotes(std::string_view text);  // in quotes, printable, at most 40 characters

// Reads keys ("llama." left out) one after another and remembers the first error, so that a list of keys reads like
// one. What is returned after an error is in its range and means nothing.
class Keys {
 public:
  // REQUIRES: `file` outlives this.
  Keys(const GgufFile& file, std::string architecture) : file_(file), prefix_(std::move(architecture) + ".") {}

  const GgufFile& file() const { return file_; }
  std::string name(std::string_view key) const { return prefix_ + std::string(key); }
  bool has(std::string_view key) const { return file_.has(name(key)); }

  int64_t integer(std::string_view key, int64_t min, int64_t max);
  int64_t integer_or(std::string_view key, int64_t fallback, int64_t min, int64_t max);
  double real(std::string_view key, double min, double max);
  double real_or(std::string_view key, double fallback, double min, double max);
  bool boolean_or(std::string_view key, bool fallback);
  std::string_view string_or(std::string_view key, std::string_view fallback);

  void refuse(std::string_view key, const std::string& what) { keep_error(model_error(name(key), what)); }
  void keep_error(Error error);
  Status status() const { return error_ ? Status(*error_) : Status(); }

 private:
  template <class T, class U>
  U keep(Result<T> result, U fallback) {
    if (result) return static_cast<U>(*result);
    keep_error(result.error());
    return fallback;
  }
  double real_in(Result<double> result, std::string_view key, double min, double max);

  const GgufFile& file_;
  std::string prefix_;
  std::optional<Error> error_;
};

// Takes keys ("llama." left out) with their values.
class KeyWriter {
 public:
  virtual ~KeyWriter() = default;
  virtual void number(const std::string& key, int64_t value) = 0;
  virtual void real(const std::string& key, double value) = 0;
  virtual void flag(const std::string& key, bool value) = 0;
  virtual void text(const std::string& key, const std::string& value) = 0;
};

}  // namespace smelt
