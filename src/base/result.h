// Result<T>: the outcome of anything that depends on the outside world (a file, a request, a device).
//
// An Error is one sentence for the user: a prefix in brackets, the key, the value and what to do, such as
//   [gguf] blk.3.ffn_up.weight: type 41 is unknown; re-quantise the file with a type of docs/formats.md
// Bugs of ours are not errors: they go through ENSURE (base/ensure.h).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace smelt {

struct Error {
  std::string message;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // REQUIRES: ok().
  T& operator*() { return std::get<0>(state_); }
  const T& operator*() const { return std::get<0>(state_); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  T take() { return std::move(std::get<0>(state_)); }

  // REQUIRES: !ok().
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

// Success without a value, or an Error.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}
  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return *error_; }  // REQUIRES: !ok().

 private:
  std::optional<Error> error_;
};

}  // namespace smelt

// Evaluates a Result or Status expression and returns its error from the enclosing function.
#define SMELT_TRY(name, expression)                 \
  auto name##_result = (expression);                \
  if (!name##_result) return name##_result.error(); \
  auto name = name##_result.take()

#define SMELT_CHECK(expression) \
  if (auto status = (expression); !status) return status.error()
