#include "text/tokenizer.h"

#include <doctest/doctest.h>

#include <random>

#include "gguf/gguf.h"
#include "support/gguf_writer.h"
#include "text/pretokenize.h"
#include "text/sample_vocabulary.h"

using namespace smelt;
using namespace smelt::test;
using Ids = std::vector<int32_t>;

namespace {

// Good data to spoil in one place.
TokenizerData good() {
  TokenizerData data = byte_vocabulary();
  add_merge(data, "a", "b");
  data.eos = add_token(data, "<|endoftext|>", TokenType::control);
  return data;
}

template <class Spoil>
std::string error_after(Spoil spoil) {
  TokenizerData data = good();
  spoil(data);
  return error_of(std::move(data));
}

}  // namespace

TEST_CASE("the longest special token wins, the leftmost first") {
  TokenizerData data = byte_vocabulary();
  int32_t t = add_token(data, "<t>", TokenType::control), tt = add_token(data, "<t><t>", TokenType::control);
  int32_t t_ = add_token(data, "<t><", TokenType::user_defined), u = add_token(data, "t><u", TokenType::control);
  Tokenizer tokenizer = make(std::move(data));
  CHECK(tokenizer.encode("<t>") == Ids{t});
  CHECK(tokenizer.encode("<t><t>x") == Ids{tt, 'x'});
  CHECK(tokenizer.encode("<t><t") == Ids{t_, 't'});
  CHECK(tokenizer.encode("<t><u") == Ids{t_, 'u'});
  CHECK(tokenizer.encode("t><u<t><t><t>") == Ids{u, tt, t});
  CHECK(tokenizer.encode("<t") == Ids{'<', 't'});
}

TEST_CASE("special tokens cut words apart") {
  TokenizerData data = good();
  add_token(data, "|", TokenType::unused);
  data.tokens.back() = "[S]", data.types.back() = static_cast<int64_t>(TokenType::user_defined);
  Tokenizer tokenizer = make(std::move(data));
  CHECK(tokenizer.encode("ab") == Ids{256});
  CHECK(tokenizer.encode("a[S]b") == Ids{'a', 258, 'b'});
  CHECK(tokenizer.encode("a[S]b", false) == Ids{'a', '[', 'S', ']', 'b'});
}

TEST_CASE("an added letter is text, added markup is not") {
  TokenizerData data = byte_vocabulary();
  int32_t letter = add_token(data, "\xC3\xBC\xC3\xBC", TokenType::user_defined);
  data.tokens.back() = "ш";
  int32_t spaces = add_token(data, "   ", TokenType::user_defined);
  int32_t think = add_token(data, "<think>", TokenType::user_defined);
  Tokenizer tokenizer = make(std::move(data));
  CHECK(tokenizer.encode("ш   x", false) == Ids{letter, spaces, 'x'});
  CHECK(tokenizer.encode("<think>", false).size() == 7);
  CHECK(tokenizer.encode("<think>") == Ids{think});
  CHECK(tokenizer.piece(letter) == "ш");
}

TEST_CASE("BOS and EOS are added where the file says so") {
  TokenizerData data = good();
  data.bos = data.eos;
  CHECK(make(data).encode("x") == Ids{'x'});
  data.add_bos = true;
  CHECK(make(data).encode("x") == Ids{257, 'x'});
  CHECK(make(data).encode("x", true, false) == Ids{'x'});
  data.add_eos = true;
  CHECK(make(data).encode("x") == Ids{257, 'x', 257});
  data.add_bos.reset(), data.add_eos.reset();
  data.pre = "llama-bpe";  // adds it unless told otherwise
  CHECK(make(data).encode("x") == Ids{257, 'x'});
  data.add_bos = false;
  CHECK(make(data).encode("x") == Ids{'x'});
}

TEST_CASE("llama-bpe keeps a word whole that is a token, whatever the merges say") {
  TokenizerData data = byte_vocabulary("llama-bpe");
  int32_t word = add_token(data, "abc", TokenType::normal);
  CHECK(make(data).encode("abc") == Ids{word});
  data.pre = "glm4";
  CHECK(make(data).encode("abc") == Ids{'a', 'b', 'c'});
}

