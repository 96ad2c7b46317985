#include "base/ensure.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace smelt {
namespace {
thread_local std::vector<std::string> notes;
}

void ensure_failed(const char* file, int line, const char* condition, const std::string& text) {
  std::fprintf(stderr, "smelt: internal error: %s:%d: %s: %s\n", file, line, condition,
               text.c_str());
  for (auto it = notes.rbegin(); it != notes.rend(); ++it)
    std::fprintf(stderr, "  while %s\n", it->c_str());
  std::fprintf(stderr,
               "  run again with DUMP=dir, then `smelt replay dir/KERNEL.ir` repeats one kernel\n");
  std::abort();
}

EnsureNote::EnsureNote(std::string text) { notes.push_back(std::move(text)); }
EnsureNote::~EnsureNote() { notes.pop_back(); }

}  // namespace smelt
