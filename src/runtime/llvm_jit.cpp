#include "runtime/llvm_jit.h"

#include <llvm/AsmParser/Parser.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>
#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ExecutorProcessControl.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
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
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
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

// --- compiling

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

// --- linking

size_t page_size() {
  static const size_t size = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

size_t up_to(size_t value, size_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// A range of reserved addresses that fills up from the front. Pages are first unusable, then
// writable while a batch is linked into them, then sealed for good.
class Region {
 public:
  Region(char* base, size_t size, int sealed_protection)
      : base_(base), size_(size), sealed_protection_(sealed_protection) {}

  // Writable memory, or nullptr if the range is full.
  char* take(size_t bytes, size_t alignment) {
    size_t begin = up_to(used_, alignment), end = begin + bytes;
    if (end > size_) return nullptr;
    size_t open_end = up_to(end, page_size());
    if (open_end > open_end_) {
      if (::mprotect(base_ + open_end_, open_end - open_end_, PROT_READ | PROT_WRITE) != 0)
        return nullptr;
      open_end_ = open_end;
    }
    used_ = end;
    payload_ += bytes;
    return base_ + begin;
  }

  void seal() {
    if (open_end_ == sealed_end_) return;
    char* begin = base_ + sealed_end_;
    size_t bytes = open_end_ - sealed_end_;
    __builtin___clear_cache(begin, begin + bytes);
    ENSURE(::mprotect(begin, bytes, sealed_protection_) == 0,
           "[jit] the system refuses to seal linked pages");
    used_ = sealed_end_ = open_end_;
  }

  size_t payload() const { return payload_; }

 private:
  char* base_;
  size_t size_;
  int sealed_protection_;
  size_t used_ = 0, open_end_ = 0, sealed_end_ = 0, payload_ = 0;
};

// JITLink would link another machine's code just as well.
bool is_of_this_machine(const Object& object) {
  static const llvm::Triple::ArchType here = llvm::Triple(llvm::sys::getProcessTriple()).getArch();
  auto file = llvm::object::ObjectFile::createELFObjectFile(
      llvm::MemoryBufferRef(object.bytes, object.symbol));
  if (file) return (*file)->getArch() == here;
  llvm::consumeError(file.takeError());
  return false;
}

// Code in front, constants behind: both within reach of 32-bit relative addresses.
class ReservedRange {
 public:
  ReservedRange() {
    for (size_t size : {size_t{512} << 20, size_t{64} << 20}) {
      void* memory =
          ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (memory == MAP_FAILED) continue;
      base_ = static_cast<char*>(memory);
      size_ = size;
      return;
    }
  }
  ~ReservedRange() {
    if (base_) ::munmap(base_, size_);
  }
  ReservedRange(const ReservedRange&) = delete;
  ReservedRange& operator=(const ReservedRange&) = delete;

  explicit operator bool() const { return base_ != nullptr; }
  Region code() const { return {base_, size_ / 4 * 3, PROT_READ | PROT_EXEC}; }
  Region data() const { return {base_ + size_ / 4 * 3, size_ / 4, PROT_READ}; }

 private:
  char* base_ = nullptr;
  size_t size_ = 0;
};

// Places what JITLink links. Objects lie side by side, not on pages of their own; protection
// changes once per batch (seal), which is sound because nothing runs before link() has returned.
// Nothing is given back before the end.
class BatchMemory : public llvm::jitlink::JITLinkMemoryManager {
 public:
  BatchMemory(Region code, Region data) : code_(code), data_(data) {}

  void allocate(const llvm::jitlink::JITLinkDylib*, llvm::jitlink::LinkGraph& graph,
                OnAllocatedFunction on_allocated) override {
    llvm::jitlink::BasicLayout layout(graph);
    for (auto& [group, segment] : layout.segments()) {
      bool is_code =
          llvm::orc::toSysMemoryProtectionFlags(group.getMemProt()) & llvm::sys::Memory::MF_EXEC;
      size_t bytes = segment.ContentSize + segment.ZeroFillSize;
      char* memory =
          (is_code ? code_ : data_).take(bytes, std::max<size_t>(64, segment.Alignment.value()));
      if (!memory)
        return on_allocated(llvm::make_error<llvm::StringError>("no room left for kernels",
                                                                llvm::inconvertibleErrorCode()));
      segment.WorkingMem = memory;
      segment.Addr = llvm::orc::ExecutorAddr::fromPtr(memory);
    }
    if (llvm::Error error = layout.apply()) return on_allocated(std::move(error));
    on_allocated(std::make_unique<InFlight>());
  }

  void deallocate(std::vector<FinalizedAlloc> allocations,
                  OnDeallocatedFunction on_deallocated) override {
    for (FinalizedAlloc& allocation : allocations) allocation.release();
    on_deallocated(llvm::Error::success());
  }

  using JITLinkMemoryManager::allocate;
  using JITLinkMemoryManager::deallocate;

  void seal() {
    code_.seal();
    data_.seal();
  }
  size_t code_bytes() const { return code_.payload(); }
  size_t data_bytes() const { return data_.payload(); }

 private:
  struct InFlight : InFlightAlloc {
    void finalize(OnFinalizedFunction on_finalized) override {
      on_finalized(FinalizedAlloc(llvm::orc::ExecutorAddr(1)));  // no state to find again
    }
    void abandon(OnAbandonedFunction on_abandoned) override {
      on_abandoned(llvm::Error::success());
    }
  };

  Region code_, data_;
};

}  // namespace

// --- compiling

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

// --- linking

struct Jit::State {
  ReservedRange range;
  std::optional<BatchMemory> memory;
  std::optional<llvm::orc::ExecutionSession> session;
  std::optional<llvm::orc::ObjectLinkingLayer> layer;
  llvm::orc::JITDylib* kernels = nullptr;
  mutable std::mutex mutex;

  llvm::Error start() {
    memory.emplace(range.code(), range.data());
    auto control = llvm::orc::SelfExecutorProcessControl::Create(
        nullptr, std::make_unique<llvm::orc::InPlaceTaskDispatcher>());
    if (!control) return control.takeError();
    session.emplace(std::move(*control));
    // Failures come back through lookup(); printed as well they would be noise.
    session->setErrorReporter([](llvm::Error error) { llvm::consumeError(std::move(error)); });
    layer.emplace(*session, *memory);
    kernels = &session->createBareJITDylib("kernels");
    return provide_calls();
  }

  template <class F>
  std::pair<llvm::orc::SymbolStringPtr, llvm::orc::ExecutorSymbolDef> provided(const char* name,
                                                                               F* function) {
    return {session->intern(name),
            {llvm::orc::ExecutorAddr::fromPtr(function), llvm::JITSymbolFlags::Exported}};
  }

  // The only symbols from outside: see is_provided.
  llvm::Error provide_calls() {
    llvm::orc::SymbolMap calls;
    calls.insert(provided("memset", &std::memset));
    calls.insert(
        provided("memcpy", static_cast<void* (*)(void*, const void*, size_t)>(&std::memcpy)));
    calls.insert(
        provided("memmove", static_cast<void* (*)(void*, const void*, size_t)>(&std::memmove)));
    return kernels->define(llvm::orc::absoluteSymbols(std::move(calls)));
  }

  bool add(const Object& object) {
    if (!is_of_this_machine(object)) return false;
    auto buffer = llvm::MemoryBuffer::getMemBufferCopy(object.bytes, object.symbol);
    llvm::Error error = layer->add(*kernels, std::move(buffer));
    bool added = !error;
    llvm::consumeError(std::move(error));
    return added;
  }

  // Links all of them at once; only if that fails one after the other, to find out which are bad.
  std::vector<KernelEntry> look_up(std::span<const Object> objects,
                                   const std::vector<bool>& added) {
    llvm::orc::SymbolLookupSet names;
    std::vector<llvm::orc::SymbolStringPtr> symbols;
    for (size_t i = 0; i < objects.size(); ++i) {
      symbols.push_back(session->intern(objects[i].symbol));
      if (added[i]) names.add(symbols.back());
    }
    auto all = session->lookup(llvm::orc::makeJITDylibSearchOrder(kernels), std::move(names));
    std::vector<KernelEntry> entries;
    for (size_t i = 0; i < objects.size(); ++i) {
      if (!added[i])
        entries.push_back(nullptr);
      else
        entries.push_back(all ? (*all)[symbols[i]].getAddress().toPtr<KernelEntry>()
                              : look_up_one(symbols[i]));
    }
    if (!all) llvm::consumeError(all.takeError());
    return entries;
  }

  KernelEntry look_up_one(llvm::orc::SymbolStringPtr symbol) {
    auto found = session->lookup(llvm::orc::makeJITDylibSearchOrder(kernels), std::move(symbol));
    if (found) return found->getAddress().toPtr<KernelEntry>();
    llvm::consumeError(found.takeError());
    return nullptr;
  }
};

Jit::Jit() : state_(std::make_unique<State>()) {}

Result<std::unique_ptr<Jit>> Jit::create() {
  std::unique_ptr<Jit> jit(new Jit);
  if (!jit->state_->range)
    return Error{
        "[jit] address space: the system grants no range for compiled kernels; raise the limit "
        "(ulimit -v)"};
  if (llvm::Error error = jit->state_->start())
    return Error{"[jit] LLVM: " + text_of(std::move(error)) + "; report this with the CPU's name"};
  return jit;
}

Jit::~Jit() {
  if (state_->session) llvm::consumeError(state_->session->endSession());
}

std::vector<KernelEntry> Jit::link(std::span<const Object> objects) {
  std::lock_guard lock(state_->mutex);
  std::vector<bool> added;
  for (const Object& object : objects) added.push_back(state_->add(object));
  std::vector<KernelEntry> entries = state_->look_up(objects, added);
  state_->memory->seal();
  return entries;
}

size_t Jit::code_bytes() const {
  std::lock_guard lock(state_->mutex);
  return state_->memory->code_bytes();
}

size_t Jit::data_bytes() const {
  std::lock_guard lock(state_->mutex);
  return state_->memory->data_bytes();
}

}  // namespace smelt
