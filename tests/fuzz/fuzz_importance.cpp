// libFuzzer target: any bytes as an importance matrix, in the form of GGUF or the older one. What is read has sums that
// are finite, as many means, and is the same when it is written and read again.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fuzz/checks.h"
#include "fuzz/memory_file.h"
#include "gguf/importance.h"

using namespace smelt;
using namespace smelt::test;

namespace {

void check_entry(const Importance::Entry& entry) {
  require(!entry.counts.empty() && entry.sums.size() % entry.counts.size() == 0);
  for (const float sum : entry.sums) require(std::isfinite(sum) && sum >= 0);
  const std::vector<float> means = means_of(entry);
  require(means.size() == entry.sums.size());
  for (const float mean : means) require(!std::isnan(mean) && mean >= 0);
}

bool same(const Importance& a, const Importance& b) {
  if (a.entries.size() != b.entries.size() || a.chunks != b.chunks || a.datasets != b.datasets) return false;
  for (const auto& [name, entry] : a.entries) {
    const auto other = b.entries.find(name);
    if (other == b.entries.end() || other->second.sums != entry.sums || other->second.counts != entry.counts)
      return false;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const MemoryFile file({reinterpret_cast<const char*>(bytes), size});
  const auto read = read_importance(file.path());
  if (!is_read(read)) return 0;
  for (const auto& [name, entry] : read->entries) check_entry(entry);
  const MemoryFile written(importance_file(*read));
  const auto again = read_importance(written.path());
  require(again.ok() && same(*read, *again));
  return 0;
}
