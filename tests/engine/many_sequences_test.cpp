// Many sequences over one engine: each gets the bits that it gets alone, whatever is computed beside it.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <random>

#include "engine/session.h"
#include "model/small_models.h"
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
  const char* arithmetic;
  bool quantise;
  DType cache;
  const Traits* small = nullptr;  // a model that is made up, in place of a file; its path is a name
  int64_t context = 512;

  bool is_there() const { return small || std::filesystem::exists(path); }
  std::string name() const { return std::filesystem::path(path).filename().string() + ", " + arithmetic; }
};
constexpr Tested kModels[] = {
    {kGlm, "q8", true, DType::U8},      {kGlm, "f32", false, DType::F32}, {kLlama, "q8", true, DType::U8},
    {kLlama, "f32", false, DType::F32}, {kGemma, "q8", true, DType::U8},  {kQwenMoe, "q8", true, DType::U8},
    {kGptOss, "q8", true, DType::U8},   {kQwen35, "q8", true, DType::U8}, {kQwen35, "f32", false, DType::F32}};

constexpr Sizes kSmallSizes{.hidden = 64,
                            .heads = 4,
                            .kv_heads = 2,
                            .width = 32,
                            .inner = 64,
                            .vocabulary = 96,
                            .window = 40,
                            .net_width = 32,
                            .type = GgufType::Q8_0};

GgufFile open_file(const Tested& model) {
  if (!model.small) return GgufFile::open(model.path).take();
  static std::vector<std::vector<std::byte>> kept;
  SmallTransformer small(*model.small, kSmallSizes);
  small.writer.u32(model.small->architecture + ".context_length", static_cast<uint32_t>(model.context));
  kept.push_back(small.writer.bytes());
  return GgufFile::open_memory(kept.back()).take();
}

const GgufFile& file_of(const Tested& model) {
  static std::map<std::string, GgufFile> files;
  auto found = files.find(model.path);
  if (found == files.end()) found = files.emplace(model.path, open_file(model)).first;
  return found->second;
}

// So many windows that layers with one keep all rows.
constexpr int64_t kAllWindows = 1000;

EngineOptions options_of(const Tested& model, int64_t sequences, int64_t cache_tokens = 0,
                         std::optional<int64_t> kept_windows = {}) {
  return {.threads = 1,
          .context = model.context,
          .sequences = sequences,
          .cache_tokens = cache_tokens,
          .kept_windows = kept_windows,
          .cache_type = model.cache,
          .quantise_activations = model.quantise,
          .prefill_chunk = 64,
          .use_tuned = false};
}

std::unique_ptr<Engine> open(const Tested& model, int64_t sequences, int64_t cache_tokens = 0,
                             std::optional<int64_t> kept_windows = {}) {
  auto engine = Engine::open(file_of(model), options_of(model, sequences, cache_tokens, kept_windows), {});
  REQUIRE_MESSAGE(engine.ok(), engine.error().message);
  return engine.take();
}

using History = std::vector<CachedToken>;  // all tokens of a sequence

// What sequences get alone: a session that reads the same tokens in the same two ways.
class Solo {
 public:
  explicit Solo(const Tested& model) {
    auto session = Session::open(file_of(model), options_of(model, 1, 0, kAllWindows), {});
    REQUIRE_MESSAGE(session.ok(), session.error().message);
    session_ = session.take();
  }

  // The logits behind every token.
  std::vector<Logits> run(const History& tokens) {
    std::vector<Logits> out;
    const auto keep = [&](int64_t, std::span<const float> row) { out.emplace_back(row.begin(), row.end()); };
    session_->reset();
    for (size_t i = 0; i < tokens.size();) {
      Tokens part;
      const bool is_generated = tokens[i].is_generated;
      while (i < tokens.size() && tokens[i].is_generated == is_generated) part.push_back(tokens[i++].id);
      if (!is_generated) REQUIRE(session_->append_all(part, keep).ok());
      for (size_t g = 0; is_generated && g < part.size(); ++g) {
        const auto logits = session_->extend(part[g]);
        REQUIRE(logits.ok());
        keep(0, *logits);
      }
    }
    return out;
  }

