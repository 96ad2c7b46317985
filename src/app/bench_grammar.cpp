#include "app/bench_grammar.h"

#include <algorithm>
#include <cstdio>
#include <random>

#include "app/stopwatch.h"
#include "grammar/constraint.h"
#include "grammar/gbnf.h"
#include "grammar/json_schema.h"

namespace smelt {
namespace {

constexpr int kTexts = 300;        // the first third is for warming up
constexpr int kLongestText = 300;  // tokens

struct Case {
  const char* name;
  Result<Grammar> (*read)();
};

Result<Grammar> person() {
  return read_json_schema(R"({"type":"object","properties":{"name":{"type":"string","minLength":1,"maxLength":80},
      "age":{"type":"integer","minimum":0,"maximum":150},"email":{"type":"string","format":"email"},
      "tags":{"type":"array","items":{"type":"string"},"maxItems":10},"address":{"type":"object","properties":{
      "street":{"type":"string"},"city":{"type":"string"},"zip":{"type":"string","pattern":"^\\d{5}$"}},
      "required":["street","city"]}},"required":["name","age"]})");
}

Result<Grammar> tree() {
  return read_json_schema(R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{
      "kind":{"enum":["leaf","branch"]},"text":{"type":"string"},"children":{"type":"array",
      "items":{"$ref":"#/$defs/node"}}},"required":["kind","children"]}}})");
}

Result<Grammar> any_object() { return any_json_object(); }

Result<Grammar> arithmetic() {
  return read_gbnf(R"x(root ::= expr ("\n" expr)*
expr ::= term (" "? [-+*/] " "? term)*
term ::= [a-z]+ | [0-9]{1,9} ("." [0-9]{1,9})? | "(" expr ")"
)x");
}

constexpr Case kCases[] = {{"any JSON object", any_object},
                           {"schema of a person", person},
                           {"schema that contains itself", tree},
                           {"GBNF of sums", arithmetic}};

// A token that may come next, as an even mixture of any and of those that bring a text to its end.
int32_t any_of(const TokenMask& mask, const TokenTable& tokens, bool wants_end, std::mt19937& random) {
  if (wants_end)
    for (const char* close : {"\"", "}", "]", ")", ",", ":", "0"})
      for (int32_t place = tokens.first_of(static_cast<uint8_t>(close[0])); place < tokens.size(); ++place) {
        if (tokens.text(place).size() > 1) break;
        if (mask.has(tokens.token(place))) return tokens.token(place);
      }
  const auto begin = static_cast<int32_t>(random() % static_cast<uint32_t>(tokens.vocabulary_size()));
  for (int32_t i = 0; i < tokens.vocabulary_size(); ++i) {
    const int32_t token = (begin + i) % tokens.vocabulary_size();
    if (mask.has(token)) return token;
  }
  return -1;
}

// Times of a text's tokens in microseconds.
Status write_text(const std::shared_ptr<const TokenMasks>& masks, std::mt19937& random, std::vector<double>& times) {
  Constraint constraint(masks);
  for (int i = 0; i < kLongestText && !constraint.is_finished(); ++i) {
    const int32_t token = any_of(constraint.mask(), masks->tokens(), i > kLongestText / 2 || random() % 4 == 0, random);
    if (token < 0) break;
    Stopwatch watch;
    SMELT_CHECK(constraint.accept(token));
    constraint.mask();
    times.push_back(1e6 * watch.lap());
  }
  return {};
}

double percentile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<size_t>(p * static_cast<double>(values.size())))];
}

Status run(const Case& c, const std::shared_ptr<const TokenTable>& tokens) {
  std::mt19937 random(1);
  Stopwatch watch;
  SMELT_TRY(grammar, c.read());
  SMELT_TRY(masks, TokenMasks::make(grammar, tokens));
  std::vector<double> times, ignored;
  SMELT_CHECK(write_text(masks, random, ignored));
  const double cold = watch.lap();
  for (int i = 1; i < kTexts; ++i) SMELT_CHECK(write_text(masks, random, i < kTexts / 3 ? ignored : times));
  std::printf("| %-27s | %9.1f | %6zu | %6.1f | %6.1f | %6.1f |\n", c.name, 1e3 * cold, times.size(),
              percentile(times, 0.5), percentile(times, 0.99), percentile(times, 1));
  return {};
}

}  // namespace

Result<int> run_grammar_bench(const BenchFlags& flags) {
  SMELT_TRY(file, open_model(flags.models.empty() ? "" : flags.models.front()));
  SMELT_TRY(tokenizer, Tokenizer::from_gguf(file));
  const auto tokens = TokenTable::of(tokenizer);
  std::printf("Vocabulary of %d tokens. A text: %d tokens at most, chosen at random among those allowed.\n\n",
              tokens->vocabulary_size(), kLongestText);
  std::printf("| grammar                     | cold, ms  | tokens | p50 us | p99 us | max us |\n");
  std::printf("|-----------------------------|-----------|--------|--------|--------|--------|\n");
  for (const Case& c : kCases) SMELT_CHECK(run(c, tokens));
  return 0;
}

}  // namespace smelt
