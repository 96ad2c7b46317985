// ENSURE(condition, text): a bug of ours. Prints where, what and the replay hint, then stops the process.
// Real in every build type; `assert` is not used.
#pragma once

#include <string>

namespace smelt {

// Prints the failure and the innermost notes set by EnsureNote, then aborts.
[[noreturn]] void ensure_failed(const char* file, int line, const char* condition, const std::string& text);

// While it lives, names what is being worked on (a pass, a kernel, a dump file) for ensure_failed.
class EnsureNote {
 public:
  explicit EnsureNote(std::string text);
  ~EnsureNote();
  EnsureNote(const EnsureNote&) = delete;
  EnsureNote& operator=(const EnsureNote&) = delete;
};

}  // namespace smelt

#define ENSURE(condition, text) ((condition) ? void(0) : ::smelt::ensure_failed(__FILE__, __LINE__, #condition, (text)))