 private:
  std::unique_ptr<Session> session_;
};

// Random sequences that start, share beginnings, fork, go back, are cancelled and stop, over one engine. All logits
// that it hands out are kept under the tokens that they belong to.
class Crowd {
 public:
  struct Limits {
    int64_t sequences;
    int64_t cache_tokens;  // few: some wait for room
    int64_t longest;       // prompt that is made up
    std::optional<int64_t> kept_windows = {};
    size_t most_tokens = 200;  // of a prompt, with what it begins with
  };

  Crowd(const Tested& model, const Limits& limits, unsigned seed)
      : limits_(limits), rng_(seed), engine_(open(model, limits.sequences, limits.cache_tokens, limits.kept_windows)) {}

  void step() {
    const int64_t act = below(12);
    if (act < 2 || wanted_ == 0) wanted_ = 1 + below(limits_.sequences);  // sequences, from now on
    if (live_.empty()) start();
    for (int64_t n = wanted_ - count(); n > 0 && below(4) != 0; --n) start();
    if (count() > wanted_) stop(live_[static_cast<size_t>(below(count()))].id);
    if (act == 3) fork();
    if (act == 4 && live_.size() > 1) stop(live_[static_cast<size_t>(below(count()))].id);
    if (act == 5) rewind();
    run_some();
  }

  void stop_all() {
    while (!live_.empty()) stop(live_.back().id);
    CHECK(engine_->pool().available() == engine_->pool().pages());
    CHECK(engine_->free_sequences() == engine_->most_sequences());
  }

