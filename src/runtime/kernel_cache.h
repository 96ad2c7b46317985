// The kernel cache: compiled objects on disk, so that a model's second start compiles nothing.
//
// A directory of files, one per kernel, named by key. An entry:
//   magic "smeltkrn" | u32 format | u32 identity bytes | u64 object bytes
//   u128 key | u128 checksum of all the rest
//   identity text (entry name, target, LLVM version, pass pipeline, our version) | ELF object
// Everything little-endian. An entry is used only if length, checksum, key and identity all agree;
// anything else is treated as absent and gets replaced. Files appear by rename and so whole or not
// at all; any number of processes may use one directory. Nobody else's files are believed:
// directory and entries must belong to this user and be writable by nobody else. A cache that
// cannot be used is no error: load() finds nothing and store() does nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace smelt {

// Everything that machine code depends on.
struct KernelIdentity {
  std::string_view text;  // the IR
  std::string_view entry;
  std::string_view triple;
  std::string_view cpu;
  std::string_view features;
  std::string_view compiler;  // name and version of the compiler below us
  std::string_view pipeline;  // passes and code generation level
  std::string_view version;   // ours
};

struct KernelKey {
  uint64_t low = 0, high = 0;  // xxh3-128 of `identity` and of the IR
  std::string identity;        // what is written out: all but the IR, one "name=value" a line

  std::string hex() const;
};
KernelKey make_key(const KernelIdentity& identity);

// A key as text, and back. Nothing where the text is none.
std::string format_key(const KernelKey& key);
std::optional<KernelKey> parse_key(std::string_view text);

// The file image of an entry, and back. parse_entry gives a view into `file`, or nothing if it is
// not an intact entry for exactly this key.
std::string format_entry(const KernelKey& key, std::string_view object);
std::optional<std::string_view> parse_entry(std::string_view file, const KernelKey& key);

class KernelCache {
 public:
  static constexpr uint64_t kDefaultByteLimit = 512ull << 20;

  // An empty directory name, or one that cannot be created or belongs to somebody else, makes a
  // cache without effect.
  explicit KernelCache(std::string directory, uint64_t byte_limit = kDefaultByteLimit);

  bool usable() const { return usable_; }
  const std::string& directory() const { return directory_; }

  // Thread-safe, both.
  std::optional<std::string> load(const KernelKey& key);
  void store(const KernelKey& key, std::string_view object);

  // Removes the entries that were used longest ago until at most `bytes` are left, and the remains
  // of writers that died. store() does this by itself when the byte limit is passed.
  void shrink(uint64_t bytes);

 private:
  std::string path_of(const KernelKey& key) const;

  std::string directory_;
  uint64_t byte_limit_;
  bool usable_ = false;
  std::mutex shrink_mutex_;
  std::atomic<uint64_t> bytes_{0};  // an estimate: other processes write here too
};

// In place of an entry name: what the cache holds is no kernel, but a short text about one.
constexpr std::string_view kNoteEntry = "note";

struct OpenedKernelCache {
  std::unique_ptr<KernelCache> kernels;  // never null
  std::string problem;                   // why it is of no use although it should be, as a sentence; else empty
};

// In `folder`; where that is empty, in the user's cache folder (base/dirs.h). Without `use_cache` it holds nothing.
OpenedKernelCache open_kernel_cache(std::string folder, bool use_cache);

}  // namespace smelt
