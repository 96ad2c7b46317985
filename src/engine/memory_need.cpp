#include "engine/memory_need.h"

#include "base/progress.h"

namespace smelt {
namespace {

// "17123456789 bytes (17.1 GB)"
std::string both(uint64_t bytes) { return std::to_string(bytes) + " bytes (" + bytes_text(bytes) + ")"; }

}  // namespace

Status check_memory(const MemoryNeed& need, uint64_t available, const std::string& model) {
  const auto needed = static_cast<uint64_t>(need.bytes());
  if (needed <= available) return {};
  const std::string parts =
      need.weights == 0 ? "for the context and working memory"
                        : bytes_text(static_cast<uint64_t>(need.weights)) + " for the weights and " +
                              bytes_text(static_cast<uint64_t>(need.session)) + " for the context and working memory";
  const std::string advice = need.weights > need.session
                                 ? "close other programs, or run with --no-repack, which reads the file in place"
                                 : "use a smaller context (-c), or close other programs";
  return Error{"[memory] " + model + ": " + both(needed) + " of memory are needed, " + parts + ", and " +
               both(available) + " are available; " + advice};
}

}  // namespace smelt
