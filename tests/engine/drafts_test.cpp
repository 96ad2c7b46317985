// Several generated tokens of one sequence in one step: the bits of single steps, whatever is taken back in between.
#include <doctest/doctest.h>

#include <filesystem>
#include <random>

#include "engine/lookup_drafter.h"
#include "engine/session.h"
#include "engine/speculation.h"
#include "support/compare_logits.h"
#include "support/effort.h"
#include "support/model_files.h"

using namespace smelt;
using namespace smelt::test;

namespace {

using Logits = std::vector<float>;
using Tokens = std::vector<int32_t>;

struct Tested {
  const char* path;
  bool quantise;
  DType cache;
};
constexpr Tested kModels[] = {{kGlm, true, DType::U8},     {kGlm, false, DType::F32},   {kMtp, true, DType::F16},
                              {kLlama, true, DType::U8},   {kLlama, false, DType::F32}, {kGemma, true, DType::U8},
                              {kQwenMoe, true, DType::U8}, {kGptOss, true, DType::U8},  {kGemma, false, DType::F32},
                              {kQwen35, true, DType::U8},  {kQwen35, false, DType::F32}};
constexpr Tested kRecurrent = {kQwen35, true, DType::U8};

constexpr int64_t kDrafts = 7;

std::unique_ptr<Session> open(const GgufFile& file, const Tested& model, int64_t drafts) {
  auto session = Session::open(file,
                               {.threads = 1,
                                .context = 512,
                                .drafts = drafts,
                                .kept_windows = drafts > 0 ? 0 : 1000,  // none, or all: of models that have windows
                                .cache_type = model.cache,
                                .quantise_activations = model.quantise,
                                .prefill_chunk = 64,
                                .use_tuned = false},
                               {});
  REQUIRE_MESSAGE(session.ok(), session.error().message);
  return session.take();
}

Tokens random_tokens(std::mt19937& rng, size_t count, int64_t vocabulary) {
  Tokens out(count);
  for (int32_t& token : out) token = static_cast<int32_t>(rng() % static_cast<uint64_t>(vocabulary));
  return out;
}

// A text of random tokens behind a prompt, by steps that also have wrong drafts, which are taken back: every row of
// logits that counts has the bits of single steps. Positions cross pages and chunks of the cache.
void check_steps(const Tested& model, size_t prompt_length, size_t generated) {
  const GgufFile file = GgufFile::open(model.path).take();
  const auto alone = open(file, model, 0), drafting = open(file, model, kDrafts);
  std::mt19937 rng(static_cast<unsigned>(prompt_length));
  const int64_t vocabulary = alone->vocabulary_size();
  const Tokens prompt = random_tokens(rng, prompt_length, vocabulary), text = random_tokens(rng, generated, vocabulary);
  REQUIRE(alone->append(prompt).ok());
  REQUIRE(drafting->append(prompt).ok());
  std::vector<Logits> expected;
  for (int32_t token : text) {
    const auto row = alone->extend(token);
    REQUIRE(row.ok());
    expected.emplace_back(row->begin(), row->end());
  }
  for (size_t done = 0; done < text.size();) {
    const size_t right = std::min<size_t>(1 + rng() % (kDrafts + 1), text.size() - done);
    Tokens step(text.begin() + static_cast<std::ptrdiff_t>(done),
                text.begin() + static_cast<std::ptrdiff_t>(done + right));
    for (int32_t wrong : random_tokens(rng, rng() % (kDrafts + 2 - right), vocabulary)) step.push_back(wrong);
    CAPTURE(done);
    CAPTURE(step.size());
    int64_t rows = 0;
    const auto compare = [&](int64_t index, std::span<const float> row) {
      CHECK(index == rows++);
      if (static_cast<size_t>(index) < right) CHECK(same_bits(row, expected[done + static_cast<size_t>(index)]));
    };
    REQUIRE(drafting->extend_all(step, compare).ok());
    CHECK(rows == static_cast<int64_t>(step.size()));
    done += right;
    drafting->rewind(static_cast<int64_t>(prompt_length + done));
  }
}

// Right as often as it is told, for tests of what comes of drafts.
class KnownText : public Drafter {
 public:
  explicit KnownText(Tokens text) : text_(std::move(text)) {}
  Result<std::vector<DraftToken>> draft(std::span<const int32_t> text, int64_t most) override {
    std::vector<DraftToken> out;
    for (size_t i = text.size(); i < text_.size() && static_cast<int64_t>(out.size()) < most; ++i)
      out.push_back({text_[i]});
    return out;
  }

