// A folder of the Hugging Face hub in place of a GGUF file.
#include <doctest/doctest.h>

#include "app/process.h"
#include "base/file.h"
#include "support/model_folder.h"

using namespace smelt;
using namespace smelt::test;

namespace {

constexpr int kTokens = 300;

// The letter that stands for a byte in byte-level vocabularies.
std::string letter_of(int byte) {
  const auto is_plain = [](int b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174; };
  int code = byte;
  if (!is_plain(byte)) {
    code = 256;
    for (int b = 0; b < byte; ++b) code += !is_plain(b);
  }
  if (code < 128) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
}

nlohmann::json byte_tokenizer() {
  nlohmann::json tokenizer = small_tokenizer(), vocabulary;
  for (int byte = 0; byte < 256; ++byte) vocabulary[letter_of(byte)] = byte;
  vocabulary["ab"] = 256;
  vocabulary["abc"] = 257;
  tokenizer["model"]["vocab"] = vocabulary;
  tokenizer["added_tokens"][0]["id"] = 298;
  tokenizer["added_tokens"][1]["id"] = 299;
  return tokenizer;
}

// The small model with as many tokens as there are bytes and some.
GgufWriter with_bytes() {
  GgufWriter writer = SmallTransformer({}).writer;
  std::vector<float> values(kHidden * kTokens);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
  for (const char* name : {"token_embd.weight", "output.weight"}) {
    writer.remove_tensor(name);
    writer.tensor(name, {kHidden, kTokens}, GgufType::F32,
                  {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  }
  return writer;
}

}  // namespace

TEST_CASE("a folder runs as its GGUF file does, and can be quantised") {
  const std::string folder = scratch().file("small"), gguf = scratch().file("small.gguf");
  write_model_folder(folder, with_bytes(), small_config("llama"));
  write_text(folder + "/tokenizer.json", byte_tokenizer().dump());
  const Outcome converted = smelt::test::smelt({"quantize", folder, gguf, "F32"});
  CAPTURE(converted.err);
  REQUIRE(converted.exit_code == 0);
  std::string logits[2];
  for (int i : {0, 1}) {
    const std::string out = scratch().file("logits");
    const Outcome run = smelt::test::smelt({"logits", "-m", i ? gguf : folder, "--ids", "1,5,30,2,7", "-o", out});
    CAPTURE(run.err);
    REQUIRE(run.exit_code == 0);
    logits[i] = *read_file(out);
  }
  CHECK(logits[0] == logits[1]);
  CHECK(logits[0].size() == kTokens * sizeof(float));

  const Outcome words = smelt::test::smelt({"tokenize", "-m", folder, "--json", "abc a"});
  CHECK(words.out == "[298, 257, 32, 97]\n");
  const Outcome text = smelt::test::smelt({folder, "abc", "-n", "3", "--temp", "0"});
  CAPTURE(text.err);
  CHECK(text.exit_code == 0);
}
