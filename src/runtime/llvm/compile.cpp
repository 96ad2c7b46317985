#include "runtime/llvm/compile.h"

#include <llvm/Config/llvm-config.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/TargetParser/Host.h>

#include <algorithm>

#include "base/ensure.h"
#include "runtime/llvm/line_marks.h"
#include "runtime/llvm/module.h"

namespace smelt {

// early-cse first, so that the more expensive passes see less; licm twice, because address
// arithmetic that instcombine has reassociated is invariant only afterwards.
const std::string_view CodegenOptions::kDefaultPasses =
    "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,"
    "loop-mssa(licm),gvn,instcombine<no-verify-fixpoint>,loop-mssa(licm),simplifycfg)";

namespace {

// Vectors that find no register lie on the stack. Where they cross cache lines there, a load and a store take twice as
// long, and LLVM cannot move the stack to whole lines any more once it knows that it will need it.
bool may_spill_vectors(const llvm::Function& function) {
  constexpr size_t kFewVectors = 128;  // in the body: they find registers
  size_t vectors = 0;
  for (const llvm::BasicBlock& block : function)
    vectors += static_cast<size_t>(std::count_if(block.begin(), block.end(),
                                                 [](const llvm::Instruction& x) { return x.getType()->isVectorTy(); }));
  return vectors > kFewVectors;
}

void set_attributes(llvm::Module& module, const std::string& entry, const CpuTarget& target) {
  for (llvm::Function& function : module) {
    if (function.isDeclaration()) continue;
    bool is_entry = function.getName() == entry;
    function.setLinkage(is_entry ? llvm::GlobalValue::ExternalLinkage : llvm::GlobalValue::InternalLinkage);
    function.setDSOLocal(true);
    function.setDoesNotThrow();  // leaves out the unwind tables
    function.addFnAttr("target-cpu", target.cpu);
    function.addFnAttr("target-features", target.features);
    // Some CPUs prefer 256 bits for code that mixes widths; here the width was decided upstream.
    std::string bits = std::to_string(target.vector_bytes * 8);
    function.addFnAttr("prefer-vector-width", bits);
    function.addFnAttr("min-legal-vector-width", bits);
    if (may_spill_vectors(function)) function.addFnAttr("stackrealign");
    function.addFnAttr("warn-stack-size", std::to_string(kMostStackOfFunction));
    if (is_entry) function.setAlignment(llvm::Align(64));
  }
}

void check_stack(const llvm::DiagnosticInfo* diagnostic, void*) {
  if (diagnostic->getKind() != llvm::DK_StackSize) return;
  const auto& info = *llvm::cast<llvm::DiagnosticInfoStackSize>(diagnostic);
  ENSURE(info.getStackSize() <= info.getStackLimit(),
         "[llvm] " + info.getFunction().getName().str() + " takes " + std::to_string(info.getStackSize()) +
             " bytes of the stack, and " + std::to_string(info.getStackLimit()) + " are the most");
}

// Calls that instruction selection may invent and that link() resolves.
bool is_provided(llvm::StringRef name) { return name == "memset" || name == "memcpy" || name == "memmove"; }

// What instruction selection cannot express becomes a call of a library (exp of libm, half
// conversions of compiler-rt).
void check_calls(llvm::StringRef object, const Source& source) {
  auto file = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(object, source.entry));
  ENSURE(bool(file), "[llvm] " + source.entry + ": the object does not read back: " + text_of(file.takeError()));
  for (const llvm::object::SymbolRef& symbol : (*file)->symbols()) {
    llvm::Expected<uint32_t> flags = symbol.getFlags();
    ENSURE(bool(flags), text_of(flags.takeError()));
    if (!(*flags & llvm::object::SymbolRef::SF_Undefined)) continue;
    llvm::Expected<llvm::StringRef> name = symbol.getName();
    ENSURE(bool(name), text_of(name.takeError()));
    ENSURE(name->empty() || name->starts_with("_GLOBAL_OFFSET_TABLE_") || is_provided(*name),
           "[llvm] " + source.entry + ": code generation calls " + name->str() + ", which does not exist here");
  }
}

// A kernel for a CPU, as the passes leave it.
class CpuCompilation : public Compilation {
 public:
  CpuCompilation(const Source& source, const CpuTarget& target, const CodegenOptions& options, bool marked = false)
      : Compilation(source, make_target_machine({target.triple, target.cpu, target.features}, options.level), false) {
    set_attributes(module(), source.entry, target);
    module().getContext().setDiagnosticHandlerCallBack(check_stack);
    if (marked) mark_lines(module(), source.text);
    run_passes(options.passes);
  }
};

}  // namespace

std::string compile_object(const Source& source, const std::string& symbol, const CpuTarget& target,
                           const CodegenOptions& options) {
  CpuCompilation compilation(source, target, options);
  compilation.entry().setName(symbol);
  std::string object = compilation.emit(llvm::CodeGenFileType::ObjectFile);
  check_calls(object, source);
  return object;
}

std::string assembly(const Source& source, const CpuTarget& target, const CodegenOptions& options) {
  return CpuCompilation(source, target, options).emit(llvm::CodeGenFileType::AssemblyFile);
}

Assembly linked_assembly(const Source& source, const CpuTarget& target, const CodegenOptions& options) {
  return with_lines(assembly(source, target, options),
                    CpuCompilation(source, target, options, true).emit(llvm::CodeGenFileType::AssemblyFile));
}

std::string optimised_ir(const Source& source, const CpuTarget& target, const CodegenOptions& options) {
  CpuCompilation compilation(source, target, options);
  std::string text;
  llvm::raw_string_ostream out(text);
  compilation.module().print(out, nullptr);
  return text;
}

std::string llvm_version() { return LLVM_VERSION_STRING; }

LlvmHost llvm_host() {
  LlvmHost host{.triple = llvm::sys::getProcessTriple(), .cpu = llvm::sys::getHostCPUName().str(), .features = ""};
  std::set<std::string> sorted;  // the map's order is not the same everywhere
  for (const auto& feature : llvm::sys::getHostCPUFeatures())
    sorted.insert((feature.getValue() ? "+" : "-") + feature.getKey().str());
  for (const std::string& feature : sorted) host.features += (host.features.empty() ? "" : ",") + feature;
  return host;
}

LlvmHost with_elf(LlvmHost host) {
  const llvm::Triple triple(host.triple);
  if (triple.isOSBinFormatELF()) return host;
  host.triple = triple.isAArch64() ? "aarch64-unknown-linux-gnu" : "x86_64-unknown-linux-gnu";
  if (triple.isAArch64()) host.features += std::string(host.features.empty() ? "" : ",") + "+reserve-x18";
  return host;
}

std::optional<std::set<std::string>> llvm_features(const std::string& triple, const std::string& cpu,
                                                   const std::string& features) {
  initialize_llvm();
  std::string problem;
  const llvm::Target* backend = llvm::TargetRegistry::lookupTarget(triple, problem);
  if (!backend) return std::nullopt;
  std::unique_ptr<llvm::MCSubtargetInfo> plain(backend->createMCSubtargetInfo(triple, "", ""));
  if (!plain || !plain->isCPUStringValid(cpu)) return std::nullopt;
  std::unique_ptr<llvm::MCSubtargetInfo> info(backend->createMCSubtargetInfo(triple, cpu, features));
  std::set<std::string> names;
  for (const llvm::SubtargetFeatureKV& feature : info->getEnabledProcessorFeatures()) names.insert(feature.Key);
  return names;
}

}  // namespace smelt
