#include "graph/on_chip.h"

#include <set>

#include "graph/views.h"

namespace smelt {

OnChipScope on_chip_scope(const Machine& machine) {
  return {.name = machine.stack_bytes > 0 ? "a worker's scratch memory" : "the memory of a block",
          .bytes = machine.block_memory_bytes};
}

int64_t room_of_local(Ref local) { return aligned_on_chip(local_bytes(local)) + kOnChipAlign; }

int64_t bytes_on_chip(std::span<const Ref> roots) {
  std::set<const Node*> locals;
  int64_t bytes = 0;
  for (Ref root : roots)
    for (Ref n : toposort(root))
      if (n->op == Op::Local && locals.insert(n.get()).second) bytes += room_of_local(n);
  return bytes;
}

std::string why_too_much_on_chip(int64_t bytes, const OnChipScope& scope) {
  if (scope.bytes == 0 || bytes <= scope.bytes) return "";
  return "it keeps " + std::to_string(bytes) + " bytes on chip, more than the " + std::to_string(scope.bytes) +
         " that " + std::string(scope.name) + " has for it";
}

}  // namespace smelt