 private:
  Tokens text_;
};

Tokens looked_up(const Tokens& text, int64_t most) {
  LookupDrafter drafter;
  Tokens out;
  const auto drafts = drafter.draft(text, most);
  REQUIRE(drafts.ok());
  for (const DraftToken& token : *drafts) out.push_back(token.id);
  return out;
}

}  // namespace

TEST_CASE("several generated tokens of one sequence in one step have the bits of single steps") {
  for (const Tested& model : kModels) {
    if (test::kSanitized && &model != kModels) break;  // they differ in generated code
    if (!std::filesystem::exists(model.path)) {
      MESSAGE(model.path << " is not there");
      continue;
    }
    CAPTURE(model.path);
    CAPTURE(model.quantise);
    check_steps(model, 5, 90);
    check_steps(model, 230, 60);
  }
}

TEST_CASE("a step of more tokens than a plan has rows is several runs, with the same bits") {
  for (const Tested& model : {kModels[0], kRecurrent}) {
    if (!std::filesystem::exists(model.path)) continue;
    const GgufFile file = GgufFile::open(model.path).take();
    const auto alone = open(file, model, 0), drafting = open(file, model, 2);
    std::mt19937 rng(1);
    const Tokens text = random_tokens(rng, 11, alone->vocabulary_size());
    REQUIRE(alone->append({{1, 2, 3}}).ok());
    REQUIRE(drafting->append({{1, 2, 3}}).ok());
    int64_t rows = 0;
    const auto compare = [&](int64_t index, std::span<const float> row) {
      CHECK(same_bits(row, *alone->extend(text[static_cast<size_t>(index)])));
      ++rows;
    };
    REQUIRE(drafting->extend_all(text, compare).ok());
    CHECK(rows == 11);
  }
}

namespace {

// Of a model that has one.
std::vector<std::byte> state_of(Session& session) {
  const Engine::Pieces pieces = session.engine().pieces(session.sequence());
  REQUIRE(pieces.state_bytes > 0);
  std::vector<std::byte> bytes(static_cast<size_t>(pieces.state_bytes));
  REQUIRE(session.engine().read_piece(session.sequence(), pieces.count() - 1, bytes).ok());
  return bytes;
}

// A token and drafts of which `right` are right are taken in one step, and the others back: the recurrent state is the
// one that single steps leave, and a prompt goes on from it with the same bits.
void check_states(Session& alone, Session& drafting, size_t right, size_t drafts) {
  CAPTURE(right);
  CAPTURE(drafts);
  std::mt19937 rng(static_cast<unsigned>(drafts));
  const int64_t vocabulary = alone.vocabulary_size();
  const Tokens prompt = random_tokens(rng, 70, vocabulary), more = random_tokens(rng, 9, vocabulary);
  Tokens step = random_tokens(rng, 1 + drafts, vocabulary);
  for (Session* session : {&alone, &drafting}) {
    session->reset();
    REQUIRE(session->append(prompt).ok());
  }
  REQUIRE(drafting.extend_all(step, [](int64_t, std::span<const float>) {}).ok());
  CHECK(drafting.position() == 71 + static_cast<int64_t>(drafts));
  drafting.rewind(71 + static_cast<int64_t>(right));
  REQUIRE(drafting.position() == 71 + static_cast<int64_t>(right));
  for (size_t i = 0; i <= right; ++i) REQUIRE(alone.extend(step[i]).ok());
  CHECK(state_of(drafting) == state_of(alone));
  const auto a = alone.append(more), b = drafting.append(more);
  REQUIRE((a.ok() && b.ok()));
  CHECK(same_bits(*a, *b));
  CHECK(state_of(drafting) == state_of(alone));
}

}  // namespace

