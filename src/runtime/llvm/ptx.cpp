#include "runtime/llvm/ptx.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/Metadata.h>

#include <algorithm>
#include <array>

#include "base/resident_blocks.h"
#include "runtime/llvm/compile.h"
#include "runtime/llvm/line_marks.h"
#include "runtime/llvm/module.h"

namespace smelt {
namespace {

constexpr const char* kTriple = "nvptx64-nvidia-cuda";
constexpr const char* kFeatures = "+ptx80";  // the first that has wgmma; drivers of CUDA 12 and later
constexpr int kLevel = 3;                    // neighbouring loads become one there

struct Architecture {
  int capability;
  const char* name;
};
constexpr std::array kArchitectures = {Architecture{75, "sm_75"}, Architecture{80, "sm_80"}, Architecture{86, "sm_86"},
                                       Architecture{89, "sm_89"}, Architecture{90, "sm_90a"}};

bool has_products(const Source& source) {
  return source.text.find("llvm.nvvm.mma.") != std::string::npos || source.text.find("wgmma.") != std::string::npos;
}

// Ready for blocks of exactly so many threads, which tells the driver how many registers each may have.
void annotate(llvm::Function& entry, int threads, bool has_products) {
  llvm::LLVMContext& context = entry.getContext();
  const auto note = [&](const char* what, int value) {
    llvm::Type* i32 = llvm::Type::getInt32Ty(context);
    llvm::Metadata* fields[] = {llvm::ValueAsMetadata::get(&entry), llvm::MDString::get(context, what),
                                llvm::ConstantAsMetadata::get(llvm::ConstantInt::get(i32, value))};
    entry.getParent()->getOrInsertNamedMetadata("nvvm.annotations")->addOperand(llvm::MDNode::get(context, fields));
  };
  entry.setCallingConv(llvm::CallingConv::PTX_Kernel);
  note("kernel", 1);
  note("reqntidx", threads);
  note("reqntidy", 1);
  note("reqntidz", 1);
  note("minctasm", resident_blocks(threads, has_products));
}

// What a launch does not write is read by lines: L2 asks memory for all of one when the first part of it is wanted.
// Threads side by side want 32 bytes of one place and then, by another instruction, those behind them, while memory
// gives 64 at once. LLVM has no word for it.
std::string with_whole_lines(std::string text) {
  constexpr std::string_view kLoad = "ld.global.nc.", kOfLine = "L2::128B.";
  for (size_t at = text.find(kLoad); at != std::string::npos; at = text.find(kLoad, at + kLoad.size()))
    text.insert(at + kLoad.size(), kOfLine);
  return text;
}

std::string ptx_of(const Source& source, std::string_view architecture, bool marked) {
  Compilation compilation(source, make_target_machine({kTriple, std::string(architecture), kFeatures}, kLevel), true);
  for (llvm::Function& function : compilation.module())
    if (!function.isDeclaration()) function.setDoesNotThrow();
  if (marked) mark_lines(compilation.module(), source.text);
  annotate(compilation.entry(), source.shape.threads, has_products(source));
  compilation.run_passes(std::string(CodegenOptions::kDefaultPasses));
  return with_whole_lines(compilation.emit(llvm::CodeGenFileType::AssemblyFile));
}

}  // namespace

std::string compile_ptx(const Source& source, std::string_view architecture) {
  return ptx_of(source, architecture, false);
}

Assembly linked_ptx(const Source& source, std::string_view architecture) {
  return with_lines(compile_ptx(source, architecture), ptx_of(source, architecture, true));
}

std::string ptx_architecture(int major, int minor) {
  const int capability = 10 * major + minor;
  if (capability > kArchitectures.back().capability) return "sm_90";  // of sm_90a nothing but a 9.0 takes PTX
  std::string name;
  for (const Architecture& a : kArchitectures)
    if (a.capability <= capability) name = a.name;
  return name;
}

std::string ptx_pipeline() {
  return std::string(CodegenOptions::kDefaultPasses) + " O" + std::to_string(kLevel) + " " + kFeatures + " " +
         std::to_string(kResidentThreads) + " threads, reads of lines";
}

}  // namespace smelt
