// CpuDevice: the CPU as the engine sees it. Compiles kernels (through the cache) and owns the
// worker threads.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/target.h"
#include "runtime/kernel_entry.h"
#include "runtime/llvm_compile.h"
#include "runtime/workers.h"

namespace smelt {

struct CpuOptions {
  int threads = 0;        // 0: one for each core that this process may use
  std::string cache_dir;  // of compiled kernels; empty: cache_folder() of base/dirs.h
  bool use_cache = true;
  CodegenOptions codegen;
  std::optional<CpuTarget> target;  // to compile for; this machine must run it. None: host_target()
};

struct CompileStats {
  int compiled = 0;         // by LLVM
  int cached = 0;           // read from the cache
  int shared = 0;           // equal to a kernel that was there already
  double seconds = 0;       // wall clock, all of compile()
  double link_seconds = 0;  // of these: linking
  size_t code_bytes = 0;    // machine code and constants in memory
};

class CpuDevice {
 public:
  static Result<std::unique_ptr<CpuDevice>> open(const CpuOptions& options);
  ~CpuDevice();

  const CpuTarget& target() const;

  // Entries in the order of `sources`; they live as long as the device. Equal sources give equal entries, also across
  // calls. Compiles with as many threads as there are workers. Thread-safe. When `cancel` becomes true no further
  // kernel is begun, and there are no entries. A source with a key in place of its text has no entry (nullptr) where
  // the cache does not hold it.
  std::vector<KernelEntry> compile(std::span<const Source> sources, const ProgressFn& progress = {},
                                   const std::atomic<bool>* cancel = nullptr);

  // Names a source for later compilations, see Source::key.
  std::string key_of(const Source& source) const;

  // Short texts beside the kernels in the cache, each under a question: of this processor and this compiler.
  std::optional<std::string> recall(std::string_view question) const;
  void remember(std::string_view question, std::string_view answer) const;

  // For people: what compile() would make of it.
  std::string assembly(const Source& source) const;

  Workers& workers();

  // Why kernels are not cached although they should be, as a sentence for the user; else empty.
  const std::string& cache_problem() const;
  CompileStats stats() const;  // since open()

 private:
  CpuDevice();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace smelt
