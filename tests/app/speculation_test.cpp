// Text with drafts is the text without them: chosen greedily or by a seed, under a grammar, up to a stop or a full
// context, and what it leaves in the context.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <random>

#include "app/draft_flags.h"
#include "app/generate.h"
#include "app/process.h"
#include "engine/lookup_drafter.h"
#include "engine/model_drafter.h"
#include "engine/mtp_drafter.h"
#include "grammar/gbnf.h"
#include "support/effort.h"
#include "text/byte_level.h"

using namespace smelt;

namespace {

using Tokens = std::vector<int32_t>;

constexpr char kGlm[] = SMELT_SOURCE_DIR "/models/tiny-glm-Q4_K_M.gguf";
constexpr char kMtp[] = SMELT_SOURCE_DIR "/../shared/models/tiny-glm/tiny-glm-mtp-Q4_0.gguf";
constexpr char kRecurrent[] = SMELT_SOURCE_DIR "/../shared/models/zoo/qwen35moe/qwen35moe-Q4_K_M.gguf";
constexpr int64_t kDrafts = 4;

// What a test needs of a model, opened once.
struct Opened {
  GgufFile file;
  Tokenizer tokenizer;
  std::unique_ptr<Session> session;

  explicit Opened(const std::string& path, int64_t context = 256, bool mtp = false)
      : file(GgufFile::open(path).take()), tokenizer(Tokenizer::from_gguf(file).take()) {
    auto opened = Session::open(
        file, {.threads = 1, .context = context, .drafts = kDrafts, .mtp = mtp, .cache_type = DType::U8}, {});
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

TEST_CASE("lookup writes a text that repeats itself in fewer steps") {
  const auto grammar = read_gbnf("root ::= (\" The cat sat on the mat.\"){6}");
  REQUIRE_MESSAGE(grammar.ok(), grammar.error().message);
  const auto masks = TokenMasks::make(*grammar, TokenTable::of(model().tokenizer));
  REQUIRE(masks.ok());
  const Tokens prompt = model().tokenizer.encode("Once upon a time.");
  Constraint alone(*masks), drafting(*masks);
  Speculation lookup(std::make_unique<LookupDrafter>(), {.most = kDrafts, .adaptive = false});
  const Written plain = write(model(), {.temperature = 0}, {.max_tokens = 90, .constraint = &alone}, prompt);
  CHECK(plain.stopped == StopReason::complete);
  CHECK(write(model(), {.temperature = 0}, {.max_tokens = 90, .constraint = &drafting}, prompt, &lookup) == plain);
  CHECK(lookup.counts().tokens == plain.steps);
  CHECK(2 * lookup.counts().steps < plain.steps);
}

namespace {

std::unique_ptr<Drafter> same_model(DraftChoice choice, int64_t context = 256, const char* path = kGlm) {
  auto file = std::make_unique<GgufFile>(GgufFile::open(path).take());
  auto session =
      Session::open(*file, {.threads = 1, .context = context, .back_steps = kDrafts, .cache_type = DType::U8}, {});
  REQUIRE(session.ok());
  return std::make_unique<ModelDrafter>(std::move(file), session.take(), choice);
}

std::string error_of(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"run", "-p", "Once", "-n", "3"});
  const test::Outcome run = test::smelt(test::on_one_thread(arguments), {});
  CHECK(run.exit_code != 0);
  return run.err;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a draft model changes no text, and one that is the model itself is nearly always right") {
  const Tokens prompt = model().tokenizer.encode("Once upon a time, there was a cat");
  for (const SamplerOptions& sampling : {SamplerOptions{.temperature = 0}, SamplerOptions{.seed = 4}}) {
    const GenerateOptions options{.max_tokens = 50, .ignore_stop = true};
    const Written plain = write(model(), sampling, options, prompt);
    Speculation drafts(same_model({0, false}), {.most = 3, .adaptive = false});
    CHECK(write(model(), sampling, options, prompt, &drafts) == plain);
    // Another text in the same contexts: what they have in common is not read again.
    CHECK(write(model(), sampling, options, prompt, &drafts) == plain);
    if (sampling.temperature <= 0) CHECK(drafts.counts().accepted() + 3 >= drafts.counts().drafted());
  }
}

TEST_CASE("drafts change no text of a recurrent model, nor those of one") {
  if (!std::filesystem::exists(kRecurrent)) {
    MESSAGE(kRecurrent << " is not there");
    return;
  }
  Opened recurrent(kRecurrent);
  const auto options = [] { return GenerateOptions{.max_tokens = 90, .ignore_stop = true}; };
  const std::string text = "Once upon a time, there was a cat";
  for (const SamplerOptions& sampling :
       {SamplerOptions{.temperature = 0}, SamplerOptions{.repeat_penalty = 1.2f, .seed = 4}}) {
    check_same(recurrent, sampling, options, text);
    const Tokens prompt = recurrent.tokenizer.encode(text);
    const Written plain = write(recurrent, sampling, options(), prompt);
    Speculation drafts(same_model({0, false}, 256, kRecurrent), {.most = 3, .adaptive = false});
    for (int turn = 0; turn < 2; ++turn) CHECK(write(recurrent, sampling, options(), prompt, &drafts) == plain);
    if (sampling.temperature <= 0) CHECK(4 * drafts.counts().accepted() > 3 * drafts.counts().drafted());
  }
}

TEST_CASE("a draft model that cannot read on drafts nothing, and the text goes on") {
  const Tokens prompt = model().tokenizer.encode("Once upon a time, there was a cat");
  const GenerateOptions options{.max_tokens = 40, .ignore_stop = true};
  const Written plain = write(model(), {.temperature = 0}, options, prompt);
  Speculation drafts(same_model({0, false}, 24), {.most = 3, .adaptive = false});
  CHECK(write(model(), {.temperature = 0}, options, prompt, &drafts) == plain);
  CHECK(drafts.counts().drafted() > 0);
  CHECK(drafts.counts().steps > 15);
}

TEST_CASE("drafts of the model's own head change no text") {
  if (!std::filesystem::exists(kMtp)) {
    MESSAGE(kMtp << " is not there");
    return;
  }
  Opened mtp(kMtp, 256, true);
  const Tokens prompt = mtp.tokenizer.encode("Once upon a time");
  for (const SamplerOptions& sampling : {SamplerOptions{.temperature = 0}, SamplerOptions{.seed = 4}}) {
    for (bool adaptive : {false, true}) {
      const GenerateOptions options{.max_tokens = 120, .ignore_stop = true};
      const Written plain = write(mtp, sampling, options, prompt);
      Speculation drafts(
          std::make_unique<MtpDrafter>(mtp.session->engine(), mtp.session->sequence(), DraftChoice(0, false)),
          {.most = 3, .adaptive = adaptive});
      CHECK(write(mtp, sampling, options, prompt, &drafts) == plain);
      if (adaptive) continue;
      const auto& first = drafts.counts().places[0];
      CHECK(3 * first.accepted > first.drafted);
    }
  }
}

TEST_CASE("texts with drawn drafts are as likely as without" * doctest::test_suite("long")) {
  const Tokens prompt = model().tokenizer.encode("One day, a");
  const int texts = test::repetitions(1500);
  const GenerateOptions options{.max_tokens = 3, .ignore_stop = true};
  std::map<Tokens, double> plain, drafted;
  Speculation drafts(same_model({0, true}), {.most = 2, .adaptive = false});
  for (int i = 0; i < texts; ++i) {
    SamplerOptions sampling{.temperature = 0.9f, .top_k = 5, .seed = static_cast<uint64_t>(i)};
    plain[write(model(), sampling, options, prompt).tokens] += 1;
    sampling.seed += 1000000;
    drafted[write(model(), sampling, options, prompt, &drafts).tokens] += 1;
  }
  CHECK(drafts.counts().accepted() > drafts.counts().drafted() / 2);
  // Two samples of one distribution: each difference has the variance of the sum.
  double statistic = 0, degrees = 0;
  for (const auto& [tokens, count] : plain)
    if (const double sum = count + drafted[tokens]; sum >= 10) {
      statistic += (count - drafted[tokens]) * (count - drafted[tokens]) / sum;
      degrees += 1;
    }
  CAPTURE(statistic);
  CHECK(degrees > (test::kSanitized ? 3 : 10));
  CHECK(statistic < degrees + 5 * std::sqrt(2 * degrees) + 10);
}

TEST_CASE("flags of drafts: figures at the end, and sentences about what cannot be") {
  const test::Outcome run = test::smelt(
      test::on_one_thread({"run", "-p", "Once", "-n", "40", "--temp", "0", "--lookup", "--draft-max", "3"}), {});
  CHECK(run.exit_code == 0);
  CHECK(contains(run.err, "\ndrafts "));
  CHECK(contains(run.err, " tokens a step"));
  CHECK(contains(error_of({"--mtp", "2"}), "has no head for multi-token prediction"));
  CHECK(contains(error_of({"--mtp", "2", "--lookup"}), "only one of them can draft"));
  CHECK(contains(error_of({"--draft-max", "2"}), "need something that drafts"));
  CHECK(contains(error_of({"--lookup", "--draft-min", "9"}), "at most 7 tokens are drafted"));
  CHECK(contains(error_of({"--lookup", "--draft-draw"}), "has nothing to draw from"));
  CHECK(contains(error_of({"-md", "/nowhere.gguf"}), "/nowhere.gguf"));
  CHECK(contains(error_of({"--lookup", "-ngld", "9"}), "a draft model runs where the model runs"));
  const test::Outcome model = test::smelt(
      test::on_one_thread({"run", "-p", "Once", "-n", "40", "--temp", "0", "-md", kGlm, "--draft", "2"}), {});
  CHECK(model.exit_code == 0);
  CHECK(model.out == run.out);
}

TEST_CASE("a draft model has to have the same tokens") {
  // All bytes, and more.
  const auto of_tokens = [](const std::vector<std::string>& more) {
    TokenizerData data;
    for (int byte = 0; byte < 256; ++byte)
      data.tokens.push_back(token_text_of_bytes(std::string(1, static_cast<char>(byte))));
    data.tokens.insert(data.tokens.end(), more.begin(), more.end());
    auto made = Tokenizer::from_data(std::move(data));
    REQUIRE_MESSAGE(made.ok(), made.error().message);
    return made.take();
  };
  CHECK(check_same_tokens(model().tokenizer, model().tokenizer, "x.gguf").ok());
  const Status same = check_same_tokens(of_tokens({"ab"}), of_tokens({"ac"}), "x.gguf");
  CHECK(check_same_tokens(of_tokens({"ab"}), of_tokens({"ab", "filled"}), "x.gguf").ok());
  REQUIRE(!same.ok());
  CHECK(
      same.error().message ==
      "[draft] x.gguf: token 256 is \"ab\" there and \"ac\" in the model that it drafts for; choose one with the same "
      "vocabulary");
}
