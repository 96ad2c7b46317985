// CompilingDevice: what all devices that run kernels do alike: a kernel is made once from its text, and kept under its
// key, in the process and on disk. A device says what it makes of a text, and how that becomes a kernel.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "runtime/kernel_cache.h"

namespace smelt {

struct CompilingSetup {
  // What machine code depends on beside text and entry, see KernelIdentity.
  std::string triple, cpu, features, compiler, pipeline, version;
  bool keyed_by_shape = true;  // the launch shape is part of what the cache keeps (packed_kernel.h)
  int threads = 1;             // that compile side by side
  std::string cache_dir;       // empty: cache_folder() of base/dirs.h
  bool use_cache = true;
};

class CompilingDevice : public Device {
 public:
  Result<std::vector<const Executable*>> compile(std::span<const Source> sources, const ProgressFn& progress = {},
                                                 const std::atomic<bool>* cancel = nullptr) final;
  std::string key_of(const Source& source) const final;
  std::optional<std::string> recall(std::string_view question) const final;
  void remember(std::string_view question, std::string_view answer) const final;
  std::string cache_problem() const final { return cache_.problem; }
  CompileStats stats() const final;

 protected:
  // A kernel of a batch that is not in the process yet.
  struct Pending {
    const Source* source = nullptr;
    KernelKey key = {};
    std::string entry = {};  // as the cache keeps it
    bool from_cache = false;
    Status problem = {};
  };

  // Once, before all else.
  void set_up(CompilingSetup setup);
  // To be called by link(), for each kernel.
  void keep(const Pending& kernel, std::unique_ptr<const Executable> made);

 private:
  // What the cache is to keep of a kernel. In any thread, several at once.
  virtual Result<std::string> make_entry(const Source& source, const KernelKey& key) const = 0;
  // Makes kernels of such entries. One call at a time.
  virtual Status link(std::span<const Pending> batch) = 0;
  // Of all kernels in the process. Not while link() runs.
  virtual size_t code_bytes() const = 0;

  KernelKey find_key(const Source& source) const;
  KernelKey find_key(std::string_view text, std::string_view entry) const;
  void load_or_make(Pending& kernel) const;
  Status link_known(std::vector<Pending> batch);

  CompilingSetup setup_;
  OpenedKernelCache cache_;

  mutable std::mutex compiling_;                                      // of what follows; held while a batch compiles
  std::map<std::string, std::unique_ptr<const Executable>> kernels_;  // by key
  CompileStats stats_;
};

}  // namespace smelt
