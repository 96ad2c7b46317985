#include "schedule/kernel_tree.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "graph/args.h"
#include "graph/rules_algebra.h"
#include "graph/views.h"
#include "schedule/schedule.h"

namespace smelt {
namespace {

// The greatest value of a symbolic size rarely changes the code, but differs with each length of context. So kernels
// are made for the next power of two, and all short contexts and prompts share theirs.
Ref with_room(Ref size, const Machine& machine) {
  const int64_t room = machine.has_threads() ? kRoomOfSizesInBlocks : kRoomOfSizes;
  const auto most = static_cast<uint64_t>(std::max(size->max, room));
  return variable(size->arg.name, size->min, static_cast<int64_t>(std::bit_ceil(most)));
}

}  // namespace

KernelTree kernel_tree(Ref nests, const Machine& machine) {
  KernelTree out;
  std::unordered_map<const Node*, Ref> original_of;
  int64_t locals = 0;
  // Terms of sums are in an order that depends on the buffers that they load from: first these lose their shapes, which
  // are others for each length of context, then they are numbered.
  const Ref shapeless = rebuild(nests, [&](Ref original, Ref node) {
    if (original->op == Op::Var) return with_room(original, machine);
    if (original->op != Op::Param && original->op != Op::Temp) return node;
    const Ref plain = make(original->op, DType::Void, {}, {.i = original->arg.i});
    original_of[plain.get()] = original;
    return plain;
  });
  const Ref nameless = rebuild(simplify(shapeless), [&](Ref original, Ref node) {
    if (const auto buffer = original_of.find(original.get()); buffer != original_of.end()) {
      out.buffers.push_back(buffer->second);
      Arg number{.i = static_cast<int64_t>(out.buffers.size()) - 1};
      if (machine.overlaps_launches && is_given(buffer->second)) number.list = {1};
      return make(Op::Param, DType::Void, {}, std::move(number));
    }
    if (original->op == Op::Local) return make_local(locals++, DType::Void, local_bytes(original));
    return node;
  });
  out.tree = simplify(nameless);
  return out;
}

}  // namespace smelt
