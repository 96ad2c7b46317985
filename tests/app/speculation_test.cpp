// Text with drafts is the text without them: chosen greedily or by a seed, under a grammar, up to a stop or a full
// context, and what it leaves in the context.
#include <doctest/doctest.h>

#include <filesystem>
#include <random>

#include "app/generate.h"
#include "engine/lookup_drafter.h"
#include "grammar/gbnf.h"
#include "support/effort.h"

using namespace smelt;

namespace {

using Tokens = std::vector<int32_t>;

constexpr char kGlm[] = SMELT_SOURCE_DIR "/models/tiny-glm-Q4_K_M.gguf";
constexpr int64_t kDrafts = 4;

// What a test needs of a model, opened once.
struct Opened {
  GgufFile file;
  Tokenizer tokenizer;
  std::unique_ptr<Session> session;

  explicit Opened(const std::string& path, int64_t context = 256)
      : file(GgufFile::open(path).take()), tokenizer(Tokenizer::from_gguf(file).take()) {
    auto opened =
        Session::open(file, {.threads = 1, .context = context, .drafts = kDrafts, .cache_type = DType::U8}, {});
    REQUIRE_MESSAGE(opened.ok(), opened.error().message);
    session = opened.take();
  }
};

Opened& model() {
  static Opened opened(kGlm);
  return opened;
}

// Right with some probability, else a random token: every length of what is accepted occurs.
class NoisyText : public Drafter {
 public:
  NoisyText(Tokens text, unsigned seed) : text_(std::move(text)), random_(seed) {}
  Result<std::vector<DraftToken>> draft(std::span<const int32_t> text, int64_t most) override {
    std::vector<DraftToken> out;
    for (size_t i = text.size(); i < text_.size() && static_cast<int64_t>(out.size()) < most; ++i)
      out.push_back({random_() % 4 ? text_[i] : static_cast<int32_t>(random_() % 4096)});
    return out;
  }

 private:
  Tokens text_;
  std::mt19937 random_;
};

struct Written {
  Tokens tokens;
  StopReason stopped{};
  int64_t position = 0;  // of the session afterwards
  int64_t steps = 0;     // tokens that steps have appended
  bool operator==(const Written&) const = default;
};

Written write(Opened& model, const SamplerOptions& sampling, const GenerateOptions& options, const Tokens& prompt,
              Speculation* speculation = nullptr) {
  model.session->reset();
  Sampler sampler(sampling);
  for (int32_t token : prompt) sampler.accept(token);
  GenerateOptions with = options;
  with.speculation = speculation;
  Written out;
  const std::atomic<bool> cancel = false;
  const auto done = generate(
      *model.session, model.tokenizer, sampler, prompt, with,
      [&](int32_t token) {
        out.tokens.push_back(token);
        return true;
      },
      cancel);
  REQUIRE_MESSAGE(done.ok(), done.error().message);
  CHECK(done->tokens == static_cast<int64_t>(out.tokens.size()));
  out.stopped = done->stopped;
  out.position = model.session->position();
  out.steps = done->decode_steps;
  return out;
}

Tokens joined(const Tokens& a, const Tokens& b) {
  Tokens out = a;
  out.insert(out.end(), b.begin(), b.end());
  return out;
}

// Without drafts, with some of different quality, and with those of the text itself.
void check_same(Opened& model, const SamplerOptions& sampling, const std::function<GenerateOptions()>& options,
                const std::string& text) {
  const Tokens prompt = model.tokenizer.encode(text);
  const Written plain = write(model, sampling, options(), prompt);
  for (unsigned seed = 0; seed < 3; ++seed) {
    Speculation noisy(std::make_unique<NoisyText>(joined(prompt, plain.tokens), seed),
                      {.most = kDrafts, .adaptive = seed == 0});
    CHECK(write(model, sampling, options(), prompt, &noisy) == plain);
    if (plain.tokens.size() > 40) CHECK(noisy.counts().accepted() > 3);
  }
  Speculation lookup(std::make_unique<LookupDrafter>(), {.most = kDrafts, .adaptive = false});
  CHECK(write(model, sampling, options(), prompt, &lookup) == plain);
}

}  // namespace

TEST_CASE("greedy text with drafts is the text without them") {
  check_same(model(), {.temperature = 0}, [] { return GenerateOptions{.max_tokens = 90}; }, "Once upon a time");
  check_same(model(), {.temperature = 0}, [] { return GenerateOptions{.max_tokens = 1}; }, "Once upon a time");
}

TEST_CASE("a seed gives the same text with drafts, under every sampler") {
  const std::vector<SamplerOptions> samplers = {
      {.temperature = 0.8f, .seed = 5},
      {.temperature = 1.5f, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 6},
      {.temperature = 0.9f, .repeat_penalty = 1.3f, .presence_penalty = 0.5f, .frequency_penalty = 0.2f, .seed = 7},
      {.temperature = 1, .xtc_probability = 0.5f, .dry = {.multiplier = 0.8f}, .seed = 8}};
  for (const SamplerOptions& sampling : test::some(samplers))
    check_same(model(), sampling, [] { return GenerateOptions{.max_tokens = 60}; }, "Once upon a time");
}

TEST_CASE("drafts end where the text does: at a stop, where the context is full, where nobody wants more") {
  const auto free = [] { return GenerateOptions{.max_tokens = -1}; };
  check_same(model(), {.temperature = 0}, free, "Once upon a time");
  Opened small(kGlm, 48);
  check_same(
      small, {.temperature = 0}, [] { return GenerateOptions{.max_tokens = -1, .ignore_stop = true}; },
      "One day, a girl named Lily went to the park. She");
}

TEST_CASE("a grammar holds text with drafts as it holds text without") {
  const auto grammar = read_gbnf("root ::= (\" \" [A-Z]? [a-z]+){12} \".\"");
  REQUIRE_MESSAGE(grammar.ok(), grammar.error().message);
  const auto masks = TokenMasks::make(*grammar, TokenTable::of(model().tokenizer));
  REQUIRE(masks.ok());
  std::vector<std::unique_ptr<Constraint>> constraints;
  const auto options = [&] {
    constraints.push_back(std::make_unique<Constraint>(*masks));
    return GenerateOptions{.max_tokens = 60, .constraint = constraints.back().get()};
  };
  check_same(model(), {.temperature = 0}, options, "Once upon a time");
  check_same(model(), {.temperature = 1, .seed = 3}, options, "Once upon a time");
}

TEST_CASE("lookup writes a repeated text in fewer steps") {
  const std::string line = "The cat sat on the mat. The dog ran to the park. The bird sang in the tree. ";
  const Tokens prompt = model().tokenizer.encode(line + line + line + "The cat");
  Speculation lookup(std::make_unique<LookupDrafter>(), {.most = kDrafts, .adaptive = false});
  const Written plain = write(model(), {.temperature = 0}, {.max_tokens = 40}, prompt);
  CHECK(write(model(), {.temperature = 0}, {.max_tokens = 40}, prompt, &lookup) == plain);
  CHECK(lookup.counts().tokens == plain.steps);
  CHECK(3 * lookup.counts().steps < 2 * plain.steps);
}
