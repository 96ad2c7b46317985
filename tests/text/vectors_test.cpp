// Token ids that other implementations computed: the tokenizer of the small model in the
// repository, and, where the folder shared/ lies beside the repository, real vocabularies.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "gguf/gguf.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

using namespace smelt;

namespace {

const std::string kSource = SMELT_SOURCE_DIR;
const std::string kShared = kSource + "/../shared";

Tokenizer load(const std::string& path) {
  auto file = GgufFile::open(path);
  REQUIRE_MESSAGE(file.ok(), file.error().message);
  auto tokenizer = Tokenizer::from_gguf(*file);
  REQUIRE_MESSAGE(tokenizer.ok(), tokenizer.error().message);
  return tokenizer.take();
}

const Tokenizer& tiny_glm() {
  static const Tokenizer tokenizer = load(kSource + "/models/tiny-glm-Q4_K_M.gguf");
  return tokenizer;
}

std::optional<std::string> read_if_there(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    MESSAGE("not checked, as there is no file ", path);
    return std::nullopt;
  }
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

std::vector<std::string> cut(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  for (size_t pos = 0;;) {
    size_t end = text.find(separator, pos);
    parts.push_back(text.substr(pos, end - pos));
    if (end == std::string::npos) return parts;
    pos = end + separator.size();
  }
}

void check_vocabulary(const std::string& name) {
  const std::string path = kShared + "/vocabs/ggml-vocab-" + name + ".gguf";
  auto texts = read_if_there(path + ".inp"), ids = read_if_there(path + ".out");
  if (!texts || !ids) return;
  Tokenizer tokenizer = load(path);
  CHECK(tokenizer.pre() == name);
  std::istringstream lines(*ids);
  auto inputs = cut(*texts, "\n__ggml_vocab_test__\n");
  REQUIRE(inputs.size() == 47);
  inputs.pop_back();  // after the last separator
  for (const std::string& text : inputs) {
    std::string line;
    REQUIRE(std::getline(lines, line));
    std::istringstream numbers(line);
    std::vector<int32_t> expected{std::istream_iterator<int32_t>(numbers), {}};
    CAPTURE(text);
    CHECK(tokenizer.encode(text, true, false) == expected);
    CHECK(tokenizer.encode(text, false, false) == expected);  // no text has markup
    CHECK(tokenizer.decode(expected) == text);
  }
}

}  // namespace

TEST_CASE("the tokenizer of tiny-glm agrees with all stored vectors") {
  auto text = read_if_there(kSource + "/tests/data/tokenizer_vectors.json");
  REQUIRE(text);
  auto vectors = nlohmann::json::parse(*text);
  REQUIRE(vectors.size() == 100);
  for (const auto& vector : vectors) {
    const std::string input = vector["text"];
    CAPTURE(input);
    const std::vector<int32_t> ids = vector["ids"];
    CHECK(tiny_glm().encode(input) == ids);
    CHECK(tiny_glm().decode(ids) == input);
  }
}

TEST_CASE("prompts of the oracles encode, and their greedy tokens decode, as stored") {
  for (const char* name : {"tiny-glm/oracle/tiny-glm-F16", "tiny-ds2/oracle/tiny-ds2-F16"}) {
    auto text = read_if_there(kShared + "/models/" + name + ".json");
    if (!text) continue;
    const auto oracle = nlohmann::json::parse(*text);
    for (const auto& prompt : oracle["prompts"]) {
      const std::vector<int32_t> ids = prompt["ids"], greedy = prompt["greedy"];
      CHECK(tiny_glm().encode(prompt["text"].get<std::string>()) == ids);
      CHECK(to_valid_utf8(tiny_glm().decode(greedy)) == prompt["greedy_text"].get<std::string>());
    }
  }
}

TEST_CASE("gpt-2 agrees with its makers' ids") { check_vocabulary("gpt-2"); }
TEST_CASE("starcoder agrees with its makers' ids") { check_vocabulary("starcoder"); }
TEST_CASE("deepseek-llm agrees with its makers' ids") { check_vocabulary("deepseek-llm"); }

TEST_CASE("stop tokens of tiny-glm are the end of text and the next speakers") {
  const Tokenizer& t = tiny_glm();
  CHECK(t.stop_tokens() == std::vector<int32_t>{4080, 4087, 4089});
  CHECK(t.is_stop(4087));
  CHECK_FALSE(t.is_stop(4088));
  CHECK_FALSE(t.adds_bos());
  CHECK(t.find("<|assistant|>") == 4088);
  CHECK(t.is_control(4088));
  CHECK_FALSE(t.is_control(*t.find("<think>")));
  CHECK(t.find("\n") == 198);
  CHECK(t.size() == 4096);
}

TEST_CASE("special tokens are text when the text is a user's") {
  auto ids = tiny_glm().encode("<|user|> and <think>", false);
  for (int32_t id : ids) CHECK(id < 4080);
  CHECK(tiny_glm().decode(ids) == "<|user|> and <think>");
}
