// The loop of text generation: a text does not show where its tokens were chosen.
#include "app/generate.h"

#include <doctest/doctest.h>

#include "app/session_tokens.h"

using namespace smelt;

namespace {

using Tokens = std::vector<int32_t>;

const GgufFile& file() {
  static const GgufFile opened = GgufFile::open(SMELT_SOURCE_DIR "/models/tiny-glm-Q4_K_M.gguf").take();
  return opened;
}

std::unique_ptr<Session> open(bool chooses_tokens) {
  return Session::open(file(), {.threads = 1, .context = 64, .chooses_tokens = chooses_tokens}, {}).take();
}

struct Written {
  Tokens tokens;
  StopReason stopped;
  int64_t position = 0, steps = 0;
  bool operator==(const Written&) const = default;
};

// Two texts, so that the second one finds what the first one has left. `wanted`: tokens before nobody wants more.
std::vector<Written> write(Session& session, const SamplerOptions& sampling, const GenerateOptions& options,
                           size_t wanted = 1000) {
  static const Tokenizer tokenizer = Tokenizer::from_gguf(file()).take();
  std::vector<Written> texts;
  for (const Tokens& prompt : {Tokens{1, 400, 27}, Tokens{351, 9}}) {
    Sampler sampler(sampling);
    for (int32_t token : prompt) sampler.accept(token);
    Written& text = texts.emplace_back();
    const auto emit = [&](int32_t token) {
      text.tokens.push_back(token);
      return text.tokens.size() < wanted;
    };
    const auto done = generate(session, tokenizer, sampler, prompt, options, emit, false);
    REQUIRE_MESSAGE(done.ok(), done.error().message);
    text.stopped = done->stopped, text.position = session.position(), text.steps = done->decode_steps;
  }
  return texts;
}

}  // namespace

TEST_CASE("a text and what it leaves are the same where its tokens are chosen on the device, however it ends") {
  const auto host = open(false), device = open(true);
  REQUIRE(!host->engine().chooses_tokens());
  REQUIRE(device->engine().chooses_tokens());
  const SamplerOptions drawn{.temperature = 1.2f, .seed = 11}, greedy{.temperature = 0},
      penalised{.temperature = 0, .repeat_penalty = 1.3f};
  const auto check = [&](const SamplerOptions& sampling, const GenerateOptions& options, size_t wanted = 1000) {
    host->reset(), device->reset();
    const auto expected = write(*host, sampling, options, wanted);
    CHECK(write(*device, sampling, options, wanted) == expected);
    return expected.front();
  };
  for (const SamplerOptions& sampling : {drawn, greedy, penalised}) {
    CHECK(check(sampling, {.max_tokens = 20}).stopped == StopReason::length);
    CHECK(check(sampling, {.max_tokens = 1}).tokens.size() == 1);
    CHECK(check(sampling, {.max_tokens = 20}, 5).stopped == StopReason::unwanted);
    const Tokens text = check(sampling, {.max_tokens = 20}).tokens;
    CHECK(check(sampling, {.max_tokens = 20, .stops = Tokens{text[7]}}).stopped == StopReason::stop_token);
  }
  // The second text finds the context full.
  host->reset(), device->reset();
  const auto options = GenerateOptions{.max_tokens = 40, .ignore_stop = true};
  const auto expected = write(*host, drawn, options), got = write(*device, drawn, options);
  CHECK(expected.back().stopped == StopReason::context_full);
  CHECK(got == expected);
}

TEST_CASE("tokens that are timed are in the context wherever one is chosen behind them") {
  for (bool chooses_tokens : {false, true}) {
    const auto session = open(chooses_tokens);
    const SequenceId id = session->sequence();
    const Tokens tokens = {5, 6, 7, 8, 9};
    REQUIRE(extend(session->engine(), {&id, 1}, tokens).ok());
    CHECK(session->position() == 5);
    for (size_t i = 0; i < tokens.size(); ++i) CHECK(session->tokens()[i].id == tokens[i]);
  }
}
