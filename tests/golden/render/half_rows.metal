#include <metal_stdlib>
using namespace metal;

struct half_rows_buffers {
  device uchar* out0;  // float [at most 32768]
  device const uchar* in1;  // half [at most 4194304]
  device const uchar* in2;  // float [at most 128]
};

kernel void half_rows(
    constant half_rows_buffers& buffers [[buffer(0)]],
    constant long* symbols [[buffer(1)]],
    uint thread_index [[thread_position_in_threadgroup]],
    uint part_index [[threadgroup_position_in_grid]],
    uint part_count [[threadgroups_per_grid]]) {
  device uchar* out0 = buffers.out0;
  device const uchar* in1 = buffers.in1;
  device const uchar* in2 = buffers.in2;
  const int thread = int(thread_index);  // of 64
  const long v6 = long(thread) & 31L;
  const long v11 = long(part_index) * 2L + (long(thread) >> 5);
  const half4 v24 = *(device const half4*)(in1 + (v11 * 256L + v6 * 8L));
  const float4 v26 = *(device const float4*)(in2 + v6 * 16L);
  const float v51 = fma(float(v24.w), v26.w, fma(float(v24.z), v26.z, fma(float(v24.y), v26.y, fma(float(v24.x), v26.x, 0.0f))));
  const float v61 = simd_sum(v51);
  if (v6 == 0L) *(device float*)(out0 + v11 * 4L) = v61;
}
