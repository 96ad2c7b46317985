#include "runtime/llvm_compile.h"

#include <llvm/AsmParser/Parser.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>

#include <mutex>

#include "base/ensure.h"

namespace smelt {

// early-cse first, so that the more expensive passes see less; licm twice, because address
// arithmetic that instcombine has reassociated is invariant only afterwards.
const std::string_view CodegenOptions::kDefaultPasses =
    "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,"
    "loop-mssa(licm),gvn,instcombine<no-verify-fixpoint>,loop-mssa(licm),simplifycfg)";

namespace {

void initialize_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeAllTargetInfos();
    llvm::InitializeAllTargets();
    llvm::InitializeAllTargetMCs();
    llvm::InitializeAllAsmPrinters();
    llvm::InitializeAllAsmParsers();  // instructions on tiles are written as assembly
  });
}

std::string text_of(llvm::Error error) { return llvm::toString(std::move(error)); }

std::unique_ptr<llvm::TargetMachine> make_machine(const CpuTarget& target, int level) {
  initialize_llvm();
  std::string problem;
  const llvm::Target* backend = llvm::TargetRegistry::lookupTarget(target.triple, problem);
  ENSURE(backend, "[llvm] " + problem);

  llvm::TargetOptions options;
  // Only operations that the IR marks `contract` are fused: what is fused is the compiler's
  // decision upstream, and results must not depend on what instruction selection happens to see.
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  auto machine = std::unique_ptr<llvm::TargetMachine>(backend->createTargetMachine(
      target.triple, target.cpu, target.features, options, llvm::Reloc::PIC_,
      llvm::CodeModel::Small, static_cast<llvm::CodeGenOptLevel>(level)));
  ENSURE(machine, "[llvm] no target machine for " + target.triple);
  return machine;
}

// The parser's complaint with the line of the IR that it is about.
std::string describe(const llvm::SMDiagnostic& diagnostic) {
  return "line " + std::to_string(diagnostic.getLineNo()) + ":" +
         std::to_string(diagnostic.getColumnNo() + 1) + ": " + diagnostic.getMessage().str() +
         "\n  " + diagnostic.getLineContents().str();
}

std::unique_ptr<llvm::Module> parse(const Source& source, const llvm::TargetMachine& machine,
                                    llvm::LLVMContext& context) {
  llvm::SMDiagnostic diagnostic;
  std::string layout = machine.createDataLayout().getStringRepresentation();
  auto module =
      llvm::parseAssembly(llvm::MemoryBufferRef(source.text, source.entry), diagnostic, context,
                          nullptr, [&](llvm::StringRef, llvm::StringRef) { return layout; });
  ENSURE(module, "[llvm] " + source.entry + ": the IR does not parse: " + describe(diagnostic));
  module->setTargetTriple(machine.getTargetTriple().str());

  std::string problem;
  llvm::raw_string_ostream out(problem);
  ENSURE(!llvm::verifyModule(*module, &out),
         "[llvm] " + source.entry + ": the IR is not valid: " + problem);
  return module;
}

// One function to call from outside, nothing to call outside, and no memory but the caller's.
void check_self_contained(const llvm::Module& module, const Source& source) {
  const llvm::Function* entry = module.getFunction(source.entry);
  ENSURE(entry && !entry->isDeclaration(),
         "[llvm] the IR does not define its entry " + source.entry);
  for (const llvm::Function& function : module)
    ENSURE(!function.isDeclaration() || function.isIntrinsic() || function.use_empty(),
           "[llvm] " + source.entry + ": the IR calls " + function.getName().str() +
               ", which is not in it");
  for (const llvm::GlobalVariable& global : module.globals())
    ENSURE(global.isConstant() && global.hasInitializer(),
           "[llvm] " + source.entry + ": global " + global.getName().str() + " is not a constant");
}

void set_attributes(llvm::Module& module, const std::string& entry, const CpuTarget& target) {
  for (llvm::Function& function : module) {
    if (function.isDeclaration()) continue;
    bool is_entry = function.getName() == entry;
    function.setLinkage(is_entry ? llvm::GlobalValue::ExternalLinkage
                                 : llvm::GlobalValue::InternalLinkage);
    function.setDSOLocal(true);
    function.setDoesNotThrow();  // leaves out the unwind tables
    function.addFnAttr("target-cpu", target.cpu);
    function.addFnAttr("target-features", target.features);
    // Some CPUs prefer 256 bits for code that mixes widths; here the width was decided upstream.
    std::string bits = std::to_string(target.vector_bytes * 8);
    function.addFnAttr("prefer-vector-width", bits);
    function.addFnAttr("min-legal-vector-width", bits);
    if (is_entry) function.setAlignment(llvm::Align(64));
  }
}

