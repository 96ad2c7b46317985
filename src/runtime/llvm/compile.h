// LLVM as a compiler: IR text in, an ELF object of any target out; pure, thread-safe.
//
// The text is a product of ours: if it does not parse or verify, that is a bug and stops the process (ENSURE) with
// the line of the IR. What the outside can do wrong here is nothing. Objects become entry pointers in jit.h; the
// on-disk cache (kernel_cache.h) fits between the two.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/target.h"
#include "runtime/source.h"

namespace smelt {

// The optimiser's share. The compiler upstream has already tiled, unrolled and vectorised; loop
// unrolling, the loop and the SLP vectoriser therefore stay out, and what is left is cleaning up.
// In the syntax of `opt -passes=`.
struct CodegenOptions {
  std::string passes = std::string(kDefaultPasses);
  int level = 2;  // of code generation (instruction selection, scheduling, registers): 0..3

  static const std::string_view kDefaultPasses;
};

// Most bytes of a stack that a function of a kernel takes, for registers that are spilled and rows of matrices: one
// that wants more stops the process. Look-ups in the largest codebooks, 16 rows side by side, spill up to 168 KB.
constexpr size_t kMostStackOfFunction = 192 << 10;

// Machine code as a relocatable ELF file that defines `symbol` (the function that the text calls
// source.entry).
std::string compile_object(const Source& source, const std::string& symbol, const CpuTarget& target,
                           const CodegenOptions& options = {});

// For people: the assembly, and the IR after the passes.
std::string assembly(const Source& source, const CpuTarget& target, const CodegenOptions& options = {});
Assembly linked_assembly(const Source& source, const CpuTarget& target, const CodegenOptions& options = {});
std::string optimised_ir(const Source& source, const CpuTarget& target, const CodegenOptions& options = {});

std::string llvm_version();

// What LLVM finds out about this machine; target.h turns it into a CpuTarget.
struct LlvmHost {
  std::string triple;
  std::string cpu;
  std::string features;  // "+avx2,-avx512f,...": only what the operating system has enabled
};
LlvmHost llvm_host();
// Kernels are ELF objects on every system, as they are linked here (jit.h). Where objects of the system have another
// format: the same processor under a system of ELF, without the register that Apple's systems keep to themselves.
LlvmHost with_elf(LlvmHost host);

// Every feature that this CPU with these changes has, by LLVM's names; nullopt if LLVM has no such
// CPU.
std::optional<std::set<std::string>> llvm_features(const std::string& triple, const std::string& cpu,
                                                   const std::string& features);

}  // namespace smelt