  // Each sequence, and each that it went back from, beside what it gets alone.
  void check(Solo& solo) {
    std::vector<History> whole;  // those that are no beginnings of others
    for (auto seen = seen_.rbegin(); seen != seen_.rend(); ++seen)
      if (whole.empty() || !is_beginning(seen->first, whole.back())) whole.push_back(seen->first);
    for (const History& tokens : whole) {
      const std::vector<Logits> alone = solo.run(tokens);
      for (size_t n = 1; n <= tokens.size(); ++n)
        if (const auto got = seen_.find(History(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n)));
            got != seen_.end()) {
          CAPTURE(n);
          CAPTURE(tokens[n - 1].is_generated);
          CHECK(same_bits(got->second, alone[n - 1]));
          ++checked_;
        }
    }
  }

  int64_t checked() const { return checked_; }
  int64_t waited() const { return waited_; }
  int64_t found() const { return found_; }
  int64_t found_generated() const { return found_generated_; }
  int64_t most() const { return most_; }  // sequences in a step

 private:
  struct Sequence {
    SequenceId id;
    Tokens prompt;  // what is left of it
  };

  struct Less {
    bool operator()(const History& a, const History& b) const {
      return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), [](CachedToken x, CachedToken y) {
        return x.id != y.id ? x.id < y.id : x.is_generated < y.is_generated;
      });
    }
  };

  static bool is_beginning(const History& a, const History& of) {
    return a.size() <= of.size() && std::equal(a.begin(), a.end(), of.begin());
  }

  int64_t below(int64_t n) { return static_cast<int64_t>(rng_() % static_cast<uint64_t>(n)); }
  int64_t count() const { return static_cast<int64_t>(live_.size()); }

  Tokens random_tokens(int64_t n) {
    Tokens out(static_cast<size_t>(n));
    for (int32_t& t : out) t = static_cast<int32_t>(below(engine_->vocabulary_size()));
    return out;
  }

  void start() {
    if (engine_->free_sequences() == 0) return;
    Tokens prompt;
    if (!beginnings_.empty() && below(2)) {
      const Tokens& other = beginnings_[static_cast<size_t>(below(static_cast<int64_t>(beginnings_.size())))];
      const auto size = static_cast<int64_t>(other.size());
      prompt.assign(other.begin(), other.begin() + (below(2) ? size : below(size + 1)));
    }
    const Tokens rest = random_tokens(1 + below(limits_.longest));
    prompt.insert(prompt.end(), rest.begin(), rest.end());
    prompt.resize(std::min(prompt.size(), limits_.most_tokens));
    beginnings_.push_back(prompt);
    const PrefixReuse reuse{.generated = below(4) != 0};
    const auto started = engine_->start(prompt, reuse);
    REQUIRE(started.ok());
    found_ += started->found;
    const auto begin = engine_->tokens(started->id);
    const int64_t generated = std::count_if(begin.begin(), begin.end(), [](CachedToken t) { return t.is_generated; });
    if (!reuse.generated) CHECK(generated == 0);
    found_generated_ += generated;
    live_.push_back({started->id, {prompt.begin() + started->found, prompt.end()}});
  }

  void fork() {
    if (engine_->free_sequences() == 0 || live_.empty()) return;
    const Sequence& from = live_[static_cast<size_t>(below(count()))];
    const auto id = engine_->fork(from.id);
    REQUIRE(id.ok());
    live_.push_back({*id, from.prompt});
  }

  // What it has is a beginning for others, as in a chat.
  void stop(SequenceId id) {
    Tokens& all = beginnings_.emplace_back();
    for (const CachedToken& token : engine_->tokens(id)) all.push_back(token.id);
    engine_->stop(id);
    std::erase_if(live_, [&](const Sequence& s) { return s.id == id; });
  }

  void rewind() {
    if (live_.empty()) return;
    Sequence& s = live_[static_cast<size_t>(below(count()))];
    const int64_t position = engine_->position(s.id);
    engine_->rewind(s.id, position - below(std::min<int64_t>(position, 70) + 1));
    if (s.prompt.empty()) s.prompt = random_tokens(1 + below(9));
  }

  // Some of the sequences read a part of their prompts, the others generate, some several tokens at once.
  void run_some() {
    std::vector<Tokens> tokens;
    std::vector<StepItem> items;
    std::vector<size_t> owners;
    for (size_t i = 0; i < live_.size(); ++i) {
      if (below(4) == 0) continue;
      const Sequence& s = live_[i];
      const bool is_generated = s.prompt.empty();
      const int64_t most = std::min(engine_->context() - engine_->position(s.id),
                                    is_generated ? 1 + below(3) / 2 : static_cast<int64_t>(s.prompt.size()));
      if (most == 0) continue;
      tokens.push_back(is_generated ? random_tokens(most)
                                    : Tokens(s.prompt.begin(), s.prompt.begin() + 1 + below(most)));
      items.push_back({.sequence = s.id,
                       .is_generated = is_generated,
                       .logits = below(3) == 0 ? WantedLogits::All : WantedLogits::Last,
                       .cancel = below(12) == 0 ? &cancelled_ : nullptr});
      owners.push_back(i);
    }
    std::vector<History> before;
    for (size_t i = 0; i < items.size(); ++i) {
      items[i].tokens = tokens[i];
      const auto known = engine_->tokens(items[i].sequence);
      before.emplace_back(known.begin(), known.end());
    }
    most_ = std::max(most_, static_cast<int64_t>(items.size()));
    const auto outcomes = engine_->step(items, [&](size_t item, int64_t index, std::span<const float> row) {
      History history = before[item];
      for (int64_t t = 0; t <= index; ++t)
        history.push_back({tokens[item][static_cast<size_t>(t)], items[item].is_generated});
      keep(std::move(history), row);
    });
    REQUIRE_MESSAGE(outcomes.ok(), outcomes.error().message);
    std::vector<SequenceId> ended;
    for (size_t i = 0; i < items.size(); ++i) {
      Sequence& s = live_[owners[i]];
      const auto taken = engine_->position(s.id) - static_cast<int64_t>(before[i].size());
      CHECK(taken == ((*outcomes)[i] == StepOutcome::Done ? static_cast<int64_t>(tokens[i].size()) : 0));
      CHECK(((*outcomes)[i] == StepOutcome::Cancelled) == (items[i].cancel && (*outcomes)[i] != StepOutcome::NoRoom));
      waited_ += (*outcomes)[i] == StepOutcome::NoRoom;
      if (!items[i].is_generated) s.prompt.erase(s.prompt.begin(), s.prompt.begin() + taken);
      // Somebody has to give way.
      if ((*outcomes)[i] == StepOutcome::Cancelled || ((*outcomes)[i] == StepOutcome::NoRoom && below(2)))
        ended.push_back(s.id);
    }
    for (SequenceId id : ended) stop(id);
  }

  // The same tokens may come again: they have the same bits then.
  void keep(History history, std::span<const float> row) {
    const auto [known, is_new] = seen_.try_emplace(std::move(history), row.begin(), row.end());
    if (!is_new) CHECK(same_bits(known->second, row));
  }

  const Limits limits_;
  std::mt19937 rng_;
  std::unique_ptr<Engine> engine_;
  const std::atomic<bool> cancelled_ = true;
  std::vector<Sequence> live_;
  std::vector<Tokens> beginnings_;
  std::map<History, Logits, Less> seen_;
  int64_t wanted_ = 0, most_ = 0, checked_ = 0, waited_ = 0, found_ = 0, found_generated_ = 0;
};