void run_passes(llvm::Module& module, llvm::TargetMachine& machine, const std::string& passes) {
  if (passes.empty()) return;
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  // No library is linked, so nothing may be turned into a call of one.
  llvm::TargetLibraryInfoImpl library(machine.getTargetTriple());
  library.disableAllFunctions();
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(library); });
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  llvm::ModulePassManager manager;
  llvm::Error error = builder.parsePassPipeline(manager, passes);
  ENSURE(!error, "[llvm] pass pipeline '" + passes + "': " + text_of(std::move(error)));
  manager.run(module, modules);
}

// Calls that instruction selection may invent and that link() resolves.
bool is_provided(llvm::StringRef name) {
  return name == "memset" || name == "memcpy" || name == "memmove";
}

// What instruction selection cannot express becomes a call of a library (exp of libm, half
// conversions of compiler-rt).
void check_calls(llvm::StringRef object, const Source& source) {
  auto file =
      llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(object, source.entry));
  ENSURE(bool(file), "[llvm] " + source.entry +
                         ": the object does not read back: " + text_of(file.takeError()));
  for (const llvm::object::SymbolRef& symbol : (*file)->symbols()) {
    llvm::Expected<uint32_t> flags = symbol.getFlags();
    ENSURE(bool(flags), text_of(flags.takeError()));
    if (!(*flags & llvm::object::SymbolRef::SF_Undefined)) continue;
    llvm::Expected<llvm::StringRef> name = symbol.getName();
    ENSURE(bool(name), text_of(name.takeError()));
    ENSURE(name->empty() || name->starts_with("_GLOBAL_OFFSET_TABLE_") || is_provided(*name),
           "[llvm] " + source.entry + ": code generation calls " + name->str() +
               ", which does not exist here");
  }
}

// A module on its way through the steps above, with what must outlive it.
class Compilation {
 public:
  Compilation(const Source& source, const CpuTarget& target, const CodegenOptions& options)
      : note_("compiling kernel " + source.entry),
        machine_(make_machine(target, options.level)),
        module_(parse(source, *machine_, context_)) {
    check_self_contained(*module_, source);
    set_attributes(*module_, source.entry, target);
    run_passes(*module_, *machine_, options.passes);
  }

  llvm::Module& module() { return *module_; }

  std::string emit(llvm::CodeGenFileType type) {
    llvm::SmallVector<char, 0> bytes;
    llvm::raw_svector_ostream out(bytes);
    llvm::legacy::PassManager passes;
    bool unsupported =
        machine_->addPassesToEmitFile(passes, out, nullptr, type, /*DisableVerify=*/true);
    ENSURE(!unsupported, "[llvm] the target cannot emit this kind of file");
    passes.run(*module_);
    return std::string(bytes.begin(), bytes.end());
  }

 private:
  EnsureNote note_;
  llvm::LLVMContext context_;
  std::unique_ptr<llvm::TargetMachine> machine_;
  std::unique_ptr<llvm::Module> module_;
};

}  // namespace

std::string compile_object(const Source& source, const std::string& symbol, const CpuTarget& target,
                           const CodegenOptions& options) {
  Compilation compilation(source, target, options);
  compilation.module().getFunction(source.entry)->setName(symbol);
  std::string object = compilation.emit(llvm::CodeGenFileType::ObjectFile);
  check_calls(object, source);
  return object;
}

std::string assembly(const Source& source, const CpuTarget& target, const CodegenOptions& options) {
  return Compilation(source, target, options).emit(llvm::CodeGenFileType::AssemblyFile);
}

std::string optimised_ir(const Source& source, const CpuTarget& target,
                         const CodegenOptions& options) {
  Compilation compilation(source, target, options);
  std::string text;
  llvm::raw_string_ostream out(text);
  compilation.module().print(out, nullptr);
  return text;
}

std::string llvm_version() { return LLVM_VERSION_STRING; }

LlvmHost llvm_host() {
  LlvmHost host{.triple = llvm::sys::getProcessTriple(),
                .cpu = llvm::sys::getHostCPUName().str(),
                .features = ""};
  std::set<std::string> sorted;  // the map's order is not the same everywhere
  for (const auto& feature : llvm::sys::getHostCPUFeatures())
    sorted.insert((feature.getValue() ? "+" : "-") + feature.getKey().str());
  for (const std::string& feature : sorted)
    host.features += (host.features.empty() ? "" : ",") + feature;
  return host;
}

std::optional<std::set<std::string>> llvm_features(const std::string& triple,
                                                   const std::string& cpu,
                                                   const std::string& features) {
  initialize_llvm();
  std::string problem;
  const llvm::Target* backend = llvm::TargetRegistry::lookupTarget(triple, problem);
  if (!backend) return std::nullopt;
  std::unique_ptr<llvm::MCSubtargetInfo> plain(backend->createMCSubtargetInfo(triple, "", ""));
  if (!plain || !plain->isCPUStringValid(cpu)) return std::nullopt;
  std::unique_ptr<llvm::MCSubtargetInfo> info(
      backend->createMCSubtargetInfo(triple, cpu, features));
  std::set<std::string> names;
  for (const llvm::SubtargetFeatureKV& feature : info->getEnabledProcessorFeatures())
    names.insert(feature.Key);
  return names;
}

}  // namespace smelt
