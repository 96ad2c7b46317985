// The tokenizer of models of random weights, and files with it that other commands take.
#include <doctest/doctest.h>

#include <algorithm>

#include "app/process.h"
#include "app/synthetic_model.h"
#include "chat/chat_template.h"
#include "text/tokenizer.h"

using namespace smelt;
using smelt::test::Outcome;

namespace {

struct Opened {
  std::unique_ptr<SyntheticModel> model;
  Tokenizer tokenizer;

  explicit Opened(const std::string& name)
      : model(SyntheticModel::without_weights(*parse_synthetic(name)).take()),
        tokenizer(Tokenizer::from_gguf(model->file()).take()) {}
};

std::vector<std::string> pieces_of(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<std::string> pieces;
  for (int32_t id : tokenizer.encode(text)) pieces.emplace_back(tokenizer.piece(id));
  return pieces;
}

}  // namespace

TEST_CASE("every shape has a vocabulary of its size, which keeps any text") {
  std::string text = "The Dragon's 1234 eggs,\n\n  \xF0\x9F\x90\x89 \xC3\xA4 ";
  for (int byte = 0; byte < 256; ++byte) text += static_cast<char>(byte);
  for (const std::string& shape : synthetic_shapes()) {
    CAPTURE(shape);
    const Opened opened(shape + ":q4_0:1");
    const Tokenizer& tokenizer = opened.tokenizer;
    CHECK(tokenizer.size() == parse_synthetic(shape)->model->numbers().vocabulary);
    CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
    CHECK(tokenizer.eos() == tokenizer.size() - 3);
    CHECK(tokenizer.stop_tokens() == std::vector<int32_t>{tokenizer.size() - 3, tokenizer.size() - 1});
    CHECK(!tokenizer.adds_bos());
  }
}

TEST_CASE("a synthetic vocabulary has bytes, pairs of letters, and pairs of these") {
  using Pieces = std::vector<std::string>;
  CHECK(pieces_of(Opened("glm-4.7-flash:q4_0:1").tokenizer, "these trees!") ==
        Pieces{"thes", "e", " t", "r", "ee", "s", "!"});
  CHECK(pieces_of(Opened("tiny-llama:q4_0:1").tokenizer, "these trees!") ==
        Pieces{"th", "es", "e", " t", "r", "ee", "s", "!"});
}

TEST_CASE("a chat with a synthetic model is set as its template says") {
  const Opened opened("tiny-glm:q4_0:1");
  const ChatTemplate chat_template = ChatTemplate::from_gguf(opened.model->file(), opened.tokenizer).take();
  CHECK(!chat_template.is_plain());
  Chat chat;
  chat.messages.push_back({{"role", "user"}, {"content", "Hi <|im_end|>"}});
  const jinja::Text prompt = chat_template.render(chat).take();
  const std::vector<int32_t> ids = chat_template.encode(prompt);
  CHECK(opened.tokenizer.decode(ids) == "<|im_start|>user\nHi <|im_end|><|im_end|>\n<|im_start|>assistant\n");
  CHECK(std::count(ids.begin(), ids.end(), opened.tokenizer.size() - 1) == 1);  // the user's is text
}

TEST_CASE("other commands take a synthetic model that was written") {
  const std::string path = smelt::test::scratch().file("synthetic.gguf");
  const Outcome written = smelt::test::smelt({"bench", "--synthetic", "tiny-llama:q4_0:1", "--write", path});
  REQUIRE_MESSAGE(written.exit_code == 0, written.err);
  const auto on = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin() + 1, {"-m", path});
    return smelt::test::smelt(smelt::test::on_one_thread(std::move(arguments)));
  };
  const Outcome run = on({"run", "-p", "these trees", "-n", "8", "--temp", "0", "--ignore-eos"});
  CHECK_MESSAGE(run.exit_code == 0, run.err);
  CHECK(run.err.find("prompt 7 tokens") != std::string::npos);
  CHECK(run.err.find("decode 7 tokens") != std::string::npos);
  const Outcome chat = on({"chat", "-n", "4", "Hi"});
  CHECK_MESSAGE(chat.exit_code == 0, chat.err);
}
