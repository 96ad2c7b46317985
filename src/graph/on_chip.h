// On-chip memory of a kernel. All its Local buffers lie in one scope, for as long as the kernel runs: the
// worker's scratch memory, or the memory that the threads of a block share.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/machine.h"
#include "graph/node.h"

namespace smelt {

struct OnChipScope {
  std::string_view name;  // "a worker's scratch memory"
  int64_t bytes = 0;      // that a kernel may take of it
};
OnChipScope on_chip_scope(const Machine& machine);

constexpr int64_t kOnChipAlign = 64;  // where a buffer begins
inline int64_t aligned_on_chip(int64_t bytes) { return (bytes + kOnChipAlign - 1) / kOnChipAlign * kOnChipAlign; }

// What a buffer takes: whole lines, and a free one behind it.
int64_t room_of_local(Ref local);

// What all buffers below the nodes take.
int64_t bytes_on_chip(std::span<const Ref> roots);

// Why this is more than there is; empty if it is not, and in a scope of no bytes.
std::string why_too_much_on_chip(int64_t bytes, const OnChipScope& scope);

}  // namespace smelt
