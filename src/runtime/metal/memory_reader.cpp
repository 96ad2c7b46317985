#include "runtime/metal/memory_reader.h"

namespace smelt {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 4;  // a core

}  // namespace

// The store that never comes makes the reads happen.
Source metal_memory_reader(int cores) {
  return {.text = R"(#include <metal_stdlib>
using namespace metal;

struct read_memory_buffers {
  device uchar* begin;
  device uchar* end;
};

kernel void read_memory(
    constant read_memory_buffers& buffers [[buffer(0)]],
    constant long* symbols [[buffer(1)]],
    uint thread_index [[thread_position_in_threadgroup]],
    uint part_index [[threadgroup_position_in_grid]],
    uint part_count [[threadgroups_per_grid]]) {
  device uchar* begin = buffers.begin;
  const long last = (buffers.end - begin - 16) & ~15l;
  const long stride = long(part_count) * )" +
                  std::to_string(kThreads * 16) + R"(;
  uint4 sum = uint4(0);
  for (long at = (long(part_index) * )" +
                  std::to_string(kThreads) + R"( + long(thread_index)) * 16; at <= last; at += 4 * stride)
    for (long i = 0; i < 4; ++i) sum ^= *(device const uint4*)(begin + min(at + i * stride, last));
  if (sum.x == 1640531527u && sum.y == 3041712726u && sum.z == 742938285u && sum.w == 1013904223u)
    *(device uint4*)begin = sum;
}
)",
          .entry = "read_memory",
          .shape = {.buffers = 2, .threads = kThreads, .tasks = int64_t{kBlocks} * cores}};
}

}  // namespace smelt
