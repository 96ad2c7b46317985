// IR text: any bytes parse to a node or to an error, and what parses prints and parses back to the
// same node.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "graph/text.h"
#include "graph/verify.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace smelt;
  auto parsed = parse(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!parsed) return 0;
  std::string text = print(*parsed);
  // A NaN constant equals nothing, itself included: such a graph is another node every time.
  bool has_nan = text.find("nan") != std::string::npos;
  auto again = parse(text);
  if (!again || (!has_nan && !(*again == *parsed))) std::abort();
  for (Phase phase : {Phase::Tensor, Phase::Kernel, Phase::Expanded}) (void)verify(*parsed, phase);
  return 0;
}
