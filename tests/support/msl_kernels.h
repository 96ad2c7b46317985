// MslKernels: programs as kernels in the Metal Shading Language, compiled in one go, and run with every access checked
// (runtime/metal_shim/).
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/machine.h"
#include "codegen/program_eval.h"
#include "engine/kernel_builder.h"
#include "runtime/llvm/jit.h"
#include "runtime/memory.h"
#include "runtime/metal_shim/compile.h"
#include "runtime/metal_shim/threadgroup.h"

namespace smelt::test {

inline const ShimCompiler& shim_compiler() {
  static const ShimCompiler compiler = find_shim_compiler().take();
  return compiler;
}

inline Source msl_source(const Program& program) {
  static const Machine apple = *known_machine("m3-max");
  return source_of(program, apple);
}

class MslKernels {
 public:
  explicit MslKernels(std::span<const Source> sources) {
    const std::string object = compile_msl(shim_compiler(), sources, "kernels").take();
    jit_ = Jit::create(shim_calls()).take();
    const Object all{object, "kernels"};
    const ShimEntry entry = shim_entry(jit_->link({&all, 1})[0]);
    REQUIRE(bool(entry));
    for (const Source& s : sources)
      kernels_.push_back({entry, static_cast<uint32_t>(kernels_.size()), s.shape, s.entry});
  }

  // What a thread does wrong, or empty. The kernel works on copies: buffers of a GPU are aligned.
  std::string run(size_t kernel, std::span<const ByteSpan> buffers, std::span<const int64_t> symbols,
                  uint32_t parts) const {
    std::map<const std::byte*, Buffer> copies;  // by where they are from
    std::vector<void*> pointers;
    std::vector<MemoryRegion> regions;
    for (size_t i = 0; i < buffers.size(); ++i) {
      auto& copy = copies.try_emplace(buffers[i].data()).first->second;
      if (!copy.data()) {
        copy = Buffer::allocate(std::max<size_t>(buffers[i].size(), 1)).take();
        std::copy(buffers[i].begin(), buffers[i].end(), copy.data());
      }
      pointers.push_back(copy.data());
      regions.push_back({"buffer " + std::to_string(i), copy.data(), buffers[i].size()});
    }
    MemoryChecks checks;
    const Status done = run_checked(
        {.kernel = &kernels_[kernel], .buffers = pointers, .symbols = symbols, .parts = parts}, regions, checks);
    for (const ByteSpan& b : buffers) std::copy_n(copies.at(b.data()).data(), b.size(), b.data());
    return done ? "" : done.error().message;
  }

 private:
  std::unique_ptr<Jit> jit_;
  std::vector<ShimKernel> kernels_;
};

}  // namespace smelt::test
