// Sequences whose values are no finite numbers, as those of damaged weights: whoever is computed beside them, or gets
// their pages, has the bits that it gets alone.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>

#include "engine/engine.h"
#include "model/small_transformer.h"
#include "support/bad_tokens.h"
#include "support/model_files.h"

using namespace smelt;
using namespace smelt::test;

namespace {

using Logits = std::vector<float>;
using Tokens = std::vector<int32_t>;

constexpr int32_t kBad = 7;  // a token whose embedding is no number; so is that of token 0

struct Tested {
  const char* name;
  DType cache;
  const Traits* small = nullptr;  // null: the model in the program
};
const Traits kSmallGemma = {.architecture = "gemma3", .has_norms = true};
const Tested kModels[] = {{"glm", DType::U8},
                          {"gpt-oss", DType::U8, &kSmallGptOss},
                          {"gemma3 f16", DType::F16, &kSmallGemma},
                          {"qwen35 f32", DType::F32, &kSmallQwen35}};

std::vector<std::byte> bytes_of(const Tested& model) {
  constexpr Sizes kSizes{.hidden = 64, .width = 32, .inner = 64, .vocabulary = 96, .window = 40};
  if (model.small) return SmallTransformer(*model.small, kSizes).writer.bytes();
  std::ifstream file(kGlm, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const auto all = std::as_bytes(std::span(bytes));
  return {all.begin(), all.end()};
}

class Damaged {
 public:
  explicit Damaged(const Tested& model)
      : model_(model), bytes_(with_bad_tokens(bytes_of(model), std::array{0, kBad})) {}

  std::unique_ptr<Engine> open(int64_t cache_tokens = 0) const {
    auto engine = Engine::open(file_,
                               {.threads = 1,
                                .context = 512,
                                .sequences = 2,
                                .cache_tokens = cache_tokens,
                                .cache_type = model_.cache,
                                .quantise_activations = model_.cache == DType::U8,
                                .prefill_chunk = 64,
                                .use_tuned = false},
                               {});
    REQUIRE_MESSAGE(engine.ok(), engine.error().message);
    return engine.take();
  }

 private:
  const Tested& model_;
  std::vector<std::byte> bytes_;
  const GgufFile file_ = GgufFile::open_memory(bytes_).take();
};

Tokens sound_tokens(int32_t count, int32_t seed) {
  Tokens tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back(8 + (i * i + seed) % 80);
  return tokens;
}

std::vector<Logits> step(Engine& engine, const std::vector<StepItem>& items) {
  std::vector<Logits> out(items.size());
  const auto outcomes = engine.step(
      items, [&](size_t item, int64_t, std::span<const float> row) { out[item].assign(row.begin(), row.end()); });
  REQUIRE_MESSAGE(outcomes.ok(), outcomes.error().message);
  for (const StepOutcome outcome : *outcomes) REQUIRE(outcome == StepOutcome::Done);
  return out;
}

int64_t count_wrong(const Logits& logits) {
  return std::count_if(logits.begin(), logits.end(), [](float x) { return !std::isfinite(x); });
}

// Where the embedding is the output matrix, too, the logits of the two tokens are no numbers for anybody.
void check_same(const Logits& got, const Logits& alone) {
  CHECK(count_wrong(alone) <= 2);
  CHECK(count_wrong(got) == count_wrong(alone));
  REQUIRE(got.size() == alone.size());
  int64_t different = 0;
  for (size_t i = 0; i < got.size(); ++i)
    different += std::isfinite(alone[i]) && std::memcmp(&got[i], &alone[i], sizeof(float)) != 0;
  CHECK(different == 0);
}

void check_wrong(const Logits& logits) { CHECK(count_wrong(logits) == std::ssize(logits)); }

// A prompt and generated tokens in steps, with what there is beside them in each.
std::vector<Logits> write(Engine& engine, const Tokens& prompt, const Tokens& generated,
                          const std::function<StepItem(int64_t step)>& beside = {}) {
  const auto started = engine.start(prompt);
  REQUIRE(started.ok());
  std::vector<Logits> out;
  int64_t steps = 0;
  const auto add = [&](std::span<const int32_t> tokens, bool is_generated) {
    std::vector<StepItem> items = {{.sequence = started->id, .tokens = tokens, .is_generated = is_generated}};
    if (beside) items.push_back(beside(steps++));
    const std::vector<Logits> logits = step(engine, items);
    out.push_back(logits[0]);
    if (beside) check_wrong(logits[1]);
  };
  constexpr size_t kPart = 13;  // no whole groups
  for (std::span<const int32_t> rest = std::span(prompt).subspan(static_cast<size_t>(started->found)); !rest.empty();) {
    const auto part = rest.first(std::min(kPart, rest.size()));
    add(part, false);
    rest = rest.subspan(part.size());
  }
  for (const int32_t& token : generated) add({&token, 1}, true);
  engine.stop(started->id);
  return out;
}

void check_all(const std::vector<Logits>& got, const std::vector<Logits>& alone) {
  REQUIRE(got.size() == alone.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    check_same(got[i], alone[i]);
  }
}

template <class Check>
void for_each_model(Check check) {
  for (const Tested& tested : kModels) {
    CAPTURE(tested.name);
    check(Damaged(tested));
  }
}

}  // namespace

TEST_CASE("a sequence without a finite number changes no bit of one beside it, nor of one that gets its pages") {
  for_each_model([](const Damaged& model) {
    const Tokens prompt = sound_tokens(29, 1), generated = sound_tokens(12, 2);
    const auto alone = write(*model.open(), prompt, generated);
    const auto engine = model.open(512);
    const Tokens bad(300, kBad), one = {kBad};
    const SequenceId other = engine->start()->id;
    // Longer than a chunk of an attention, so that what it reads behind the end of the short one counts.
    const auto beside = [&](int64_t number) {
      return number == 1 ? StepItem{.sequence = other, .tokens = bad}
                         : StepItem{.sequence = other, .tokens = one, .is_generated = number > 1};
    };
    check_all(write(*engine, prompt, generated, beside), alone);
    engine->stop(other);
    // Pages of the bad one are needed now.
    const Tokens longer = sound_tokens(450, 3);
    check_all(write(*engine, longer, generated), write(*model.open(), longer, generated));
  });
}

TEST_CASE("who begins like a sequence that is no number further on has the bits that it gets alone") {
  for_each_model([](const Damaged& model) {
    const Tokens common = sound_tokens(40, 4), generated = sound_tokens(5, 5);
    const Tokens bad(20, kBad);
    Tokens sound = common;
    sound.insert(sound.end(), {60, 61, 62});
    const auto alone = write(*model.open(), sound, generated);
    const auto engine = model.open();
    const SequenceId first = engine->start()->id;
    step(*engine, {{.sequence = first, .tokens = common}});
    check_wrong(step(*engine, {{.sequence = first, .tokens = bad}})[0]);
    engine->stop(first);
    check_same(write(*engine, sound, generated).back(), alone.back());
  });
}

// Sums over the positions of one run have zero times what is no number where a token does not see another.
TEST_CASE("nobody begins with rows of a run that had tokens without a finite number behind them") {
  for_each_model([](const Damaged& model) {
    const Tokens prompt = sound_tokens(140, 8), generated = sound_tokens(3, 9);
    const auto alone = write(*model.open(), prompt, generated);
    for (const size_t sound : {60, 120, 140}) {  // in the first page, at the end of the second one, behind it
      CAPTURE(sound);
      const auto engine = model.open();
      const SequenceId first = engine->start()->id;
      Tokens spoiled(prompt.begin(), prompt.begin() + static_cast<ptrdiff_t>(sound));
      spoiled.resize(sound + 10, kBad);
      check_wrong(step(*engine, {{.sequence = first, .tokens = spoiled}})[0]);
      // While it runs, and after it.
      const auto found = [&] {
        const auto again = engine->start(prompt);
        REQUIRE(again.ok());
        engine->stop(again->id);
        return again->found;
      };
      CHECK(found() <= static_cast<int64_t>(sound) / kPageSize * kPageSize);
      engine->stop(first);
      CHECK(found() <= static_cast<int64_t>(sound) / kPageSize * kPageSize);
      check_same(write(*engine, prompt, generated).back(), alone.back());
    }
  });
}

TEST_CASE("nobody begins with generated tokens without a finite number, nor with those that were computed with them") {
  for_each_model([](const Damaged& model) {
    const Tokens common = sound_tokens(64, 11);
    Tokens drafts = sound_tokens(3, 12);
    drafts.push_back(kBad);
    const auto engine = model.open();
    const SequenceId first = engine->start()->id;
    step(*engine, {{.sequence = first, .tokens = common}});
    check_wrong(step(*engine, {{.sequence = first, .tokens = drafts, .is_generated = true}})[0]);
    engine->stop(first);
    Tokens longer = common;
    longer.insert(longer.end(), drafts.begin(), drafts.end());
    longer.push_back(60);
    const auto again = engine->start(longer);
    REQUIRE(again.ok());
    CHECK(again->found <= std::ssize(common));
  });
}

TEST_CASE("what a sequence computes after it has gone back before tokens without a finite number is found again") {
  for_each_model([](const Damaged& model) {
    const Tokens common = sound_tokens(64, 13), more = sound_tokens(64, 14), bad(5, kBad);
    const auto engine = model.open();
    const SequenceId first = engine->start()->id;
    step(*engine, {{.sequence = first, .tokens = common}});
    check_wrong(step(*engine, {{.sequence = first, .tokens = bad}})[0]);
    engine->rewind(first, std::ssize(common));
    REQUIRE(engine->position(first) == std::ssize(common));  // the end of a page, where a state is kept
    step(*engine, {{.sequence = first, .tokens = more}});
    Tokens both = common;
    both.insert(both.end(), more.begin(), more.end());
    both.push_back(60);
    const auto again = engine->start(both);
    REQUIRE(again.ok());
    CHECK(again->found == 128);
  });
}

TEST_CASE("a token that was no number and is taken back leaves nothing behind") {
  for_each_model([](const Damaged& model) {
    const Tokens prompt = sound_tokens(20, 6), next = sound_tokens(6, 7), bad(9, kBad);
    const auto engine = model.open();
    const SequenceId id = engine->start()->id;
    step(*engine, {{.sequence = id, .tokens = prompt}});
    check_wrong(step(*engine, {{.sequence = id, .tokens = bad, .is_generated = true}})[0]);
    engine->rewind(id, std::ssize(prompt));
    if (engine->position(id) == 0) step(*engine, {{.sequence = id, .tokens = prompt}});  // of a recurrent model
    Logits last;
    for (const int32_t& token : next)
      last = step(*engine, {{.sequence = id, .tokens = {&token, 1}, .is_generated = true}})[0];
    check_same(last, write(*model.open(), prompt, next).back());
  });
}