TEST_CASE("stop tokens come from ids and from well-known texts") {
  TokenizerData data = good();
  data.eot = 1, data.eom = 2, data.more_eos = {3, 1};
  int32_t user = add_token(data, "<|user|>", TokenType::control);
  int32_t im_end = add_token(data, "<|im_end|>", TokenType::control);
  CHECK(make(data).stop_tokens() == Ids{1, 2, 3, 257, user, im_end});
  data.pre = "qwen2";  // where <|user|> ends nothing
  CHECK(make(data).stop_tokens() == Ids{1, 2, 3, 257, im_end});
}

TEST_CASE("find knows ordinary and special tokens by their bytes") {
  Tokenizer tokenizer = make(good());
  CHECK(tokenizer.find("ab") == 256);
  CHECK(tokenizer.find(" ") == ' ');
  CHECK(tokenizer.find("<|endoftext|>") == 257);
  CHECK_FALSE(tokenizer.find("abc"));
  CHECK(tokenizer.piece(-1).empty());
  CHECK(tokenizer.piece(258).empty());
  CHECK_FALSE(tokenizer.is_control(258));
  CHECK_FALSE(tokenizer.is_stop(-1));
}

TEST_CASE("a text that nobody waits for is passed over") {
  const Tokenizer tokenizer = make(good());
  const std::atomic<bool> cancel = true;
  const std::string word(1 << 16, 'a');
  for (const std::string& text : {std::string("a b"), word})
    CHECK(tokenizer.encode(text, true, true, &cancel).size() < 2);
}

TEST_CASE("any bytes come back from their tokens") {
  TokenizerData data = good();
  for (auto [left, right] : {std::pair("\xE2", "\x82"), {"\x82", "\xAC"}, {"\xE2\x82", "\xAC"}, {"a", "a"}})
    add_merge(data, left, right);
  std::mt19937 random(3);
  for (const Pretokenizer& pre : all_pretokenizers()) {
    data.pre = pre.names[0];
    Tokenizer tokenizer = make(data);
    for (int round = 0; round < 100; ++round) {
      std::string text;
      for (int i = 0; i < 3 * round; ++i)
        text += random() % 2 ? static_cast<char>(random()) : "aab \n\xE2\x82\xAC<|'s1"[random() % 13];
      CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
    }
  }
}

TEST_CASE("errors of a vocabulary are one line that names key and value") {
  CHECK(error_after([](auto&) {}) == "");
  CHECK(error_after([](auto& d) { d.model = "bert"; }) ==
        "[tokenizer] tokenizer.ggml.model: \"bert\" is not supported; smelt reads byte-level BPE, "
        "\"gpt2\", and SentencePiece's two, \"llama\" and \"t5\"");
  CHECK(error_after([](auto& d) { d.pre = "viking\n"; })
            .starts_with("[tokenizer] tokenizer.ggml.pre: \"viking\\n\" is not supported; smelt "
                         "knows glm4, "));
  CHECK(error_after([](auto& d) {
          d.tokens.clear(), d.types.clear();
        }).starts_with("[tokenizer] tokenizer.ggml.tokens: the list is empty"));
  CHECK(error_after([](auto& d) { d.types.pop_back(); }) ==
        "[tokenizer] tokenizer.ggml.token_type: 257 entries do not fit the vocabulary of 258 tokens; "
        "convert the model again");
  CHECK(error_after([](auto& d) { d.types[7] = 9; }) ==
        "[tokenizer] tokenizer.ggml.token_type: entry 7 is 9, but the types are 1 to 6; convert "
        "the model again");
  CHECK(error_after([](auto& d) { d.types[7] = 0; }).find("entry 7 is 0") != std::string::npos);
  CHECK(error_after([](auto& d) { d.tokens[200] = "ab"; }) ==
        "[tokenizer] tokenizer.ggml.tokens: entries 200 and 256 are both \"ab\"; convert the model "
        "again");
  CHECK(error_after([](auto& d) { d.tokens['Q'] = "QQ"; }) ==
        "[tokenizer] tokenizer.ggml.tokens: no token stands for the byte \"Q\" alone; only "
        "byte-level vocabularies "
        "can be used");
  CHECK(error_after([](auto& d) { d.tokens[257] = std::string(600, '<'); }) ==
        "[tokenizer] tokenizer.ggml.tokens: entry 257 is a special token of 600 bytes; at most 512 "
        "are possible");
  for (const char* merge : {"", "a", " ", "a ", " a", "ab"})
    CHECK(error_after([&](auto& d) { d.merges.push_back(merge); }) ==
          "[tokenizer] tokenizer.ggml.merges: entry 1 \"" + std::string(merge) +
              "\" is not two tokens; convert the model again");
  CHECK(error_after([](auto& d) { d.merges.push_back("a bb"); }) ==
        "[tokenizer] tokenizer.ggml.merges: entry 1 \"a bb\" names \"bb\", which is no token; "
        "convert the model again");
  CHECK(error_after([](auto& d) { d.merges.push_back("aa b"); }).find("names \"aa\"") != std::string::npos);
  CHECK(error_after([](auto& d) { d.merges.push_back("a b c"); }).find("names \"b c\"") != std::string::npos);
  CHECK(error_after([](auto& d) { d.merges.push_back("b b"); }) ==
        "[tokenizer] tokenizer.ggml.merges: entry 1 \"b b\" makes \"bb\", which is no token; "
        "convert the model again");
  CHECK(error_after([](auto& d) { d.add_bos = true; }) ==
        "[tokenizer] tokenizer.ggml.add_bos_token: is true, but bos_token_id is missing");
  CHECK(error_after([](auto& d) { d.add_eos = true, d.eos.reset(); }) ==
        "[tokenizer] tokenizer.ggml.add_eos_token: is true, but eos_token_id is missing");
}

