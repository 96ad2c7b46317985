// The passes of codegen in running order; each is a function from the stores of a nest to the stores of a nest.
#pragma once

#include "base/machine.h"
#include "codegen/opt.h"
#include "graph/node.h"

namespace smelt {

// 1. A reduction whose terms are masked by `index < limit` ends at the limit instead.
//      softmax_sum(where(c * 256 + i < n, s, lowest), v; i < 256)
//        ->  softmax_sum(s, v; i < clamp(n - c * 256, 0, 256))
//    A sum that is masked as a whole ends before it begins.
//      where(used, sum(x; i < 256), 0)  ->  sum(x; i < cast(used, i64) * 256)
Refs bound_masks(const Refs& stores);

// 2. Ranges that are divided or taken modulo constants become several, so that the divisions disappear.
//      w[k / 32, k % 32], k < 4096  ->  w[b, l], b < 128, l < 32
Refs split_ranges(const Refs& stores);

// The other way round, for a nest whose divisions PANEL has taken away: loops that nothing divides become one again.
Refs merge_ranges(Refs stores);

// 3. order_sums(): sums get the partial sums that options may put into lanes (sum_order.h).

// 4. Factors that do not change in an inner reduction loop leave it.
//      sum(d[b] * q[b, l] * x[b, l]; b, l)  ->  sum(d[b] * sum(q[b, l] * x[b, l]; l); b)
Refs hoist_factors(const Refs& stores);

// 5. A multiplication and the addition of its result become one operation, rounded once.
//      x * y + z  ->  fma(x, y, z)
Refs fuse_multiply_adds(const Refs& stores);

// (options are applied here: opt.h. Nothing before them depends on them, nothing behind changes what is computed.)

// 6. Byte ranges (option DOT) become sums of products of four bytes at a time.
//      sum(cast(w[l * 4 + b]) * cast(x[l * 4 + b]); l, b)  ->  sum(dot4(0, word of w[l], word of x[l]); l)
//    Those of stores (option PACK): one word is stored in place of four bytes.
Refs pack_dots(const Refs& stores);

// 7. Sums of these words over rows and lanes (option MATRIX) become products of small matrices, whose operands lie
//    where the unit wants them: in memory, or in the registers of a warp.
//      sum(dot4(0, w[l, lane], x[row, l]); l)  ->  matrix_item(matrix_dot(x, w), row, lane)
//                                              ->  matrix_item(matrix_dot(words of x, words of w), row * 2 + column)
//    Those of products of halves, too: in memory, or with columns on chip (matrix_halves.h).
Refs matrix_dots(const Refs& stores, const LaneRules& rules);

// 8. Unroll ranges are written out: stores are repeated, reductions get several terms. Partial results are written
//    out, too, as far as they are not lanes. Lane ranges leave the reductions, whose lanes are then combined by
//    LaneReduce.
Refs expand(const Refs& stores, const Machine& machine);

// 9. An online softmax over an unknown number of elements takes several of them in a round, one after the other, whose
//    loads a thread asks for together. On machines with threads only: elsewhere such loads are not waited for.
//      softmax_sum(s[c], v[c]; c < n)
//        ->  softmax_sum(s[c * 4], v[c * 4], ..., where(c * 4 + 3 < n, s[min(c * 4 + 3, n - 1)], lowest),
//                        v[min(c * 4 + 3, n - 1)]; c < (n + 3) / 4)
//    Of many, whose scores are the same for all threads, a warp has a round together: a thread makes the weights of one
//    element and hands them around. Maxima have no order and sums keep theirs, so these are the same bits.
//        ->  softmax_sum(where(c * 32 + t < n, s[min(c * 32 + t, n - 1)], lowest), v[c * 32], ..., v[c * 32 + 31]; c, t)
Refs softmax_rounds(const Refs& stores, const Machine& machine);

// 10. Byte loads that lie a word apart in neighbouring lanes share word loads.
Refs coalesce_loads(const Refs& stores);

// 11. Words of a long table that bytes of a word are looked up in: by tables of bytes, where registers have room for
//     them (Machine::table_bytes), instead of gathers.
Refs look_up_words(const Refs& stores, const Machine& machine);

}  // namespace smelt
