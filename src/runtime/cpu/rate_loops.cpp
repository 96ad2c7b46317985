#include "runtime/cpu/rate_loops.h"

#include <functional>

namespace smelt {
namespace {

constexpr int64_t kRounds = 200'000;
constexpr int64_t kUnitRounds = 20'000;  // an instruction takes 16 cycles
constexpr int kUnitChains = 4;           // sums that the unit holds

constexpr const char* kHead =
    "define void @rate(ptr %buffers, ptr %symbols, i64 %part, i64 %parts, ptr %scratch, i64 %begins) {\n"
    "entry:\n"
    "  %out = load ptr, ptr %buffers\n"
    "  %offset = mul i64 %part, 64\n"
    "  %mine = getelementptr i8, ptr %out, i64 %offset\n";

// Independent of each other, more than the latency of one; with what they share they fit into the registers.
int chains_of(const Machine& machine) { return machine.registers >= 32 ? 16 : 12; }

std::string counting(int64_t rounds) {
  return "  %next = add i64 %i, 1\n"
         "  %more = icmp slt i64 %next, " +
         std::to_string(rounds) +
         "\n"
         "  br i1 %more, label %loop, label %done\n"
         "done:\n";
}

std::string vector_of(int64_t count, const char* type) { return "<" + std::to_string(count) + " x " + type + ">"; }

// `step` writes how the sum `from` becomes the sum `to`; it may name other values after the chain's number. %x is a
// vector of what lies in the worker's memory, which nobody can foresee.
std::string loop_of_chains(int chains, const std::string& type, const char* add,
                           const std::function<std::string(int chain, std::string from, std::string to)>& step) {
  std::string phis, steps, sums;
  for (int i = 0; i < chains; ++i) {
    const std::string n = std::to_string(i);
    phis += "  %a" + n + " = phi " + type + " [ %x, %entry ], [ %b" + n + ", %loop ]\n";
    steps += step(i, "%a" + n, "%b" + n);
    sums += "  %s" + n + " = " + add + " " + type + " " + (i ? "%s" + std::to_string(i - 1) : std::string("%x")) +
            ", %b" + n + "\n";
  }
  return std::string(kHead) + "  %x = load " + type + ", ptr %mine, align 4\n  br label %loop\nloop:\n" +
         "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]\n" + phis + steps + counting(kRounds) + sums + "  store " +
         type + " %s" + std::to_string(chains - 1) + ", ptr %mine, align 4\n  ret void\n}\n";
}

std::string call(const std::string& to, const std::string& type, const std::string& function,
                 const std::string& operands) {
  return "  " + to + " = call " + type + " @" + function + "(" + operands + ")\n";
}

// Of `bytes` bytes: one instruction.
std::string dots_by_one(int chains, const std::string& function, int64_t bytes, bool takes_words) {
  const std::string words = vector_of(bytes / 4, "i32"), given = takes_words ? words : vector_of(bytes, "i8");
  return loop_of_chains(chains, words, "add",
                        [&](int i, const std::string& from, const std::string& to) {
                          const std::string y = "%y" + std::to_string(i);
                          return "  " + y + " = bitcast " + words + " %x to " + given + "\n" +
                                 call(to, words, function,
                                      words + " " + from + ", " + given + " " + y + ", " + given + " " + y);
                        }) +
         "declare " + words + " @" + function + "(" + words + ", " + given + ", " + given + ")\n";
}

// Products in pairs, and sums of these: of small bytes many fit 16 bits before a kernel makes words of them. What is
// multiplied is the sum so far, as LLVM would compute products of the same bytes once.
std::string sums_of_pairs(int chains, const char* bytes_in_pairs, int64_t bytes) {
  const std::string halves = vector_of(bytes / 2, "i16"), chars = vector_of(bytes, "i8");
  return loop_of_chains(chains, halves, "add",
                        [&](int i, const std::string& from, const std::string& to) {
                          const std::string n = std::to_string(i);
                          return "  %c" + n + " = bitcast " + halves + " " + from + " to " + chars + "\n" +
                                 call("%p" + n, halves, bytes_in_pairs, chars + " %c" + n + ", " + chars + " %c" + n) +
                                 "  " + to + " = add " + halves + " " + from + ", %p" + n + "\n";
                        }) +
         "declare " + halves + " @" + bytes_in_pairs + "(" + chars + ", " + chars + ")\n";
}

std::string byte_dot_text(const Machine& machine) {
  const int64_t bytes = machine.byte_dot_bytes;
  const int chains = chains_of(machine);
  const auto by_one = [&](const std::string& function) {
    return dots_by_one(chains, function, bytes, machine.byte_dot == ByteDot::Vnni);
  };
  switch (machine.byte_dot) {
    case ByteDot::Vnni: return by_one("llvm.x86.avx512.vpdpbusd." + std::to_string(8 * bytes));
    case ByteDot::Madd:
      if (bytes == 64) return sums_of_pairs(chains, "llvm.x86.avx512.pmaddubs.w.512", bytes);
      if (bytes == 32) return sums_of_pairs(chains, "llvm.x86.avx2.pmadd.ub.sw", bytes);
      return sums_of_pairs(chains, "llvm.x86.ssse3.pmadd.ub.sw.128", bytes);
    case ByteDot::NeonDot: return by_one("llvm.aarch64.neon.sdot.v4i32.v16i8");
    case ByteDot::NeonI8mm: return by_one("llvm.aarch64.neon.usdot.v4i32.v16i8");
    case ByteDot::Dp4a:  // of other machines than those of this text
    case ByteDot::Plain: break;
  }
  return "";
}

}  // namespace

RateLoop multiply_add_loop(const Machine& machine) {
  const int lanes = machine.lanes(), chains = chains_of(machine);
  const std::string vector = vector_of(lanes, "float"), fma = "llvm.fma.v" + std::to_string(lanes) + "f32";
  // Without such an instruction a multiplication and an addition.
  const auto step = [&](int i, const std::string& from, const std::string& to) {
    if (machine.fma) return call(to, vector, fma, vector + " " + from + ", " + vector + " %x, " + vector + " %x");
    const std::string product = "%m" + std::to_string(i);
    return "  " + product + " = fmul " + vector + " " + from + ", %x\n  " + to + " = fadd " + vector + " " + product +
           ", %x\n";
  };
  return {loop_of_chains(chains, vector, "fadd", step) + "declare " + vector + " @" + fma + "(" + vector + ", " +
              vector + ", " + vector + ")\n",
          2.0 * chains * lanes * kRounds};
}

std::optional<RateLoop> byte_dot_loop(const Machine& machine) {
  const std::string text = byte_dot_text(machine);
  if (text.empty()) return std::nullopt;
  return RateLoop{text, 2.0 * chains_of(machine) * static_cast<double>(machine.byte_dot_bytes) * kRounds};
}

// Registers of tiles are zeros once their shapes are known, and zeros take as long as other numbers.
std::optional<RateLoop> matrix_unit_loop(const Machine& machine) {
  const MatrixUnit* unit = unit_for_bytes(machine);
  if (!unit || !unit->loads_operands || machine.isa != Isa::X86) return std::nullopt;
  // What ldtilecfg reads: the palette, 15 bytes of zero, bytes of a row of 16 tiles (2 bytes each), rows.
  std::string config, products;
  for (int byte = 0; byte < 64; ++byte) {
    const bool is_row = byte >= 48 && byte < 48 + kUnitChains + 2;
    const bool is_width = byte >= 16 && byte < 16 + 2 * (kUnitChains + 2) && byte % 2 == 0;
    config += (byte ? ", i8 " : "i8 ") + std::to_string(byte == 0 ? 1 : is_row ? 16 : is_width ? 64 : 0);
  }
  const auto line = [](const std::string& text, const std::string& operands, const std::string& values) {
    return "  call void asm sideeffect \"" + text + "\", \"" + operands + "~{memory}\"(" + values + ")\n";
  };
  for (int i = 0; i < kUnitChains; ++i)
    products += line("tdpbusd %tmm" + std::to_string(kUnitChains) + ", %tmm" + std::to_string(kUnitChains + 1) +
                         ", %tmm" + std::to_string(i),
                     "", "");
  const std::string text = "@config = private constant [64 x i8] [" + config + "], align 64\n" + kHead +
                           line("ldtilecfg ($0)", "r,", "ptr @config") +
                           "  br label %loop\nloop:\n  %i = phi i64 [ 0, %entry ], [ %next, %loop ]\n" + products +
                           counting(kUnitRounds) + line("tilerelease", "", "") + "  ret void\n}\n";
  return RateLoop{text, 2.0 * kUnitChains * static_cast<double>(unit->m * unit->n * unit->k) * kUnitRounds};
}

}  // namespace smelt
