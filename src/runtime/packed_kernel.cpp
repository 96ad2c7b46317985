#include "runtime/packed_kernel.h"

#include <cstdio>

#include "base/ensure.h"

namespace smelt {

std::string text_of(const LaunchShape& s) {
  return std::to_string(s.buffers) + ' ' + std::to_string(s.threads) + ' ' + std::to_string(s.tasks) + ' ' +
         std::to_string(s.shared_bytes) + (s.has_prologue ? " 1 " : " 0 ") + (s.overlaps ? "1 " : "0 ") +
         std::to_string(s.blocks);
}

// With a zero between them.
std::string pack(const PackedKernel& kernel) { return text_of(kernel.shape) + '\0' + kernel.code; }

PackedKernel unpack(std::string_view entry) {
  PackedKernel out;
  const size_t end = entry.find('\0');
  long long tasks = 0, shared_bytes = 0, blocks = 0;
  int has_prologue = 0, overlaps = 0;
  const std::string shape(entry.substr(0, end));
  const int read = std::sscanf(shape.c_str(), "%d %d %lld %lld %d %d %lld", &out.shape.buffers, &out.shape.threads,
                               &tasks, &shared_bytes, &has_prologue, &overlaps, &blocks);
  ENSURE(end != std::string_view::npos && read == 7, "a kernel in the cache that this program has not put there");
  out.shape.tasks = tasks;
  out.shape.shared_bytes = shared_bytes;
  out.shape.has_prologue = has_prologue != 0;
  out.shape.overlaps = overlaps != 0;
  out.shape.blocks = blocks;
  out.code = entry.substr(end + 1);
  return out;
}

}  // namespace smelt
