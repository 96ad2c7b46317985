// A kernel inside of LLVM: parsed, checked and cleaned up; what all targets share. For the files of this folder alone.
#pragma once

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/CodeGen.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

#include "base/ensure.h"
#include "base/ensure_dump.h"
#include "runtime/source.h"

namespace smelt {

// What LLVM calls a machine.
struct LlvmTarget {
  std::string triple, cpu, features;
};

// REQUIRES: LLVM knows the target.
std::unique_ptr<llvm::TargetMachine> make_target_machine(const LlvmTarget& target, int level);

// Registers the targets that smelt makes code for. Whoever asks LLVM about a target calls it before.
void initialize_llvm();

std::string text_of(llvm::Error error);

// A kernel on its way through LLVM, with what must outlive it. The text is a product of ours: what is wrong with it is
// a bug and stops the process, with the line of the IR.
class Compilation {
 public:
  // `declares_shared`: the text may declare memory that the launch provides.
  Compilation(const Source& source, std::unique_ptr<llvm::TargetMachine> machine, bool declares_shared);

  llvm::Module& module() { return *module_; }
  llvm::Function& entry() { return *module_->getFunction(source_.entry); }
  void run_passes(const std::string& passes);
  std::string emit(llvm::CodeGenFileType type);

 private:
  void check_self_contained(bool declares_shared) const;

  const Source& source_;
  EnsureNote note_;
  EnsureDump dump_;
  llvm::LLVMContext context_;
  std::unique_ptr<llvm::TargetMachine> machine_;
  std::unique_ptr<llvm::Module> module_;
};

}  // namespace smelt
