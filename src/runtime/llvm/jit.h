// LLVM as a linker: objects of this machine (compile.h) in, entry pointers out.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "runtime/cpu/kernel_entry.h"

namespace smelt {

struct Object {
  std::string_view bytes;
  std::string_view symbol;
};

// Links objects into this process. No page is ever writable and executable: a batch is linked in
// writable pages, which then become read-only (data) or executable (code). All batches share one
// reserved range of addresses, so that code takes one mapping and data another, however many
// kernels there are.
class Jit {
 public:
  // Fails where the system grants no addresses. `calls`: functions of this process that objects may call, by name,
  // besides memset, memcpy and memmove.
  using Calls = std::vector<std::pair<const char*, void*>>;
  static Result<std::unique_ptr<Jit>> create(const Calls& calls = {});
  ~Jit();  // the entries die with it
  Jit(const Jit&) = delete;
  Jit& operator=(const Jit&) = delete;

  // Entries in the order of `objects`; nullptr for an object that is not one of ours (its symbol is
  // missing, it calls something outside, it is not ELF of this machine). Symbols must be new to
  // this Jit. Thread-safe.
  std::vector<KernelEntry> link(std::span<const Object> objects);

  // Bytes of machine code and of constants so far.
  size_t code_bytes() const;
  size_t data_bytes() const;

 private:
  Jit();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace smelt
