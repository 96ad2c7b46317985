// The text form of nodes, tensor graphs and kernels alike: printed, parsed, diffed, dumped and
// replayed.
//
//   %0 = param u8 [4096, 32, 18] name="blk.0.ffn_up"
//   %1 = var i64 list=[1, 4096] name="n"
//   %2 = range i64 %1 i=3 list=[0]
//   %3 = mul i64 %2 18
//   %4 = load u8 %0 %3
//
// One node a line, sources before users, the root last: id, op, dtype, shape if any, sources, then
// the fields of arg that are not zero. Scalar constants stand where they are used, as 18 (i64),
// 3:u8 or 0.5:f32. Lines from # on are comments. The text has no addresses: equal graphs print
// alike in every process.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "graph/node.h"

namespace smelt {

std::string print(Ref root);

// parse(print(g)) == g, the same node. Any text is safe to parse: what is wrong comes back as an
// error with its line. Checks names, numbers of sources and sizes of things; whether a graph makes
// sense is verify.h's question.
Result<Ref> parse(std::string_view text);

// One line for a scalar expression: (r0*256 + r1)/4. For people; does not parse back. Deep parts
// become "...".
std::string to_infix(Ref expr);

}  // namespace smelt
