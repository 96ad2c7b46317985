// libFuzzer target: any GBNF, regular expression or JSON schema (by the first byte). What is read makes masks, and
// every token that a mask allows can be taken.
#include <cstdlib>
#include <memory>
#include <string>

#include "grammar/constraint.h"
#include "grammar/gbnf.h"
#include "grammar/json_schema.h"
#include "grammar/regular.h"

using namespace smelt;

namespace {

Result<Grammar> read(uint8_t kind, std::string_view text) {
  if (kind % 3 == 0) return read_gbnf(text);
  if (kind % 3 == 1) return read_json_schema(text);
  SMELT_TRY(language, read_regex(text, kind % 2 == 0));
  Grammar grammar;
  grammar.set_root(to_grammar(grammar, language, plain_form));
  return grammar;
}

std::shared_ptr<const TokenTable> tokens() {
  std::vector<std::string> pieces;
  for (int b = 0; b < 256; ++b) pieces.emplace_back(1, static_cast<char>(b));
  for (const char* p : {"\",", "\": ", "{\"", "}}", "true", "12", "ab", "a\"", "\xE2\x82"}) pieces.emplace_back(p);
  return std::make_shared<const TokenTable>(std::move(pieces));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const std::shared_ptr<const TokenTable> table = tokens();
  const auto grammar = read(data[0], {reinterpret_cast<const char*>(data) + 1, size - 1});
  if (!grammar) return 0;
  const auto masks = TokenMasks::make(*grammar, table);
  if (!masks) return 0;
  Constraint constraint(*masks);
  for (int step = 0; step < 8; ++step) {
    const TokenMask& mask = constraint.mask();
    int32_t next = -1;
    for (int32_t t = 0; t < table->vocabulary_size(); ++t)
      if (mask.has(t) && (next < 0 || (data[size - 1] + t + step) % 3 == 0)) next = t;
    if (next < 0) break;
    const Status accepted = constraint.accept(next);
    if (!accepted && accepted.error().message.find("too many ways") == std::string::npos) std::abort();
    if (!accepted) break;
  }
  return 0;
}
