// libFuzzer target: any bytes as an entry of the kernel cache. Half of the inputs are taken as they
// are; of the other half a well-formed entry is made and then changed, since no fuzzer guesses a
// 128-bit checksum.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "runtime/kernel_cache.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

smelt::KernelKey key_of(std::string_view text) {
  return smelt::make_key({.text = text,
                          .entry = "k",
                          .triple = "x86_64-unknown-linux-gnu",
                          .cpu = "x86-64-v3",
                          .features = "",
                          .compiler = "llvm",
                          .pipeline = "sroa",
                          .version = "1"});
}

// Bytes that were not written by format_entry for this key are never believed.
void check_raw(std::string_view file) {
  smelt::KernelKey key = key_of("kernel");
  if (auto object = smelt::parse_entry(file, key)) require(smelt::format_entry(key, *object) == file);
}

// The input: where to change the entry (2 bytes), what into (1 byte), the object.
void check_changed(std::string_view input) {
  if (input.size() < 3) return;
  std::string_view object = input.substr(3);
  smelt::KernelKey key = key_of("kernel");
  std::string file = smelt::format_entry(key, object);
  require(smelt::parse_entry(file, key) == object);
  require(!smelt::parse_entry(file, key_of("another kernel")));

  size_t at = (static_cast<uint8_t>(input[0]) * 256 + static_cast<uint8_t>(input[1])) % file.size();
  std::string changed = file;
  changed[at] = input[2];
  require(smelt::parse_entry(changed, key).has_value() == (changed == file));
  require(!smelt::parse_entry(std::string_view(file).substr(0, at), key));
  require(!smelt::parse_entry(file + std::string(input), key));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view input(reinterpret_cast<const char*>(data), size);
  check_raw(input);
  check_changed(input);
  return 0;
}