void check_crowds(const Crowd::Limits& limits, int crowds, int steps, std::span<const Tested> models = kModels) {
  for (const Tested& model : models) {
    if (test::kSanitized && &model != models.data()) break;  // they differ in generated code
    if (!model.is_there()) {
      MESSAGE(model.name() << " is not there");
      continue;
    }
    CAPTURE(model.name());
    Solo solo(model);
    int64_t checked = 0, waited = 0, found = 0, found_generated = 0, most = 0;
    for (int seed = 0; seed < crowds; ++seed) {
      CAPTURE(seed);
      Crowd crowd(model, limits, static_cast<unsigned>(seed));
      for (int step = 0; step < steps; ++step) crowd.step();
      crowd.stop_all();
      crowd.check(solo);
      checked += crowd.checked(), waited += crowd.waited(), found += crowd.found();
      found_generated += crowd.found_generated();
      most = std::max(most, crowd.most());
    }
    CHECK(checked > crowds * steps / 2);
    MESSAGE(model.name() << ": " << checked << " logits compared, of up to " << most << " sequences in a step; "
                         << found << " tokens found, " << found_generated << " of them generated; " << waited
                         << " waited");
    CHECK(most > limits.sequences / 2);
    CHECK(found > 0);
    CHECK((limits.cache_tokens ? waited : found_generated) > 0);
  }
}

}  // namespace

TEST_CASE("random sequences beside each other get the bits that they get alone") {
  check_crowds({.sequences = 4, .cache_tokens = 0, .longest = 90}, 2, 30);
}

// A crowd of each, in the arithmetics by turns.
TEST_CASE("random sequences of every architecture get the bits that they get alone") {
  std::vector<Traits> all = small_models();
  for (Traits& traits : all) traits.rotated = traits.rotated * kSmallSizes.width / kWidth;
  std::vector<std::string> names;  // a name for each, since several have one architecture
  for (const Traits& traits : all) names.push_back("small " + traits.architecture + " " + std::to_string(names.size()));
  std::vector<Tested> models;
  for (size_t i = 0; i < all.size(); ++i)
    models.push_back({names[i].c_str(), i % 2 ? "f32" : "q8", i % 2 == 0, i % 2 ? DType::F32 : DType::U8, &all[i]});
  check_crowds({.sequences = 4, .cache_tokens = 0, .longest = 90}, 2, 30, models);
}

