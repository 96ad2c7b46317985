#include "runtime/llvm/module.h"

#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/TargetSelect.h>

#include <mutex>
#include <new>

namespace smelt {
namespace {

// The parser's complaint with the line of the IR that it is about.
std::string describe(const llvm::SMDiagnostic& diagnostic) {
  return "line " + std::to_string(diagnostic.getLineNo()) + ":" + std::to_string(diagnostic.getColumnNo() + 1) + ": " +
         diagnostic.getMessage().str() + "\n  " + diagnostic.getLineContents().str();
}

std::unique_ptr<llvm::Module> parse(const Source& source, const llvm::TargetMachine& machine,
                                    llvm::LLVMContext& context) {
  llvm::SMDiagnostic diagnostic;
  std::string layout = machine.createDataLayout().getStringRepresentation();
  auto module = llvm::parseAssembly(llvm::MemoryBufferRef(source.text, source.entry), diagnostic, context, nullptr,
                                    [&](llvm::StringRef, llvm::StringRef) { return layout; });
  ENSURE(module, "[llvm] " + source.entry + ": the IR does not parse: " + describe(diagnostic));
  module->setTargetTriple(machine.getTargetTriple().str());

  std::string problem;
  llvm::raw_string_ostream out(problem);
  ENSURE(!llvm::verifyModule(*module, &out), "[llvm] " + source.entry + ": the IR is not valid: " + problem);
  return module;
}

// LLVM ends the process by itself where the rest of the program says a sentence first (app/failures.h).
void on_memory_exhausted(void*, const char*, bool) {
  if (const std::new_handler handler = std::get_new_handler()) handler();
}

}  // namespace

void initialize_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
  // By name and not all of them: a portable build links these alone.
#define SMELT_LLVM_TARGET(name)       \
  LLVMInitialize##name##TargetInfo(); \
  LLVMInitialize##name##Target();     \
  LLVMInitialize##name##TargetMC();   \
  LLVMInitialize##name##AsmPrinter()
    SMELT_LLVM_TARGET(X86);
    SMELT_LLVM_TARGET(AArch64);
    SMELT_LLVM_TARGET(NVPTX);
#undef SMELT_LLVM_TARGET
    llvm::install_bad_alloc_error_handler(on_memory_exhausted);
    LLVMInitializeX86AsmParser();  // instructions on tiles are written as assembly
    LLVMInitializeAArch64AsmParser();
  });
}

std::string text_of(llvm::Error error) { return llvm::toString(std::move(error)); }

std::unique_ptr<llvm::TargetMachine> make_target_machine(const LlvmTarget& target, int level) {
  initialize_llvm();
  std::string problem;
  const llvm::Target* backend = llvm::TargetRegistry::lookupTarget(target.triple, problem);
  ENSURE(backend, "[llvm] " + problem);

  llvm::TargetOptions options;
  // What is fused is decided upstream (Op::Fma): results must not depend on what instruction selection happens to see.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  auto machine = std::unique_ptr<llvm::TargetMachine>(
      backend->createTargetMachine(target.triple, target.cpu, target.features, options, llvm::Reloc::PIC_,
                                   llvm::CodeModel::Small, static_cast<llvm::CodeGenOptLevel>(level)));
  ENSURE(machine, "[llvm] no target machine for " + target.triple);
  return machine;
}

Compilation::Compilation(const Source& source, std::unique_ptr<llvm::TargetMachine> machine, bool declares_shared)
    : source_(source),
      note_("compiling kernel " + source.entry),
      dump_(source.leave),
      machine_(std::move(machine)),
      module_(parse(source, *machine_, context_)) {
  check_self_contained(declares_shared);
}

// One function to call from outside, nothing to call outside, and no memory but the caller's.
void Compilation::check_self_contained(bool declares_shared) const {
  const llvm::Function* entry = module_->getFunction(source_.entry);
  ENSURE(entry && !entry->isDeclaration(), "[llvm] the IR does not define its entry " + source_.entry);
  for (const llvm::Function& function : *module_)
    ENSURE(!function.isDeclaration() || function.isIntrinsic() || function.use_empty(),
           "[llvm] " + source_.entry + ": the IR calls " + function.getName().str() + ", which is not in it");
  for (const llvm::GlobalVariable& global : module_->globals())
    ENSURE((global.isConstant() && global.hasInitializer()) || (declares_shared && global.isDeclaration()),
           "[llvm] " + source_.entry + ": global " + global.getName().str() + " is not a constant");
}

void Compilation::run_passes(const std::string& passes) {
  if (passes.empty()) return;
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  // No library is linked, so nothing may be turned into a call of one.
  llvm::TargetLibraryInfoImpl library(machine_->getTargetTriple());
  library.disableAllFunctions();
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(library); });
  llvm::PassBuilder builder(machine_.get());
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  llvm::ModulePassManager manager;
  llvm::Error error = builder.parsePassPipeline(manager, passes);
  ENSURE(!error, "[llvm] pass pipeline '" + passes + "': " + text_of(std::move(error)));
  manager.run(*module_, modules);
}

std::string Compilation::emit(llvm::CodeGenFileType type) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  llvm::legacy::PassManager passes;
  bool unsupported = machine_->addPassesToEmitFile(passes, out, nullptr, type, /*DisableVerify=*/true);
  ENSURE(!unsupported, "[llvm] the target cannot emit this kind of file");
  passes.run(*module_);
  return std::string(bytes.begin(), bytes.end());
}

}  // namespace smelt
