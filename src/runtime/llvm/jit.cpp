#include "runtime/llvm/jit.h"

#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ExecutorProcessControl.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/TargetParser/Host.h>

#include <cstring>
#include <mutex>
#include <optional>
#include <string>

#include "runtime/llvm/jit_memory.h"

namespace smelt {
namespace {

// JITLink would link another machine's code just as well.
bool is_of_this_machine(const Object& object) {
  static const llvm::Triple::ArchType here = llvm::Triple(llvm::sys::getProcessTriple()).getArch();
  auto file = llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(object.bytes, object.symbol));
  if (file) return (*file)->getArch() == here;
  llvm::consumeError(file.takeError());
  return false;
}

}  // namespace

struct Jit::State {
  ReservedRange range;
  std::optional<BatchMemory> memory;
  std::optional<llvm::orc::ExecutionSession> session;
  std::optional<llvm::orc::ObjectLinkingLayer> layer;
  llvm::orc::JITDylib* kernels = nullptr;
  mutable std::mutex mutex;

  llvm::Error start(const Jit::Calls& calls) {
    memory.emplace(range.code(), range.data());
    auto control =
        llvm::orc::SelfExecutorProcessControl::Create(nullptr, std::make_unique<llvm::orc::InPlaceTaskDispatcher>());
    if (!control) return control.takeError();
    session.emplace(std::move(*control));
    // Failures come back through lookup(); printed as well they would be noise.
    session->setErrorReporter([](llvm::Error error) { llvm::consumeError(std::move(error)); });
    layer.emplace(*session, *memory);
    kernels = &session->createBareJITDylib("kernels");
    return provide_calls(calls);
  }

  template <class F>
  std::pair<llvm::orc::SymbolStringPtr, llvm::orc::ExecutorSymbolDef> provided(const char* name, F* function) {
    return {session->intern(name), {llvm::orc::ExecutorAddr::fromPtr(function), llvm::JITSymbolFlags::Exported}};
  }

  // The only symbols from outside; of kernels that LLVM compiles see is_provided of compile.cpp.
  llvm::Error provide_calls(const Jit::Calls& further) {
    llvm::orc::SymbolMap calls;
    for (const auto& [name, function] : further) calls.insert(provided(name, function));
    calls.insert(provided("memset", &std::memset));
    calls.insert(provided("memcpy", static_cast<void* (*)(void*, const void*, size_t)>(&std::memcpy)));
    calls.insert(provided("memmove", static_cast<void* (*)(void*, const void*, size_t)>(&std::memmove)));
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
  std::vector<KernelEntry> look_up(std::span<const Object> objects, const std::vector<bool>& added) {
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
        entries.push_back(all ? (*all)[symbols[i]].getAddress().toPtr<KernelEntry>() : look_up_one(symbols[i]));
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

Result<std::unique_ptr<Jit>> Jit::create(const Calls& calls) {
  std::unique_ptr<Jit> jit(new Jit);
  if (!jit->state_->range)
    return Error{
        "[jit] address space: the system grants no range for compiled kernels; raise the limit "
        "(ulimit -v)"};
  if (llvm::Error error = jit->state_->start(calls))
    return Error{"[jit] LLVM: " + llvm::toString(std::move(error)) + "; report this with the CPU's name"};
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