TEST_CASE("sequences that wait for room in a full cache get the same bits") {
  check_crowds({.sequences = 4, .cache_tokens = 512, .longest = 200}, 1, 60);
}

const Traits kSmallGemma = {.architecture = "gemma3", .has_norms = true}, kSmallPhi = {.architecture = "phi3"};
const Tested kWithWindows[] = {{"small gpt-oss", "q8", true, DType::U8, &kSmallGptOss},
                               {"small gemma3", "f16", false, DType::F16, &kSmallGemma},
                               {"small phi3", "f32", false, DType::F32, &kSmallPhi},  // all layers have one
                               {kGemma, "q8", true, DType::U8},
                               {kGptOss, "q8", true, DType::U8}};

TEST_CASE("sequences whose windows keep only their pages get the bits of whole caches") {
  check_crowds({.sequences = 4, .cache_tokens = 0, .longest = 90, .kept_windows = 0}, 1, 40, kWithWindows);
  check_crowds({.sequences = 2, .cache_tokens = 704, .longest = 450, .kept_windows = 0, .most_tokens = 470}, 2, 50,
               kWithWindows);
}

const Tested kWithWindowsBehind[] = {{"gpt-oss, long", "q8", true, DType::U8, &kSmallGptOss, 1536},
                                     {"gemma3, long", "f16", false, DType::F16, &kSmallGemma, 1536},
                                     {"phi3, long", "f32", false, DType::F32, &kSmallPhi, 1536}};

TEST_CASE("windows that begin behind the first chunks get the bits that they get alone") {
  check_crowds({.sequences = 3, .cache_tokens = 1536, .longest = 1400, .kept_windows = 0, .most_tokens = 1450}, 1, 40,
               kWithWindowsBehind);
}

TEST_CASE("a prompt whose window has made room for others begins where one was kept, with the same bits") {
  const Tested& model = kWithWindows[0];
  Solo solo(model);
  const auto engine = open(model, 1, 2048, 1);
  CHECK(engine->pool().local_pages() < engine->pool().pages());
  const auto run = [&](const Tokens& prompt, int64_t expected) {
    const auto started = engine->start(prompt);
    CHECK(started->found == expected);
    const StepItem item{.sequence = started->id, .tokens = std::span(prompt).subspan(started->found)};
    Logits logits;
    const auto outcome =
        engine->step({&item, 1}, [&](size_t, int64_t, auto row) { logits.assign(row.begin(), row.end()); });
    REQUIRE(outcome.ok());
    History history;
    for (int32_t id : prompt) history.push_back({id, false});
    CHECK(same_bits(logits, solo.run(history).back()));
    engine->stop(started->id);
  };
  const auto prompt_of = [](int32_t first, size_t begin, size_t end) {
    Tokens prompt;
    for (size_t i = 0; i < end; ++i)
      prompt.push_back(((i < begin ? 3 : first) + static_cast<int32_t>(i * i % 97)) % 96);
    return prompt;
  };
  run(prompt_of(3, 0, 330), 0);
  run(prompt_of(40, 320, 400), 320);
  run(prompt_of(90, 0, 330), 0);
  run(prompt_of(70, 40, 60), 0);  // page 0 has made room
  run(prompt_of(3, 0, 400), 330);
  run(prompt_of(90, 0, 330), 329);
}

TEST_CASE("up to 32 random sequences get the bits that they get alone" * doctest::test_suite("long")) {
  check_crowds({.sequences = 32, .cache_tokens = 0, .longest = 90}, 4, 150);
  check_crowds({.sequences = 32, .cache_tokens = 2048, .longest = 200}, 2, 150);
}