TEST_CASE("drafts taken back from a recurrent state leave the bits of single steps, however many were right") {
  if (!std::filesystem::exists(kRecurrent.path)) {
    MESSAGE(kRecurrent.path << " is not there");
    return;
  }
  const GgufFile file = GgufFile::open(kRecurrent.path).take();
  const auto alone = open(file, kRecurrent, 0), drafting = open(file, kRecurrent, kDrafts);
  for (size_t drafts = 0; drafts <= kDrafts; ++drafts)
    for (size_t right = 0; right <= drafts; ++right) check_states(*alone, *drafting, right, drafts);
}

TEST_CASE("of a recurrent model single steps are taken back one by one where the options ask for it") {
  if (!std::filesystem::exists(kRecurrent.path)) {
    MESSAGE(kRecurrent.path << " is not there");
    return;
  }
  const GgufFile file = GgufFile::open(kRecurrent.path).take();
  const auto session = Session::open(file, {.threads = 1, .context = 512, .back_steps = 3, .use_tuned = false}, {});
  REQUIRE(session.ok());
  Session& s = **session;
  const Tokens prompt(70, 5);
  for (int64_t back : {3, 2, 1, 0}) {
    s.reset();
    REQUIRE(s.append(prompt).ok());
    std::vector<std::vector<std::byte>> states;
    for (int32_t token = 1; token <= 6; ++token) {
      REQUIRE(s.extend(token).ok());
      states.push_back(state_of(s));
    }
    s.rewind(76 - back);
    CHECK(s.position() == 76 - back);
    CHECK(state_of(s) == states[static_cast<size_t>(5 - back)]);
  }
  s.rewind(71);  // further than that, and than the last step
  CHECK(s.position() == 64);
}

TEST_CASE(
    "the states of drafts are as many places as rows of a batch have drafts, those of single steps as asked for") {
  const auto states = [](int64_t sequences, int64_t drafts, int64_t back_steps) {
    EngineLayout layout = EngineLayout::make(4096, 512, sequences, 0, drafts);
    layout.add_states(back_steps);
    return layout.states;
  };
  CHECK(states(1, 0, 0) == 2 + 2 + 5);
  CHECK(states(1, 7, 0) == 2 + 2 + 7 + 5);
  CHECK(states(1, 8, 0) == 2 + 2 + 8 + 5);  // of a batch of 16 rows
  CHECK(states(16, 0, 0) == 2 + 32 + 20);
  CHECK(states(16, 7, 0) == 2 + 32 + 15 + 20);
  CHECK(states(16, 0, 3) == 2 + 32 + 48 + 20);
}

TEST_CASE("how many drafts there may be is said in a sentence") {
  const GgufFile file = GgufFile::open(kGlm).take();
  const auto session = Session::open(file, {.threads = 1, .drafts = 64}, {});
  REQUIRE(!session.ok());
  CHECK(session.error().message == "[engine] 64 tokens drafted at a time: 0 to 63 are possible");
}

TEST_CASE("lookup drafts what came behind the longest end that occurred before") {
  CHECK(looked_up({}, 4) == Tokens{});
  CHECK(looked_up({1}, 4) == Tokens{});
  CHECK(looked_up({1, 2, 3}, 4) == Tokens{});
  CHECK(looked_up({1, 2, 3, 9, 1, 2}, 4) == Tokens{3, 9, 1, 2});
  CHECK(looked_up({1, 2, 3, 9, 1, 2}, 2) == Tokens{3, 9});
  CHECK(looked_up({1, 2, 3, 9, 1, 2}, 0) == Tokens{});
  // Longer ends come first, then later places.
  CHECK(looked_up({1, 2, 3, 4, 8, 2, 3, 5, 1, 2, 3}, 1) == Tokens{4});
  CHECK(looked_up({1, 2, 3, 7, 1, 2, 4, 8, 1, 2}, 1) == Tokens{4});
  // One token that occurred before says little.
  CHECK(looked_up({1, 2, 3, 1}, 4) == Tokens{});
  // A repetition goes on.
  CHECK(looked_up({5, 5, 5}, 3) == Tokens{5});
}

