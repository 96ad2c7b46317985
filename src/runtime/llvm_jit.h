// LLVM as a library: IR text in, machine code out. The only place in the program that knows LLVM.
//
// Two halves, so that the on-disk cache (kernel_cache.h) fits between them:
//   compile_object()   IR text -> ELF object of any target; pure, thread-safe
//   Jit::link()        objects of this machine -> entry pointers
// The text is a product of ours: if it does not parse or verify, that is a bug and stops the
// process (ENSURE) with the line of the IR. What the outside can do wrong here is nothing.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "runtime/kernel_entry.h"

namespace smelt {

// The optimiser's share. The compiler upstream has already tiled, unrolled and vectorised; loop
// unrolling, the loop and the SLP vectoriser therefore stay out, and what is left is cleaning up.
// In the syntax of `opt -passes=`.
struct CodegenOptions {
  std::string passes = std::string(kDefaultPasses);
  int level = 2;  // of code generation (instruction selection, scheduling, registers): 0..3

  static const std::string_view kDefaultPasses;
};

// Machine code as a relocatable ELF file that defines `symbol` (the function that the text calls
// source.entry).
std::string compile_object(const Source& source, const std::string& symbol, const CpuTarget& target,
                           const CodegenOptions& options = {});

// For people: the assembly, and the IR after the passes.
std::string assembly(const Source& source, const CpuTarget& target,
                     const CodegenOptions& options = {});
std::string optimised_ir(const Source& source, const CpuTarget& target,
                         const CodegenOptions& options = {});

std::string llvm_version();

// What LLVM finds out about this machine; target.h turns it into a CpuTarget.
struct LlvmHost {
  std::string triple;
  std::string cpu;
  std::string features;  // "+avx2,-avx512f,...": only what the operating system has enabled
};
LlvmHost llvm_host();

// Every feature that this CPU with these changes has, by LLVM's names; nullopt if LLVM has no such
// CPU.
std::optional<std::set<std::string>> llvm_features(const std::string& triple,
                                                   const std::string& cpu,
                                                   const std::string& features);

struct Object {
  std::string_view bytes;
  std::string_view symbol;
};

// Links objects into this process. No page is ever writable and executable: a batch is linked in
// writable pages, which then become read-only (data) or executable (code). All batches share one
// reserved range of addresses, so that code takes one mapping and data another, however many
// kernels there are.
class Jit {
 public:
  static Result<std::unique_ptr<Jit>> create();  // fails where the system grants no addresses
  ~Jit();                                        // the entries die with it
  Jit(const Jit&) = delete;
  Jit& operator=(const Jit&) = delete;

  // Entries in the order of `objects`; nullptr for an object that is not one of ours (its symbol is
  // missing, it calls something outside, it is not ELF of this machine). Symbols must be new to
  // this Jit. Thread-safe.
  std::vector<KernelEntry> link(std::span<const Object> objects);

  // Bytes of machine code and of constants so far.
  size_t code_bytes() const;
  size_t data_bytes() const;

 private:
  Jit();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace smelt
