#include "engine/memory_need.h"

#include "base/progress.h"

namespace smelt {
namespace {

// "17123456789 bytes (17.1 GB)"
std::string both(uint64_t bytes) { return std::to_string(bytes) + " bytes (" + bytes_text(bytes) + ")"; }

std::string advice_for(const MemoryNeed& need, const MemoryThere& there) {
  if (need.fitting_context > 0) return "a smaller context fits: -c " + std::to_string(need.fitting_context);
  if (!there.gpu.empty()) return "use --device cpu, or a file with fewer bits a weight";
  if (need.weights > need.session)
    return "close other programs, or run with --no-repack, which reads the file in place";
  return "use a smaller context (-c), or close other programs";
}

}  // namespace

Status check_memory(const MemoryNeed& need, const MemoryThere& there, const std::string& model) {
  const auto needed = static_cast<uint64_t>(need.bytes());
  if (needed <= there.bytes) return {};
  std::string parts = need.weights == 0
                          ? "for the context and working memory"
                          : bytes_text(static_cast<uint64_t>(need.weights)) + " for the weights and " +
                                bytes_text(static_cast<uint64_t>(need.session)) + " for the context and working memory";
  if (need.states > 0) parts += " (" + bytes_text(static_cast<uint64_t>(need.states)) + " of it recurrent states)";
  const std::string where = there.gpu.empty() ? "" : " of " + there.gpu;
  return Error{"[memory] " + model + ": " + both(needed) + " of memory" + where + " are needed, " + parts + ", and " +
               both(there.bytes) + " are available; " + advice_for(need, there)};
}

}  // namespace smelt
