#include "app/tokenize.h"

#include <cstdint>
#include <cstdio>

#include "app/engine_flags.h"
#include "app/number_list.h"
#include "app/text_of.h"
#include "base/file.h"
#include "base/printable.h"

namespace smelt {
namespace {

constexpr size_t kPieceShown = 1000;  // bytes

Result<Tokenizer> load_tokenizer(const std::string& model) {
  SMELT_TRY(file, open_model(model));
  return Tokenizer::from_gguf(file);
}

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

std::string json_text(const std::vector<int32_t>& ids) {
  std::string out = "[";
  for (size_t i = 0; i < ids.size(); ++i) out += (i ? ", " : "") + std::to_string(ids[i]);
  return out + "]\n";
}

// "   416  'Once'"; without pieces "416".
std::string lines_text(const std::vector<int32_t>& ids, const Tokenizer& tokenizer, bool with_pieces) {
  std::string out;
  for (const int32_t id : ids)
    out += with_pieces ? text_of("%7d  '", id) + printable(tokenizer.piece(id), kPieceShown) + "'\n"
                       : std::to_string(id) + "\n";
  return out;
}

// Ids as people and programs write them: "[416, 432]", "416,432", one a line.
Result<std::vector<int32_t>> read_ids(const std::string& text, const Tokenizer& tokenizer) {
  std::string list;
  bool between = false;
  for (const char c : text) {
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '[' || c == ']') {
      between = !list.empty() && list.back() != ',';
      continue;
    }
    if (between && c != ',') list += ',';
    between = false;
    list += c;
  }
  std::vector<int64_t> numbers;
  if (list.empty()) return std::vector<int32_t>();
  if (const std::string wrong = read_numbers(list, 0, tokenizer.size() - 1, numbers); !wrong.empty())
    return Error{"[detokenize] " + wrong + "; ids of this model's vocabulary are wanted, such as 416,432"};
  return std::vector<int32_t>(numbers.begin(), numbers.end());
}

}  // namespace

Status tokenize(const TokenizeOptions& options) {
  SMELT_TRY(tokenizer, load_tokenizer(options.model));
  std::string text = options.text.value_or("");
  if (!options.text) {
    SMELT_TRY(input, read_stream(options.file.empty() ? "-" : options.file));
    text = std::move(input);
  }
  const std::vector<int32_t> ids = tokenizer.encode(text, options.parse_special, options.add_special);
  print(options.json ? json_text(ids) : lines_text(ids, tokenizer, !options.ids));
  return {};
}

Status detokenize(const DetokenizeOptions& options) {
  SMELT_TRY(tokenizer, load_tokenizer(options.model));
  std::string text;
  for (const std::string& word : options.ids) text += word + " ";
  if (options.ids.empty()) {
    SMELT_TRY(input, read_stream("-"));
    text = std::move(input);
  }
  SMELT_TRY(ids, read_ids(text, tokenizer));
  print(tokenizer.decode(ids));
  return {};
}

}  // namespace smelt