TEST_CASE("the length of drafts is the one that gives most tokens per second") {
  // Steps of 1, 2, 4 and 8 rows, and how often each draft is right.
  struct Case {
    double times[4];
    double right;
    int64_t best;
  };
  for (const Case& c : {Case{{1, 1.1, 1.2, 1.4}, 0.95, 7}, Case{{1, 1.1, 1.2, 4}, 0.95, 3},
                        Case{{1, 1.3, 3, 9}, 0.8, 1}, Case{{1, 1.9, 3.5, 7}, 0.6, 0}}) {
    DraftLength length(7);
    std::mt19937 rng(3);
    std::vector<int64_t> used(8);
    for (int step = 0; step < 2000; ++step) {
      const int64_t drafted = length.next();
      int64_t accepted = 0;
      while (accepted < drafted && static_cast<double>(rng() % 1000) < 1000 * c.right) ++accepted;
      const size_t kind = drafted == 0 ? 0 : drafted == 1 ? 1 : drafted == 3 ? 2 : 3;
      length.record(drafted, accepted, c.times[kind]);
      ++used[static_cast<size_t>(drafted)];
    }
    CAPTURE(c.best);
    CHECK(used[static_cast<size_t>(c.best)] > 1800);
    CHECK(length.seconds(0) == 1);
  }
}

TEST_CASE("the length of drafts follows a text that changes") {
  DraftLength length(3);
  const auto run = [&](int steps, bool are_right) {
    int64_t drafted = 0;
    for (int i = 0; i < steps; ++i) {
      const int64_t n = length.next();
      length.record(n, are_right ? n : 0, n == 0 ? 1 : n == 1 ? 1.2 : 1.5);
      drafted += n;
    }
    return drafted;
  };
  CHECK(run(200, true) > 500);
  run(100, false);
  CHECK(run(200, false) < 20);
  run(1500, true);
  CHECK(run(200, true) > 500);
}

TEST_CASE("lengths that do not pay are tried the more seldom the more a try costs") {
  DraftLength length(3);
  double seconds = 0;
  int without = 0, tries = 0;  // steps since the last draft: whoever guesses next reads these tokens first
  for (int step = 0; step < 4000; ++step) {
    const int64_t n = length.next();
    const double time = n == 0 ? 1 : n == 1 ? 2 + 0.25 * without : 3.5 + 0.25 * without;
    length.record(n, 0, time);
    seconds += time;
    tries += n > 0;
    without = n == 0 ? without + 1 : 0;
  }
  CHECK(seconds < 4000 * 1.02);
  CHECK(tries >= 8);
}

TEST_CASE("counts of drafts by place, and what they gain") {
  Speculation speculation(std::make_unique<KnownText>(Tokens{1, 2, 3, 4, 5, 6}), {.most = 3, .adaptive = false});
  const Tokens text = {1, 2};
  CHECK(speculation.draft(text, 9)->size() == 3);
  CHECK(speculation.draft(text, 2)->size() == 2);
  speculation.record(3, 1, 2.0);
  speculation.record(2, 2, 2.0);
  CHECK(speculation.counts().net_ratio() == 0);
  for (int i = 0; i < 8; ++i) speculation.record(0, 0, 1.5);
  const DraftCounts& counts = speculation.counts();
  REQUIRE(counts.places.size() == 3);
  CHECK(counts.places[0].drafted == 2);
  CHECK(counts.places[0].accepted == 2);
  CHECK(counts.places[1].accepted == 1);
  CHECK(counts.places[2].drafted == 1);
  CHECK(counts.places[2].accepted == 0);
  CHECK(counts.tokens == 13);
  CHECK(counts.steps == 10);
  CHECK(counts.net_ratio() == doctest::Approx(13 * 1.5 / 16));
}

TEST_CASE("drafts that are too few are dropped") {
  Speculation speculation(std::make_unique<KnownText>(Tokens{1, 2, 3, 4}), {.most = 3, .least = 2, .adaptive = false});
  CHECK(speculation.draft(Tokens{1, 2}, 9)->size() == 2);
  CHECK(speculation.draft(Tokens{1, 2, 3}, 9)->empty());
}
