#include "base/ensure.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/ensure_dump.h"

namespace smelt {
namespace {

thread_local std::vector<std::string> notes;
thread_local std::vector<std::function<std::string()>> dumps;

// Asked once: it may fail an ENSURE of its own.
std::string last_words() {
  const auto mine = std::exchange(dumps, {});
  const auto dump = std::find_if(mine.rbegin(), mine.rend(), [](const auto& leave) { return bool(leave); });
  const std::string left = dump == mine.rend() ? "" : (*dump)();
  return left.empty() ? "run again with DUMP=dir, then `smelt replay dir/KERNEL.ir` repeats one kernel" : left;
}

}  // namespace

void ensure_failed(const char* file, int line, const char* condition, const std::string& text) {
  std::fprintf(stderr, "smelt: internal error: %s:%d: %s: %s\n", file, line, condition, text.c_str());
  for (auto it = notes.rbegin(); it != notes.rend(); ++it) std::fprintf(stderr, "  while %s\n", it->c_str());
  std::fprintf(stderr, "  %s\n", last_words().c_str());
  std::abort();
}

EnsureNote::EnsureNote(std::string text) { notes.push_back(std::move(text)); }
EnsureNote::~EnsureNote() { notes.pop_back(); }

EnsureDump::EnsureDump(std::function<std::string()> leave) { dumps.push_back(std::move(leave)); }
EnsureDump::~EnsureDump() { dumps.pop_back(); }

}  // namespace smelt