TEST_CASE("a step refuses what it cannot do with a sentence, before anything is done") {
  const auto engine = open(kModels[0], 2);
  const SequenceId a = engine->start()->id;
  const Tokens one = {1}, wrong = {-1}, long_prompt(600, 1);
  const auto message = [&](std::vector<StepItem> items) {
    const auto outcome = engine->step(items, [](size_t, int64_t, std::span<const float>) {});
    REQUIRE(!outcome.ok());
    CHECK(engine->position(a) == 0);
    return outcome.error().message;
  };
  CHECK(message({{.sequence = 1, .tokens = one}}) == "[engine] sequence 1 was not started");
  CHECK(message({{.sequence = a, .tokens = one}, {.sequence = a, .tokens = one}}) ==
        "[engine] sequence 0 is twice in one step");
  CHECK(message({{.sequence = a}}) == "[engine] sequence 0 has no tokens in this step");
  CHECK(message({{.sequence = a, .tokens = wrong}}).starts_with("[tokens] id -1 is not in the vocabulary of "));
  CHECK(message({{.sequence = a, .tokens = long_prompt}}) ==
        "[context] 600 tokens do not fit: 0 of 512 are taken; use a larger context (-c)");
  REQUIRE(engine->start().ok());
  const auto third = engine->start();
  REQUIRE(!third.ok());
  CHECK(third.error().message == "[engine] all 2 sequences are taken; stop one first");
}

// Steps of several sequences, each with drafts of which some are wrong, beside a prompt: all logits that count, and
// what a sequence begins with later, have the bits of single steps.
TEST_CASE("drafts of several recurrent sequences in one step are taken back, with the bits of single steps") {
  const Tested model{kQwen35, "q8", true, DType::U8};
  if (!model.is_there()) {
    MESSAGE(model.name() << " is not there");
    return;
  }
  constexpr size_t kSequences = 4, kDrafts = 7, kDrafting = 2;  // these fill a batch
  EngineOptions options = options_of(model, kSequences);
  options.drafts = kDrafts;
  auto opened = Engine::open(file_of(model), options, {});
  REQUIRE_MESSAGE(opened.ok(), opened.error().message);
  const std::unique_ptr<Engine> engine = opened.take();
  REQUIRE(engine->loaded().layout().batch == 8);
  Solo solo(model);
  std::mt19937 rng(5);
  const auto random_token = [&] {
    return static_cast<int32_t>(rng() % static_cast<uint64_t>(engine->vocabulary_size()));
  };
  int64_t compared = 0, found = 0;

  std::vector<History> ended;
  for (int turn = 0; turn < 3; ++turn) {
    std::vector<SequenceId> ids;
    std::vector<Tokens> prompts;
    std::vector<std::map<size_t, Logits>> got(kSequences);  // behind so many tokens
    for (size_t s = 0; s < kSequences; ++s) {
      Tokens prompt;
      if (turn > 0)
        for (const CachedToken& token : ended[(s + 1) % kSequences]) prompt.push_back(token.id);
      for (int i = 0; i < 60; ++i) prompt.push_back(random_token());
      const auto started = engine->start(prompt);
      REQUIRE(started.ok());
      found += started->found;
      if (turn > 0) CHECK(started->found >= std::ssize(ended[(s + 1) % kSequences]));
      ids.push_back(started->id);
      prompts.push_back({prompt.begin() + started->found, prompt.end()});
    }
    for (int step = 0; step < 12; ++step) {
      std::vector<StepItem> items;
      std::vector<Tokens> tokens;
      std::vector<size_t> owners, right;
      size_t drafted = 0, reading = 0;  // one prompt beside those that draft
      tokens.reserve(kSequences);
      for (size_t k = 0; k < kSequences; ++k) {
        const size_t s = (k + static_cast<size_t>(step)) % kSequences, drafting = step % 3 ? kDrafting : 1;
        const bool is_read = prompts[s].empty();
        if (is_read ? drafted++ >= drafting : reading++ > 0) continue;
        if (is_read) {
          Tokens& t = tokens.emplace_back();
          for (size_t count = 1 + rng() % ((1 + kDrafts) / drafting); count > 0; --count) t.push_back(random_token());
          right.push_back(rng() % t.size());
        } else {
          tokens.push_back(std::exchange(prompts[s], {}));
          right.push_back(tokens.back().size() - 1);
        }
        owners.push_back(s);
        items.push_back({.sequence = ids[s],
                         .tokens = tokens.back(),
                         .is_generated = is_read,
                         .logits = is_read ? WantedLogits::All : WantedLogits::Last});
      }
      std::vector<size_t> begins;
      for (size_t s : owners) begins.push_back(static_cast<size_t>(engine->position(ids[s])));
      const auto outcomes = engine->step(items, [&](size_t item, int64_t index, std::span<const float> row) {
        if (static_cast<size_t>(index) <= right[item])
          got[owners[item]][begins[item] + static_cast<size_t>(index) + 1].assign(row.begin(), row.end());
      });
      REQUIRE(outcomes.ok());
      for (size_t i = 0; i < items.size(); ++i) {
        CHECK((*outcomes)[i] == StepOutcome::Done);
        const auto kept = static_cast<int64_t>(begins[i] + right[i] + 1);
        engine->rewind(items[i].sequence, kept);
        REQUIRE(engine->position(items[i].sequence) == kept);
      }
    }
    ended.clear();
    for (size_t s = 0; s < kSequences; ++s) {
      ended.emplace_back(engine->tokens(ids[s]).begin(), engine->tokens(ids[s]).end());
      const std::vector<Logits> alone = solo.run(ended.back());
      for (const auto& [size, row] : got[s]) {
        CAPTURE(turn);
        CAPTURE(s);
        CAPTURE(size);
        CHECK(same_bits(row, alone[size - 1]));
        ++compared;
      }
      engine->stop(ids[s]);
    }
  }
  CHECK(compared > 100);
  CHECK(found > 0);
}

