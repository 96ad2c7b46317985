// libFuzzer target: any bytes as the answer of a model, in every format of calls. What is read does not depend on how
// the text is cut, and is JSON. Of the rest of the bytes as tools, a grammar is made: calls that it lets through are
// read.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "chat/output_parser.h"
#include "support/random_calls.h"

using namespace smelt;

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

const nlohmann::ordered_json& tools() {
  static const auto all = nlohmann::ordered_json::parse(
      R"([{"name": "f", "parameters": {"properties": {"s": {"type": "string"}, "n": {"type": "integer"}}}}])");
  return all;
}

Output read(const OutputFormat& format, std::string_view text, size_t piece) {
  const auto parser = OutputParser::make(format, {text.size() % 2 == 0, tools()});
  Output all;
  for (size_t at = 0; at < text.size(); at += piece) all.append(parser->push(text.substr(at, piece)));
  all.append(parser->finish());
  return all;
}

void check_grammar(const test::CallFamily& family, std::string_view list) {
  const auto parsed = nlohmann::ordered_json::parse(list, nullptr, false);
  if (parsed.is_discarded()) return;
  std::mt19937 random(1);
  const auto answer = test::random_calls(family, parsed, random, {.must_call = true}, 1000);
  if (!answer) return require(answer.error().message.find('\n') == std::string::npos);
  if (!answer->text.empty()) require(!answer->output.calls.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size < 2) return 0;
  const auto& families = test::call_families();
  const test::CallFamily& family = families[bytes[0] % families.size()];
  const std::string_view text(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  if (text.front() == '[') check_grammar(family, text);
  const Output whole = read(family.format, text, text.size());
  require(read(family.format, text, 1) == whole);
  require(read(family.format, text, 1 + bytes[0] % 7) == whole);
  for (const ToolCall& call : whole.calls) {
    require(!call.name.empty() || family.format.calls == CallStyle::harmony);
    require(arguments_of(call).is_object());
  }
  return 0;
}
