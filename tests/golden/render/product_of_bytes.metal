#include <metal_stdlib>
using namespace metal;

static inline simdgroup_half8x8 two_elements(half x, half y) {
  simdgroup_half8x8 m;
  m.thread_elements()[0] = x;
  m.thread_elements()[1] = y;
  return m;
}
// c + a b: 16 rows of 16 bytes times 8 columns.
static inline int4 product_16x8x16_us(uint a0, uint a1, uint b0, int4 c, int thread) {
  const ushort lane = thread % 32, row = lane / 16 * 4 + lane / 2 % 4;
  const ushort column = lane / 8 % 2 * 4 + lane % 2 * 2, own = 8 * (row & 1);
  simdgroup_float8x8 sums0 = make_filled_simdgroup_matrix<float, 8, 8>(0);
  simdgroup_float8x8 sums1 = make_filled_simdgroup_matrix<float, 8, 8>(0);
  const uint left0 = simd_shuffle(b0, ushort(4 * column + row / 2));
  const uint right0 = simd_shuffle(b0, ushort(4 * column + 4 + row / 2));
  const uint rows0 = simd_shuffle(a0, ushort(4 * row + column / 2));
  const uint rows1 = simd_shuffle(a1, ushort(4 * row + column / 2));
  const simdgroup_half8x8 columns0a =
      two_elements(half(char(left0 >> own)), half(char(right0 >> own)));
  simdgroup_multiply_accumulate(sums0, two_elements(half(uchar(rows0)), half(uchar(rows0 >> 8))), columns0a, sums0);
  simdgroup_multiply_accumulate(sums1, two_elements(half(uchar(rows1)), half(uchar(rows1 >> 8))), columns0a, sums1);
  const simdgroup_half8x8 columns0b =
      two_elements(half(char(left0 >> (16 + own))), half(char(right0 >> (16 + own))));
  simdgroup_multiply_accumulate(sums0, two_elements(half(uchar(rows0 >> 16)), half(uchar(rows0 >> 24))), columns0b, sums0);
  simdgroup_multiply_accumulate(sums1, two_elements(half(uchar(rows1 >> 16)), half(uchar(rows1 >> 24))), columns0b, sums1);
  const ushort holder = lane / 16 * 16 + lane / 2 % 2 * 8 + lane / 4 % 4 * 2 + lane % 2;
  const float sum0 = simd_shuffle(sums0.thread_elements()[0], ushort(holder));
  const float sum1 = simd_shuffle(sums0.thread_elements()[1], ushort(holder));
  const float sum2 = simd_shuffle(sums1.thread_elements()[0], ushort(holder));
  const float sum3 = simd_shuffle(sums1.thread_elements()[1], ushort(holder));
  return as_type<int4>(as_type<uint4>(c) + as_type<uint4>(int4(int(sum0), int(sum1), int(sum2), int(sum3))));
}

struct product_buffers {
  device uchar* inout0;  // int, uint: at most 128 bytes
};

kernel void product(
    constant product_buffers& buffers [[buffer(0)]],
    constant long* symbols [[buffer(1)]],
    uint thread_index [[thread_position_in_threadgroup]],
    uint part_index [[threadgroup_position_in_grid]],
    uint part_count [[threadgroups_per_grid]]) {
  device uchar* inout0 = buffers.inout0;
  const int thread = int(thread_index);  // of 32
  const long v3 = long(thread) * 4L;
  const uint v4 = *(device uint*)(inout0 + v3);
  const int v5 = as_type<int>(v4);
  const int4 v6 = product_16x8x16_us(v4, v4, v4, int4(v5, v5, v5, v5), thread);
  *(device int*)(inout0 + v3) = v6.x;
}