TEST_CASE("rows that fill a batch up read no experts of their own: they are its last row once more") {
  for (const Tested& model : kModels) {
    if (!model.is_there()) continue;
    CAPTURE(model.name());
    const auto engine = open(model, 8);
    std::vector<StepItem> items;
    const std::vector<int32_t> tokens = {5, 17, 33, 49, 65};
    for (const int32_t& token : tokens)
      items.push_back({.sequence = engine->start().take().id,
                       .tokens = {&token, 1},
                       .is_generated = true,
                       .logits = WantedLogits::None});
    REQUIRE(engine->step(items, {}).ok());
    EngineMemory& memory = engine->loaded().memory();
    REQUIRE(engine->loaded().batch_for(5) == 8);
    for (int row = 5; row < 8; ++row) {
      CHECK(memory.tokens()[row] == tokens.back());
      CHECK(memory.positions()[row] == memory.positions()[4]);
      CHECK(memory.tables()[row] == memory.tables()[4]);
    }
  }
}

TEST_CASE("prompts of several sequences are computed in one run, with the bits that each gets alone") {
  const Tested& model = kModels[0];
  Solo solo(model);
  const auto engine = open(model, 4);
  std::vector<Tokens> prompts;  // 17 tokens: two of the sequences have a part of a group
  for (int32_t length : {3, 8, 1, 5}) {
    Tokens& prompt = prompts.emplace_back();
    for (int32_t i = 0; i < length; ++i) prompt.push_back(7 * length + i);
  }
  std::vector<StepItem> items;
  for (const Tokens& prompt : prompts)
    items.push_back({.sequence = engine->start()->id, .tokens = prompt, .logits = WantedLogits::All});
  std::map<PlanKind, int> runs;
  engine->loaded().observe([&](const RunTimes& run) { ++runs[run.plan]; });
  std::vector<std::vector<Logits>> got(prompts.size());
  const auto outcomes = engine->step(items, [&](size_t item, int64_t index, std::span<const float> row) {
    CHECK(index == static_cast<int64_t>(got[item].size()));
    got[item].emplace_back(row.begin(), row.end());
  });
  REQUIRE(outcomes.ok());
  CHECK(runs[PlanKind::Prefill] == 1);
  CHECK(runs[PlanKind::Head] == 3);  // 17 rows, 8 at a time
  for (size_t i = 0; i < prompts.size(); ++i) {
    CAPTURE(i);
    History history;
    for (int32_t id : prompts[i]) history.push_back({id, false});
    const std::vector<Logits> alone = solo.run(history);
    REQUIRE(got[i].size() == alone.size());
    for (size_t t = 0; t < alone.size(); ++t) CHECK(same_bits(got[i][t], alone[t]));
  }
}

