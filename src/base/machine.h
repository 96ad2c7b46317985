// Machine: what the compiler knows of the machine that a kernel is for, as plain data. Schedule, options, heuristics,
// cost model and renderers read this and nothing else about it, so what is made for a machine can be looked at on any
// other one.
//
//   machine.def    the fields, each with its meaning
//   machines.def   machines that are known by name
//   machine_of()   the machine that a CPU is
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/target.h"

namespace smelt {

enum class Parallelism : uint8_t {
  Vectors,  // a worker computes several elements by one instruction
  Threads,  // a block is many threads, which compute an element each
};

enum class Isa : uint8_t { X86, Arm, Nvidia, Apple };

// How sums of four products of bytes are made.
enum class ByteDot : uint8_t {
  Plain,     // by shifts and multiplications
  Madd,      // SSSE3, AVX2, AVX-512BW: pmaddubsw and pmaddwd
  Vnni,      // AVX512-VNNI, AVX-VNNI: vpdpbusd
  NeonDot,   // sdot: both sides signed
  NeonI8mm,  // usdot
  Dp4a,      // NVIDIA
};

// c[m, n] += a[m, k] * b[k, n], by one instruction of a worker or of the threads of a warp.
struct MatrixUnit {
  int64_t m = 0, n = 0, k = 0;
  DType a = DType::Void, b = DType::Void;  // I8 stands for bytes of either sign
  DType accumulator = DType::Void;
  bool loads_operands = false;  // matrices come from memory and go there; else they lie in registers
  double start_cycles = 0;      // until a row of a product is done, then one for each; in registers: all of it
  bool operator==(const MatrixUnit&) const = default;
};

// Parts that a launch is shared out in, at most: bounds of the index of a part rest on it.
constexpr int64_t kMostParts = 1 << 14;

struct Machine {
  std::string name;    // "zen4"
  std::string title;   // for people: "AMD EPYC, Zen 4"
  std::string target;  // what machine code is made for: a name of named_target() or "sm_90a"; empty: of this machine
#define FIELD(type, name, fallback, doc) type name = fallback;
#include "base/machine.def"
#undef FIELD
  std::vector<MatrixUnit> matrix_units = {};

  bool operator==(const Machine&) const = default;

  int lanes() const { return static_cast<int>(vector_bytes / 4); }  // elements of 4 bytes in a vector
  bool has_threads() const { return parallelism == Parallelism::Threads; }
  // Rows of a weight whose pieces lie beside each other: those that neighbouring lanes read. Threads read them from
  // sectors of 32 bytes, and the other threads of a warp read other parts of the rows.
  int rows_side_by_side() const { return has_threads() ? static_cast<int>(line_bytes / vector_bytes) : lanes(); }
  // Tokens of a prompt whose numbers lie beside each other: threads that hold fragments of matrices have neighbouring
  // ones.
  int tokens_side_by_side() const;
  // Operations of f32 a second that all processors begin together, two for a multiply-add.
  double operations_per_second() const;
};

// The unit that multiplies matrices of bytes; null if there is none.
const MatrixUnit* unit_for_bytes(const Machine& machine);

// The unit that multiplies matrices of halves (bf16); null if there is none, or one whose columns are on chip and no
// room (ring_bytes) for them.
const MatrixUnit* unit_for_halves(const Machine& machine);
// The same, if its columns are on chip.
const MatrixUnit* unit_of_warpgroup(const Machine& machine);

// In its place where vectors have none: products of matrices are sums of words then, of as many as AMX would take.
constexpr MatrixUnit kSumsOfWords{
    .m = 16, .n = 16, .k = 64, .a = DType::I8, .b = DType::I8, .accumulator = DType::I32, .loads_operands = true};

// REQUIRES: the CPU has been looked at (runtime/target.h).
Machine machine_of(const CpuTarget& target);

// The machines of machines.def, in that order.
const std::vector<Machine>& known_machines();
std::optional<Machine> known_machine(std::string_view name);

// A field for people. Of a matrix unit the name is "matrix unit".
struct MachineField {
  std::string name, value, meaning;
};
std::vector<MachineField> fields_of(const Machine& machine);

// Every field with its value, a line each; equal machines give equal text.
std::string to_string(const Machine& machine);

}  // namespace smelt
