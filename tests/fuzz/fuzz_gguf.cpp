// libFuzzer target: any bytes as a GGUF file. Whatever opens must hold what gguf.h promises.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "gguf/footprint.h"
#include "gguf/gguf.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

bool inside(std::span<const std::byte> whole, const std::byte* data, uint64_t bytes) {
  const auto start = reinterpret_cast<uintptr_t>(data);
  const auto low = reinterpret_cast<uintptr_t>(whole.data());
  return start >= low && start - low <= whole.size() && bytes <= whole.size() - (start - low);
}

// Every typed access of a key answers, with a value or an error that is one line.
template <class R>
void check(const R& result) {
  require(result.ok() || (!result.error().message.empty() && result.error().message.find('\n') == std::string::npos));
}

void read_everything(const smelt::GgufFile& file) {
  for (const smelt::GgufValue& value : file.metadata()) {
    require(inside(file.shards()[0].bytes, value.bytes.data(), value.bytes.size()));
    require(file.value(value.key) == &value);
    check(file.u64(value.key));
    check(file.u64_or(value.key, 1, {1, 1024}));
    check(file.i64(value.key));
    check(file.f64(value.key));
    check(file.boolean(value.key));
    check(file.string(value.key));
    check(file.strings(value.key));
    check(file.integers(value.key));
    check(file.floats(value.key));
  }
}

// Reads the first and the last byte, so that a sanitizer sees a wrong pointer.
void touch(const smelt::GgufTensor& tensor) {
  volatile std::byte seen = tensor.data[0];
  seen = tensor.data[tensor.bytes - 1];
  (void)seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A copy of exactly this size: reading past its end is an error that the sanitizer reports.
  std::byte* copy = static_cast<std::byte*>(std::malloc(size ? size : 1));
  if (size) std::memcpy(copy, data, size);
  {
    auto file = smelt::GgufFile::open_memory({copy, size}, "fuzz");
    check(file);
    if (file) {
      read_everything(*file);
      check(smelt::footprint(*file));
      for (const smelt::GgufTensor& tensor : file->tensors()) {
        require(inside(file->shards()[0].bytes, tensor.data, tensor.bytes));
        require(tensor.bytes > 0 && tensor.rank >= 1 && tensor.rank <= 4);
        require(tensor.row_bytes() * tensor.rows() == tensor.bytes);
        require(file->find(tensor.name) == &tensor);
        check(file->require(tensor.name));
        touch(tensor);
      }
    }
  }
  std::free(copy);
  return 0;
}