TEST_CASE("the next turn of a chat finds its answer, and with rows of prompts alone gets the bits of an empty cache") {
  const Tested& model = kModels[0];
  const auto engine = open(model, 2);
  Tokens turn(70, 5), answer = {9, 8, 7, 6};
  const auto last_logits = [&](Engine& of, SequenceId id, std::span<const int32_t> tokens, bool is_generated) {
    const StepItem item{.sequence = id, .tokens = tokens, .is_generated = is_generated};
    Logits out;
    const auto outcome =
        of.step({&item, 1}, [&](size_t, int64_t, std::span<const float> row) { out.assign(row.begin(), row.end()); });
    REQUIRE(outcome.ok());
    return out;
  };
  const auto first = engine->start(turn);
  last_logits(*engine, first->id, turn, false);
  last_logits(*engine, first->id, answer, true);
  engine->stop(first->id);

  Tokens next = turn;
  next.insert(next.end(), answer.begin(), answer.end());
  next.insert(next.end(), {1, 2, 3});
  const auto warm = engine->start(next);
  CHECK(warm->found == 74);
  last_logits(*engine, warm->id, std::span(next).subspan(74), false);
  engine->stop(warm->id);
  CHECK(engine->start(next, {.owner = 1})->found == 0);

  const auto cold = engine->start(next, {.generated = false});
  CHECK(cold->found == 70);
  const auto fresh = open(model, 1);
  const Logits expected = last_logits(*fresh, fresh->start()->id, next, false);
  CHECK(same_bits(last_logits(*engine, cold->id, std::span(next).subspan(70), false), expected));
}

TEST_CASE("a full cache is an answer, and who is cancelled leaves its pages within the step") {
  const auto engine = open(kModels[0], 3, 512);
  const SequenceId a = engine->start()->id, b = engine->start()->id;
  const Tokens long_prompt(400, 1), short_prompt(100, 2), one = {3};
  const auto step = [&](std::vector<StepItem> items) {
    const auto outcomes = engine->step(items, [](size_t, int64_t, std::span<const float>) {});
    REQUIRE(outcomes.ok());
    return *outcomes;
  };
  const std::atomic<bool> cancelled = true;
  const int64_t pages = engine->pool().available();
  CHECK(step({{.sequence = a, .tokens = long_prompt, .cancel = &cancelled}})[0] == StepOutcome::Cancelled);
  CHECK(engine->pool().available() == pages);
  CHECK(engine->position(a) == 0);

  CHECK(step({{.sequence = a, .tokens = long_prompt}})[0] == StepOutcome::Done);
  const auto outcomes =
      step({{.sequence = b, .tokens = short_prompt}, {.sequence = a, .tokens = one, .is_generated = true}});
  CHECK(outcomes[0] == StepOutcome::NoRoom);
  CHECK(outcomes[1] == StepOutcome::Done);
  CHECK(engine->position(b) == 0);
  CHECK(engine->position(a) == 401);
  engine->stop(a);
  CHECK(step({{.sequence = b, .tokens = short_prompt}})[0] == StepOutcome::Done);
}
