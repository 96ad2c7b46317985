// CpuTarget: what code generation may know about a CPU, as plain data. Found by the runtime, or
// written down by a test.
#pragma once

#include <cstdint>
#include <string>

namespace smelt {

struct CpuTarget {
  std::string triple;    // "x86_64-unknown-linux-gnu"
  std::string cpu;       // LLVM's name, "sapphirerapids"; may be "generic"
  std::string features;  // LLVM's list, "+avx2,+fma,..."

  int vector_bytes = 16;      // width of a SIMD register that is worth using
  int vector_registers = 16;  // number of them
  bool fma = false;
  bool f16_convert = false;  // half <-> float in hardware
  bool avx2 = false;
  bool avx512 = false;  // F, BW, DQ, VL
  bool avx512_vnni = false;
  bool avx512_vbmi = false;  // bytes picked from two registers of 64
  bool avx_vnni = false;
  bool neon_dot = false;   // sums of four products of bytes, of equal signs
  bool neon_i8mm = false;  // the same of unsigned and signed bytes
  bool avx512_bf16 = false;
  bool amx_int8 = false;
  bool amx_bf16 = false;
  bool amx_refused = false;  // the processor has AMX, the system does not let us use it

  int cores = 1;  // that this process may use
  int64_t line_bytes = 64;
  int64_t l1_bytes = 32 << 10;  // data, per core
  int64_t l2_bytes = 1 << 20;   // per core
  int64_t l3_bytes = 8 << 20;   // shared; 0: none

  bool operator==(const CpuTarget&) const = default;
};

}  // namespace smelt
