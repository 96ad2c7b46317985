#include "chat/output_parser.h"

#include "chat/harmony_parser.h"
#include "chat/tagged_parser.h"

namespace smelt {

void Output::append(const Output& more) {
  reasoning += more.reasoning;
  content += more.content;
  calls.insert(calls.end(), more.calls.begin(), more.calls.end());
}

std::unique_ptr<OutputParser> OutputParser::make(const OutputFormat& format, OutputOptions options) {
  if (format.calls == CallStyle::harmony) return std::make_unique<HarmonyParser>();
  return std::make_unique<TaggedParser>(format, std::move(options));
}

Output OutputParser::push(std::string_view text) {
  Output out;
  for (char byte : text) take(byte, out);
  return out;
}

Output OutputParser::finish() {
  Output out;
  end(out);
  return out;
}

}  // namespace smelt
