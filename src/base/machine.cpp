#include "base/machine.h"

#include <algorithm>
#include <cstdio>

namespace smelt {
namespace {

constexpr MatrixUnit kAmxI8{.m = 16,
                            .n = 16,
                            .k = 64,
                            .a = DType::I8,
                            .b = DType::I8,
                            .accumulator = DType::I32,
                            .loads_operands = true,
                            .start_cycles = 4};
constexpr MatrixUnit kAmxBf16{.m = 16,
                              .n = 16,
                              .k = 32,
                              .a = DType::BF16,
                              .b = DType::BF16,
                              .accumulator = DType::F32,
                              .loads_operands = true,
                              .start_cycles = 4};
constexpr int64_t kAmxLongPrompt = 1024;   // with fewer too few share what becomes halves
constexpr int64_t kAmxPromptChunk = 2048;  // an expert of 64, of which tokens choose 4, has 131 of them
constexpr int64_t kAmxPromptBlock = 128;   // 256 is faster, and misses the bar on KL of the small models
constexpr MatrixUnit kMmaI8{.m = 16, .n = 8, .k = 32, .a = DType::I8, .b = DType::I8, .accumulator = DType::I32};
// wgmma: of four warps. It takes up to 256 columns, of which sums of 64 leave room for what is multiplied.
constexpr MatrixUnit kWarpgroupBf16{
    .m = 64, .n = 64, .k = 16, .a = DType::BF16, .b = DType::BF16, .accumulator = DType::F32};
// Eight products of 8 x 8 x 8 halves, which are 128 operations on vectors, and what brings bytes there and sums back.
constexpr MatrixUnit kSimdgroupI8{
    .m = 16, .n = 8, .k = 32, .a = DType::I8, .b = DType::I8, .accumulator = DType::I32, .start_cycles = 40};

ByteDot dot_of(const CpuTarget& target, bool is_x86) {
  if (target.avx512_vnni || target.avx_vnni) return ByteDot::Vnni;
  if (is_x86 && (target.avx2 || target.vector_bytes == 16)) return ByteDot::Madd;
  if (target.neon_i8mm) return ByteDot::NeonI8mm;
  return target.neon_dot ? ByteDot::NeonDot : ByteDot::Plain;
}

int64_t shuffle_bytes_of(const CpuTarget& target) { return target.avx512 ? 64 : target.avx2 ? 32 : 16; }

std::string text_of(bool value) { return value ? "yes" : "no"; }
std::string text_of(int64_t value) { return std::to_string(value); }

std::string text_of(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string text_of(Parallelism value) { return value == Parallelism::Vectors ? "vectors" : "threads"; }

std::string text_of(Isa value) {
  switch (value) {
    case Isa::X86: return "x86";
    case Isa::Arm: return "arm";
    case Isa::Nvidia: return "nvidia";
    case Isa::Apple: return "apple";
  }
  return "";
}

std::string text_of(ByteDot value) {
  switch (value) {
    case ByteDot::Plain: return "plain";
    case ByteDot::Madd: return "madd";
    case ByteDot::Vnni: return "vnni";
    case ByteDot::NeonDot: return "neon dot";
    case ByteDot::NeonI8mm: return "neon i8mm";
    case ByteDot::Dp4a: return "dp4a";
  }
  return "";
}

std::string text_of(const MatrixUnit& u) {
  const auto shape = text_of(u.m) + "x" + text_of(u.n) + "x" + text_of(u.k);
  return shape + " " + std::string(name_of(u.a)) + " * " + std::string(name_of(u.b)) + " -> " +
         std::string(name_of(u.accumulator)) + (u.loads_operands ? ", loads operands" : "") + ", " +
         text_of(u.start_cycles) + " cycles to start";
}

}  // namespace

const MatrixUnit* unit_for_bytes(const Machine& machine) {
  for (const MatrixUnit& u : machine.matrix_units)
    if (u.a == DType::I8 && u.b == DType::I8) return &u;
  return nullptr;
}

const MatrixUnit* unit_for_halves(const Machine& machine) {
  for (const MatrixUnit& u : machine.matrix_units)
    if (u.a == DType::BF16 && u.b == DType::BF16) return u.loads_operands || machine.ring_bytes > 0 ? &u : nullptr;
  return nullptr;
}

const MatrixUnit* unit_of_warpgroup(const Machine& machine) {
  const MatrixUnit* unit = unit_for_halves(machine);
  return unit && !unit->loads_operands ? unit : nullptr;
}

Machine machine_of(const CpuTarget& target) {
  const bool is_x86 = target.triple.starts_with("x86_64");
  const bool is_vnni_of_256_bits = target.avx_vnni && !target.avx512_vnni;
  Machine m{.name = target.cpu, .title = target.cpu, .target = target.cpu};
  m.processors = target.cores;
  m.vector_bytes = target.vector_bytes;
  m.registers = target.vector_registers;
  m.line_bytes = target.line_bytes;
  m.l1_bytes = target.l1_bytes;
  m.l2_bytes = target.l2_bytes;
  m.l3_bytes = target.l3_bytes;
  m.isa = is_x86 ? Isa::X86 : Isa::Arm;
  m.byte_dot = dot_of(target, is_x86);
  m.byte_dot_bytes = is_x86 ? std::min(target.vector_bytes, is_vnni_of_256_bits ? 32 : 64) : 16;
  m.shuffle_bytes = is_x86 ? shuffle_bytes_of(target) : 16;
  m.table_bytes = target.avx512_vbmi ? 128 : 0;
  m.fma = target.fma;
  m.f16_convert = target.f16_convert;
  m.bf16_convert = target.avx512_bf16;
  if (is_x86 && target.amx_int8 && !target.amx_refused) {
    m.matrix_units.push_back(kAmxI8);
    m.prompt_block = kAmxPromptBlock;
    if (target.amx_bf16) {
      m.matrix_units.push_back(kAmxBf16);
      m.long_prompt = kAmxLongPrompt;
      m.prompt_chunk = kAmxPromptChunk;
      m.block_memory_bytes = std::max(m.block_memory_bytes, m.l2_bytes * 3 / 4);  // of a panel of halves
      m.processor_memory_bytes = m.block_memory_bytes;
    }
    m.token_tile = kAmxI8.m;
  }
  return m;
}

const std::vector<Machine>& known_machines() {
  static const std::vector<Machine> machines{
#define MACHINE(name_, title_, target_, ...) Machine{.name = name_, .title = title_, .target = target_, __VA_ARGS__},
#include "base/machines.def"
#undef MACHINE
  };
  return machines;
}

std::optional<Machine> known_machine(std::string_view name) {
  for (const Machine& m : known_machines())
    if (m.name == name) return m;
  return std::nullopt;
}

int Machine::tokens_side_by_side() const {
  const MatrixUnit* unit = unit_for_bytes(*this);
  return unit && !unit->loads_operands ? static_cast<int>(unit->n) : 1;
}

double Machine::operations_per_second() const {
  const int64_t side_by_side = has_threads() ? warp_threads : lanes();
  return 2.0 * static_cast<double>(processors * side_by_side) * vectors_per_cycle * cycles_per_second;
}

std::vector<MachineField> fields_of(const Machine& machine) {
  std::vector<MachineField> fields;
#define FIELD(type, name, fallback, doc) fields.push_back({#name, text_of(machine.name), doc});
#include "base/machine.def"
#undef FIELD
  for (const MatrixUnit& u : machine.matrix_units)
    fields.push_back({"matrix unit", text_of(u), "m x n x k that one instruction multiplies"});
  return fields;
}

std::string to_string(const Machine& machine) {
  std::string text = machine.name + ": " + machine.title + "\ntarget " + machine.target + "\n";
  for (const MachineField& f : fields_of(machine)) text += f.name + ' ' + f.value + '\n';
  return text;
}

}  // namespace smelt