TEST_CASE("special ids outside the vocabulary are refused by name") {
  const std::pair<const char*, std::optional<int64_t> TokenizerData::*> ids[] = {
      {"bos_token_id", &TokenizerData::bos},         {"eos_token_id", &TokenizerData::eos},
      {"eot_token_id", &TokenizerData::eot},         {"eom_token_id", &TokenizerData::eom},
      {"unknown_token_id", &TokenizerData::unknown}, {"padding_token_id", &TokenizerData::padding},
  };
  for (auto [key, member] : ids) {
    for (int64_t id : {int64_t{-1}, int64_t{258}, int64_t{1} << 31, INT64_MAX, INT64_MIN})
      CHECK(error_after([&](auto& d) { d.*member = id; }) ==
            "[tokenizer] tokenizer.ggml." + std::string(key) + ": " + std::to_string(id) +
                " is outside the vocabulary of 258 tokens; convert the model again");
    CHECK(error_after([&](auto& d) { d.*member = 257; }) == "");
  }
  CHECK(
      error_after([](auto& d) { d.more_eos = {1, 300}; }).starts_with("[tokenizer] tokenizer.ggml.eos_token_ids: 300"));
}

TEST_CASE("files with missing or mistyped keys are refused by name") {
  auto file = GgufFile::open(SMELT_SOURCE_DIR "/models/tiny-glm-Q4_K_M.gguf");
  REQUIRE(file);
  GgufWriter whole;
  for (const GgufWriter::Entry& entry : GgufWriter::copy_of(*file).entries) whole.entries.push_back(entry);
  auto load = [](GgufWriter& writer) {
    auto bytes = writer.bytes();
    auto spoilt = GgufFile::open_memory(bytes);
    REQUIRE_MESSAGE(spoilt.ok(), spoilt.error().message);
    auto tokenizer = Tokenizer::from_gguf(*spoilt);
    return tokenizer ? std::string("fine") : tokenizer.error().message;
  };
  CHECK(load(whole) == "fine");
  for (const char* key : {"model", "tokens", "merges"}) {
    GgufWriter writer = whole;
    writer.remove("tokenizer.ggml." + std::string(key));
    CHECK(load(writer).find("tokenizer.ggml." + std::string(key)) != std::string::npos);
  }
  for (const char* key : {"model", "pre", "tokens", "merges", "token_type", "add_bos_token", "eos_token_id"}) {
    GgufWriter writer = whole;
    writer.f32("tokenizer.ggml." + std::string(key), 1.5f);
    const std::string message = load(writer);
    CHECK(message.find("tokenizer.ggml." + std::string(key)) != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
  }
  GgufWriter writer = whole;
  for (const char* key : {"token_type", "pre", "add_bos_token", "eos_token_id", "padding_token_id"})
    writer.remove("tokenizer.ggml." + std::string(key));
  CHECK(load(writer) == "fine");
}

TEST_CASE("where an answer has several messages, the end of one is no stop token") {
  TokenizerData data = good();
  const int32_t end = add_token(data, "<|end|>", TokenType::control);
  data.eot = end;
  CHECK(make(data).is_stop(end));
  add_token(data, "<|channel|>", TokenType::control);
  CHECK_FALSE(make(data).is_stop(end));
  CHECK(make(data).is_stop(257));
}
