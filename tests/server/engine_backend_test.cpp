// The backend over one engine, with the small model: many requests at once get the texts that they get alone, whatever
// runs beside them, is cancelled, or gives way.
#include "server/engine_backend.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <future>
#include <mutex>
#include <random>
#include <thread>

#include "engine/lookup_drafter.h"
#include "engine/model_drafter.h"
#include "engine/mtp_drafter.h"
#include "engine/session.h"
#include "grammar/gbnf.h"
#include "server/tiny_model.h"
#include "support/bad_tokens.h"
#include "support/effort.h"

using namespace smelt;
using smelt::test::tiny_file;
using smelt::test::tiny_tokenizer;

namespace {

using Tokens = std::vector<int32_t>;

struct Ended {
  Tokens tokens;
  GenerationEnd end;
  std::string text() const { return tiny_tokenizer().decode(tokens); }
};

class Client {
 public:
  // `on_token`: called on the thread of the backend with the number of tokens so far.
  std::future<Ended> ask(Backend& backend, GenerationRequest request, std::function<void(int64_t)> on_token = {}) {
    auto promise = std::make_shared<std::promise<Ended>>();
    auto so_far = std::make_shared<Tokens>();
    const auto id = backend.submit(std::move(request), [=](GenerationEvent event) {
      so_far->insert(so_far->end(), event.tokens.begin(), event.tokens.end());
      if (on_token && !event.tokens.empty()) on_token(static_cast<int64_t>(so_far->size()));
      if (event.end) promise->set_value({*so_far, *event.end});
    });
    REQUIRE_MESSAGE(id.ok(), id.error().message);
    last_id = *id;
    return promise->get_future();
  }
  Backend::Id last_id = 0;
};

EngineOptions options_of(int64_t sequences, int64_t cache_tokens = 0, int64_t context = 256) {
  return {.threads = 1,
          .context = context,
          .sequences = sequences,
          .cache_tokens = cache_tokens,
          .prefill_chunk = 64,
          .use_tuned = false};
}

std::unique_ptr<Engine> open(const EngineOptions& options) {
  auto engine = Engine::open(tiny_file(), options, {});
  REQUIRE_MESSAGE(engine.ok(), engine.error().message);
  return engine.take();
}

GenerationRequest greedy(Tokens prompt, int64_t tokens) {
  GenerationRequest request{.prompt = std::move(prompt), .max_tokens = tokens};
  request.sampler.temperature = 0;
  return request;
}

GenerationRequest greedy(const std::string& prompt, int64_t tokens) {
  return greedy(tiny_tokenizer().encode(prompt), tokens);
}

// What a request gets from an engine that has just been opened.
Ended alone(const GenerationRequest& request) {
  static const auto engine = open(options_of(1));
  EngineBackend backend(*engine, tiny_tokenizer(), {.cold_prefix = true});
  return Client().ask(backend, request).get();
}

void wait_until_idle(const Backend& backend) {
  while (backend.load().running + backend.load().waiting > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Prompts that have beginnings in common, of all lengths, with every way of sampling.
class RandomRequests {
 public:
  explicit RandomRequests(unsigned seed) : rng_(seed) {
    masks_ =
        TokenMasks::make(read_gbnf("root ::= (\"ab\" | \"c\")+ \".\"").take(), TokenTable::of(tiny_tokenizer())).take();
  }

  int64_t below(int64_t n) { return static_cast<int64_t>(rng_() % static_cast<uint64_t>(n)); }

  GenerationRequest next() {
    Tokens prompt;
    if (!prompts_.empty() && below(2)) {
      const Tokens& other = prompts_[static_cast<size_t>(below(static_cast<int64_t>(prompts_.size())))];
      prompt.assign(other.begin(), other.begin() + below(static_cast<int64_t>(other.size())));
    }
    for (int64_t n = 1 + below(90); n > 0 && prompt.size() < 150; --n)
      prompt.push_back(static_cast<int32_t>(below(tiny_tokenizer().size())));
    prompts_.push_back(prompt);
    GenerationRequest request = greedy(prompt, below(10) == 0 ? -1 : 1 + below(60));
    if (below(2)) request.sampler = {.seed = static_cast<uint64_t>(below(1000))};
    if (below(4) == 0) request.sampler.repeat_penalty = 1.1f;
    if (below(4) == 0) request.grammar = masks_;
    request.cache_owner = static_cast<uint64_t>(below(2));
    return request;
  }

 private:
  std::mt19937 rng_;
  std::vector<Tokens> prompts_;
  std::shared_ptr<const TokenMasks> masks_;
};

// Guesses from what the requests get alone, right with some probability, else a random token: every length of what is
// accepted occurs.
class Forecast : public Drafter {
 public:
  Forecast(std::shared_ptr<const std::vector<Tokens>> texts, unsigned seed) : texts_(std::move(texts)), rng_(seed) {}
  Result<std::vector<DraftToken>> draft(std::span<const int32_t> text, int64_t most) override {
    std::vector<DraftToken> out;
    const auto begins_so = [&](const Tokens& whole) {
      return whole.size() > text.size() && std::equal(text.begin(), text.end(), whole.begin());
    };
    const auto at = std::find_if(texts_->begin(), texts_->end(), begins_so);
    for (size_t i = text.size(); at != texts_->end() && i < at->size() && std::ssize(out) < most; ++i)
      out.push_back({rng_() % 4 ? (*at)[i] : static_cast<int32_t>(rng_() % 4096)});
    return out;
  }

 private:
  std::shared_ptr<const std::vector<Tokens>> texts_;
  std::mt19937 rng_;
};

std::unique_ptr<BatchSpeculation> speculation(const Engine& engine, const DraftOptions& options,
                                              const std::function<std::unique_ptr<Drafter>(SequenceId)>& make) {
  std::vector<std::unique_ptr<Drafter>> drafters;
  for (SequenceId id = 0; id < engine.most_sequences(); ++id) drafters.push_back(make(id));
  return std::make_unique<BatchSpeculation>(std::move(drafters), options, engine.loaded().layout().batch);
}

Tokens joined(Tokens text, const Tokens& more) {
  text.insert(text.end(), more.begin(), more.end());
  return text;
}

// Lets a request go on token by token: who holds back a token holds back the thread that steps.
class Pace {
 public:
  void take(int64_t tokens) {
    std::unique_lock lock(mutex_);
    taken_ = tokens;
    changed_.notify_all();
    changed_.wait(lock, [&] { return allowed_ >= tokens; });
  }
  void wait_for_first() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return taken_ == 1; });
  }
  // The rest of the step under way, and the next one up to its token.
  void step() {
    std::unique_lock lock(mutex_);
    const int64_t next = ++allowed_ + 1;
    changed_.notify_all();
    changed_.wait(lock, [&] { return taken_ == next; });
  }

  class Release {
   public:
    explicit Release(std::shared_ptr<Pace> pace) : pace_(std::move(pace)) {}
    ~Release() {
      std::lock_guard lock(pace_->mutex_);
      pace_->allowed_ = INT64_MAX;
      pace_->changed_.notify_all();
    }

   private:
    std::shared_ptr<Pace> pace_;
  };

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t taken_ = 0, allowed_ = 0;
};

struct Asked {
  GenerationRequest request;
  std::future<Ended> answer;
};

// Some requests at a time, some of which are cancelled at any moment.
std::vector<Asked> ask_in_bursts(EngineBackend& backend, RandomRequests& random, int bursts) {
  std::vector<Asked> all;
  for (int burst = 0; burst < bursts; ++burst) {
    std::vector<Backend::Id> ids;
    Client client;
    for (int64_t n = 1 + random.below(7); n > 0; --n) {
      GenerationRequest request = random.next();
      auto answer = client.ask(backend, request);
      all.push_back({std::move(request), std::move(answer)});
      ids.push_back(client.last_id);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(random.below(20)));
    if (random.below(2)) backend.cancel(ids[static_cast<size_t>(random.below(static_cast<int64_t>(ids.size())))]);
  }
  return all;
}

}  // namespace

TEST_CASE("every answer is the one that its request gets alone, whatever runs beside it") {
  // Room for all, and for so few that some give way; tokens chosen by the host, and by the device.
  for (const auto& [cache_tokens, chooses_tokens] : {std::pair(0, false), {512, false}, {0, true}, {512, true}}) {
    CAPTURE(cache_tokens);
    CAPTURE(chooses_tokens);
    EngineOptions options = options_of(4, cache_tokens);
    options.chooses_tokens = chooses_tokens;
    const auto engine = open(options);
    int64_t whole = 0;
    for (int seed = 0; seed < test::repetitions(5); ++seed) {
      CAPTURE(seed);
      RandomRequests random(static_cast<unsigned>(seed));
      EngineBackend backend(*engine, tiny_tokenizer(),
                            {.prompts_alone = {.seconds = 1, .usual = 48},
                             .prompts_beside = {.seconds = 1, .usual = 16},
                             .cold_prefix = true});
      for (Asked& asked : ask_in_bursts(backend, random, 8)) {
        Ended got = asked.answer.get();
        const Ended right = alone(asked.request);
        if (got.end.reason == Finish::Cancelled) {
          REQUIRE(got.tokens.size() <= right.tokens.size());
          CHECK(std::equal(got.tokens.begin(), got.tokens.end(), right.tokens.begin()));
          continue;
        }
        CHECK(got.tokens == right.tokens);
        CHECK(got.end.reason == right.end.reason);
        CHECK(got.end.tokens == right.end.tokens);
        ++whole;
      }
      wait_until_idle(backend);
      CHECK(backend.load().cache_use == 0);
    }
    CHECK(whole > 0);
    CHECK(engine->free_sequences() == engine->most_sequences());
    CHECK(engine->pool().available() == engine->pool().pages());
  }
}

TEST_CASE("drafts change no answer, whatever runs beside them, is cancelled or gives way") {
  for (int64_t cache_tokens : {0, 512}) {
    CAPTURE(cache_tokens);
    EngineOptions options = options_of(4, cache_tokens);
    options.drafts = 15;  // three for each of four
    const auto engine = open(options);
    for (int seed = 0; seed < test::repetitions(5); ++seed) {
      CAPTURE(seed);
      RandomRequests random(static_cast<unsigned>(seed));
      std::vector<GenerationRequest> requests;
      std::vector<Ended> right;
      const auto texts = std::make_shared<std::vector<Tokens>>();
      for (int i = 0; i < 24; ++i) {
        requests.push_back(random.next());
        right.push_back(alone(requests.back()));
        texts->push_back(joined(requests.back().prompt, right.back().tokens));
      }
      EngineBackend backend(*engine, tiny_tokenizer(),
                            {.prompts_alone = {.seconds = 1, .usual = 48},
                             .prompts_beside = {.seconds = 1, .usual = 16},
                             .cold_prefix = true},
                            speculation(*engine, {.most = 5, .adaptive = seed % 2 == 1}, [&](SequenceId id) {
                              return std::make_unique<Forecast>(texts, static_cast<unsigned>(id));
                            }));
      std::vector<std::future<Ended>> answers;
      std::vector<Backend::Id> ids;
      for (const GenerationRequest& request : requests) {
        Client client;
        answers.push_back(client.ask(backend, request));
        ids.push_back(client.last_id);
        if (random.below(4) == 0) backend.cancel(ids[static_cast<size_t>(random.below(std::ssize(ids)))]);
      }
      for (size_t i = 0; i < requests.size(); ++i) {
        const Ended got = answers[i].get();
        REQUIRE(got.tokens.size() <= right[i].tokens.size());
        CHECK(std::equal(got.tokens.begin(), got.tokens.end(), right[i].tokens.begin()));
        if (got.end.reason == Finish::Cancelled) continue;
        CHECK(got.tokens.size() == right[i].tokens.size());
        CHECK(got.end.reason == right[i].end.reason);
        CHECK(got.end.accepted <= got.end.drafted);
      }
      wait_until_idle(backend);
      CHECK(backend.counts().accepted > 0);
      CHECK(backend.counts().accepted < backend.counts().drafted);
      CHECK(backend.load().cache_use == 0);
    }
    CHECK(engine->pool().available() == engine->pool().pages());
  }
}

TEST_CASE("what drafts leave in the cache is what steps without them leave") {
  EngineOptions options = options_of(2);
  options.drafts = 3;
  const auto engine = open(options);
  const GenerationRequest request = greedy("Once upon a time there was a fox", 90);
  const Ended right = alone(request);
  const auto texts = std::make_shared<std::vector<Tokens>>();
  texts->push_back(joined(request.prompt, right.tokens));
  const auto forecast = [&](SequenceId id) { return std::make_unique<Forecast>(texts, static_cast<unsigned>(id)); };
  EngineBackend backend(*engine, tiny_tokenizer(), {}, speculation(*engine, {.most = 3, .adaptive = false}, forecast));
  const Ended first = Client().ask(backend, request).get();
  CHECK(first.tokens == right.tokens);
  CHECK(first.end.accepted > 20);
  wait_until_idle(backend);
  const Tokens next = joined(joined(request.prompt, first.tokens), tiny_tokenizer().encode(" What happened then?"));
  const Ended second = Client().ask(backend, greedy(next, 30)).get();
  CHECK(second.end.cached_tokens == std::ssize(request.prompt) + 89);  // the last token was given out and not read

  const auto plain_engine = open(options_of(2));
  EngineBackend plain(*plain_engine, tiny_tokenizer());
  Client().ask(plain, request).get();
  wait_until_idle(plain);
  const Ended again = Client().ask(plain, greedy(next, 30)).get();
  CHECK(second.end.cached_tokens == again.end.cached_tokens);
  CHECK(second.tokens == again.tokens);
}

TEST_CASE("who drafts for `smelt run` drafts for many requests") {
  std::vector<GenerationRequest> requests;
  for (const char* text : {"Once upon a time", "The little dragon", "A cat and a dog. A cat and a", "One day"})
    requests.push_back(greedy(text, 60));
  requests[1].sampler = {.seed = 7};
  EngineOptions options = options_of(4);
  options.drafts = 7;
  const auto engine = open(options);
  const auto check = [&](const std::function<std::unique_ptr<Drafter>(SequenceId)>& make) {
    EngineBackend backend(*engine, tiny_tokenizer(), {}, speculation(*engine, {.most = 7, .adaptive = false}, make));
    std::vector<std::future<Ended>> answers;
    for (const GenerationRequest& request : requests) answers.push_back(Client().ask(backend, request));
    for (size_t i = 0; i < requests.size(); ++i) CHECK(answers[i].get().tokens == alone(requests[i]).tokens);
    CHECK(backend.counts().drafts > 0);
    return backend.counts();
  };
  check([](SequenceId) { return std::make_unique<LookupDrafter>(); });

  const auto session = Session::open(tiny_file(), options_of(5), {});  // it keeps one itself
  REQUIRE_MESSAGE(session.ok(), session.error().message);
  const auto model = std::make_shared<GgufFile>(GgufFile::open(SMELT_SOURCE_DIR "/models/tiny-glm-Q4_K_M.gguf").take());
  const auto counts = check([&](SequenceId) {
    auto one = (*session)->another();
    REQUIRE_MESSAGE(one.ok(), one.error().message);
    return std::make_unique<ModelDrafter>(model, one.take(), DraftChoice(0, false));
  });
  CHECK(counts.accepted * 2 > counts.drafted);  // it is the same model
}

TEST_CASE("where the cache is full, the last one to come waits and goes on with the same text") {
  const auto engine = open(options_of(3, 256));
  EngineBackend backend(*engine, tiny_tokenizer());
  std::vector<GenerationRequest> requests = {greedy("Once upon a time", 200), greedy("The little dragon", 150),
                                             greedy("A cat", 150)};
  requests[1].sampler = {.seed = 7};
  std::vector<std::future<Ended>> answers;
  for (const GenerationRequest& request : requests) answers.push_back(Client().ask(backend, request));
  for (size_t i = 0; i < requests.size(); ++i) {
    const Ended got = answers[i].get(), right = alone(requests[i]);
    CHECK(got.tokens == right.tokens);
    CHECK(got.end.reason == Finish::Length);
  }
  CHECK(backend.counts().preemptions > 0);
}

TEST_CASE("who finds no room while another one ends goes on in the room of that one") {
  const auto engine = open(options_of(2, 256));  // four pages of the cache, two for each
  EngineBackend backend(*engine, tiny_tokenizer());
  const GenerationRequest longer = greedy(Tokens(120, 300), 30);  // it wants its third page after 8 tokens
  const Ended right = alone(longer);
  for (int64_t tokens = 1; tokens <= 24; ++tokens) {  // one of these ends in the step that finds no room
    CAPTURE(tokens);
    GenerationRequest shorter = greedy(Tokens(70, 400), tokens);
    auto first = Client().ask(backend, shorter), second = Client().ask(backend, longer);
    CHECK(first.get().end.reason == Finish::Length);
    const Ended got = second.get();
    CHECK(got.end.error == "");
    CHECK(got.tokens == right.tokens);
  }
}

TEST_CASE("the next turn computes only what is new, and is what a session makes of the same tokens") {
  const auto engine = open(options_of(2));
  EngineBackend backend(*engine, tiny_tokenizer());
  const Tokens prompt = tiny_tokenizer().encode("Once upon a time there was a fox");
  const Ended first = Client().ask(backend, greedy(prompt, 90)).get();
  Tokens next = prompt;
  next.insert(next.end(), first.tokens.begin(), first.tokens.end());
  const Tokens question = tiny_tokenizer().encode(" What happened then?");
  next.insert(next.end(), question.begin(), question.end());
  wait_until_idle(backend);
  const Ended second = Client().ask(backend, greedy(next, 30)).get();
  const auto computed = static_cast<int64_t>(prompt.size()) + 89;  // the last token was given out and not read
  CHECK(second.end.cached_tokens == computed);
  CHECK(backend.counts().cached_tokens == static_cast<uint64_t>(computed));

  const auto session = Session::open(tiny_file(), options_of(1), {}).take();
  REQUIRE(session->append(prompt).ok());
  for (size_t i = 0; i + 1 < first.tokens.size(); ++i) REQUIRE(session->extend(first.tokens[i]).ok());
  auto logits = session->append(std::span(next).subspan(static_cast<size_t>(computed)));
  Tokens right;
  for (Sampler sampler({.temperature = 0}); right.size() < 30;) {
    REQUIRE(logits.ok());
    right.push_back(*sampler.sample(*logits));
    logits = session->extend(right.back());
  }
  CHECK(second.tokens == right);

  wait_until_idle(backend);
  GenerationRequest stranger = greedy(next, 30);
  stranger.cache_owner = 1;
  const Ended cold = Client().ask(backend, stranger).get();
  CHECK(cold.end.cached_tokens == 0);
  CHECK(cold.tokens == alone(stranger).tokens);
}

TEST_CASE("with a cold prefix only prompts are reused") {
  const auto engine = open(options_of(2));
  EngineBackend backend(*engine, tiny_tokenizer(), {.cold_prefix = true});
  GenerationRequest request = greedy("Once upon a time", 40);
  const Ended first = Client().ask(backend, request).get();
  const auto asked = static_cast<int64_t>(request.prompt.size());
  request.prompt.insert(request.prompt.end(), first.tokens.begin(), first.tokens.end());
  wait_until_idle(backend);
  const Ended second = Client().ask(backend, request).get();
  CHECK(second.end.cached_tokens == asked);
  CHECK(second.tokens == alone(request).tokens);
}

TEST_CASE("a short prompt is answered while a long one beside it is being read") {
  const auto engine = open(options_of(2, 0, 2048));
  EngineBackend backend(*engine, tiny_tokenizer(),
                        {.prompts_alone = {.usual = 16, .least = 16}, .prompts_beside = {.usual = 16, .least = 16}});
  Client client;
  Tokens prompt(2000);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<int32_t>(i % 500);
  auto slow = client.ask(backend, greedy(prompt, 1));
  while (backend.slots().empty() || backend.slots()[0].context_tokens == 0)
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  CHECK(client.ask(backend, greedy("The", 5)).get().end.tokens == 5);
  const auto slots = backend.slots();
  REQUIRE(!slots.empty());
  CHECK(slots[0].prompt_tokens == 2000);
  CHECK(slots[0].context_tokens < 2000);
  backend.cancel(slots[0].request);
  CHECK(slow.get().end.reason == Finish::Cancelled);
}

TEST_CASE("a short prompt waits for the step under way, and then takes one that the long prompt at most doubles") {
  const auto engine = open(options_of(3, 0, 2048));
  EngineBackend backend(*engine, tiny_tokenizer(), {.prompts_beside = {.usual = 64, .least = 64}});
  // Somebody who generates, and so says when a step ends: the next one goes on when it is told to.
  const auto pace = std::make_shared<Pace>();
  const Pace::Release release(pace);
  Client client;
  auto paced = client.ask(backend, greedy("Once upon a time", 200), [pace](int64_t n) { pace->take(n); });
  Tokens prompt(1900);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<int32_t>(i % 500);
  pace->wait_for_first();
  auto long_one = client.ask(backend, greedy(prompt, 1));
  const auto read = [&] { return backend.slots()[1].context_tokens; };
  pace->step();
  pace->step();
  CHECK(read() == 64);
  pace->step();
  CHECK(read() == 128);
  constexpr int64_t kShort = 20;
  std::atomic<bool> is_there = false;
  auto short_one = client.ask(backend, greedy(Tokens(prompt.begin() + 100, prompt.begin() + 100 + kShort), 1),
                              [&](int64_t) { is_there = true; });
  pace->step();
  CHECK(read() == 192);  // the step under way
  CHECK_FALSE(is_there);
  pace->step();
  CHECK(is_there);
  CHECK(read() == 192 + kShort);
  pace->step();
  CHECK(read() == 192 + kShort + 64);
}

namespace {

// A clock that is looked at when a step begins and when it ends: each takes so many seconds, whatever it does.
class StepClock {
 public:
  explicit StepClock(double seconds) : seconds_(seconds) {}

  void go_on_with(double seconds) { seconds_ = seconds; }
  auto now() {
    return [this] {
      if (looks_++ % 2 == 1) time_ += seconds_;
      const std::chrono::duration<double> time(time_);
      return EngineBackend::Clock::time_point(std::chrono::duration_cast<EngineBackend::Clock::duration>(time));
    };
  }
  // So far, once nobody asks any more.
  int64_t steps(const Backend& backend) const {
    wait_until_idle(backend);
    while (looks_ % 2 == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return looks_ / 2;
  }

 private:
  std::atomic<double> seconds_;
  double time_ = 0;  // of the thread that steps
  std::atomic<int64_t> looks_ = 0;
};

// Others each time, so that none are in the cache.
Tokens many_tokens(int64_t count) {
  static int32_t first = 0;
  Tokens tokens(static_cast<size_t>(count), 300);
  tokens.front() = first++;
  return tokens;
}

std::unique_ptr<Engine> open_with_chunks(int64_t chunk) {
  EngineOptions options = options_of(3, 0, 2048);
  options.prefill_chunk = chunk;
  return open(options);
}

}  // namespace

TEST_CASE("a long prompt alone is read in steps of a chunk, or of as much of one as there is time for") {
  const auto engine = open_with_chunks(1024);
  const auto steps = [&](double seconds, int64_t prompt) {
    StepClock clock(seconds);
    EngineBackend backend(*engine, tiny_tokenizer(),
                          {.prompts_alone = {.seconds = 0.5, .usual = 256, .least = 64}, .now = clock.now()});
    Client().ask(backend, greedy(many_tokens(1300), 1)).get();
    const int64_t before = clock.steps(backend);
    Client().ask(backend, greedy(many_tokens(prompt), 1)).get();
    return clock.steps(backend) - before;
  };
  CHECK(steps(0.001, 1900) == 2);  // 1024 and 876
  CHECK(steps(0.001, 1000) == 1);
  CHECK(steps(1, 1900) == 8);  // 256 each
}

TEST_CASE("beside somebody who generates steps have few tokens, unless they take little time") {
  const auto engine = open_with_chunks(1024);
  const auto reads = [&](double seconds) {
    StepClock clock(seconds);
    EngineBackend backend(*engine, tiny_tokenizer(),
                          {.prompts_beside = {.seconds = 0.05, .usual = 64, .least = 64}, .now = clock.now()});
    const auto pace = std::make_shared<Pace>();
    const Pace::Release release(pace);
    Client client;
    auto paced = client.ask(backend, greedy("Once upon a time", 200), [pace](int64_t n) { pace->take(n); });
    pace->wait_for_first();
    auto prompt = client.ask(backend, greedy(many_tokens(1900), 1));
    pace->step();
    std::vector<int64_t> tokens;
    for (int64_t read = 0; tokens.size() < 4; read += tokens.back()) {
      pace->step();
      tokens.push_back(backend.slots()[1].context_tokens - read);
    }
    return tokens;
  };
  using Counts = std::vector<int64_t>;
  CHECK(reads(1) == Counts{64, 64, 64, 64});
  CHECK(reads(0.1) == Counts{64, 64, 64, 64});
  CHECK(reads(0.025) == Counts{64, 128, 256, 512});  // each takes half of the time that there is
}

TEST_CASE("a step of which a part was cancelled says nothing about the time that others take") {
  const auto engine = open_with_chunks(256);
  StepClock clock(0.001);
  std::atomic<EngineBackend*> cancelling = nullptr;
  const auto now = [&, look = clock.now()] {
    if (EngineBackend* backend = cancelling)
      for (const BackendSlot& slot : backend->slots()) backend->cancel(slot.request);
    return look();
  };
  EngineBackend backend(*engine, tiny_tokenizer(), {.prompts_alone = {.usual = 256, .least = 64}, .now = now});
  cancelling = &backend;
  CHECK(Client().ask(backend, greedy(many_tokens(1900), 1)).get().end.reason == Finish::Cancelled);
  const int64_t before = clock.steps(backend);
  CHECK(before == 1);
  cancelling = nullptr;
  clock.go_on_with(1);
  Client().ask(backend, greedy(many_tokens(1800), 1)).get();
  CHECK(clock.steps(backend) - before == 8);  // 256 each
}

TEST_CASE("a cancelled request ends, running or waiting, and the next one is right") {
  const auto engine = open(options_of(1));
  EngineBackend backend(*engine, tiny_tokenizer());
  Client client;
  std::promise<void> runs;
  auto long_one = client.ask(backend, greedy("Once upon a time", 200), [&](int64_t n) {
    if (n == 3) runs.set_value();
  });
  const Backend::Id running = client.last_id;
  auto waiting = client.ask(backend, greedy("The", 5));
  const Backend::Id waits = client.last_id;
  auto last = client.ask(backend, greedy("Once upon a time", 5));
  runs.get_future().get();
  backend.cancel(waits);
  CHECK(waiting.get().end.reason == Finish::Cancelled);
  backend.cancel(running);
  backend.cancel(running);
  CHECK(long_one.get().end.reason == Finish::Cancelled);
  const Ended right = last.get();
  CHECK(right.end.reason == Finish::Length);
  CHECK(right.end.tokens == 5);
}

TEST_CASE("nothing of a request is kept once it has ended") {
  const auto engine = open(options_of(1));
  EngineBackend backend(*engine, tiny_tokenizer());
  auto held = std::make_shared<std::promise<void>>();
  const std::weak_ptr<std::promise<void>> kept = held;
  auto ended = held->get_future();
  REQUIRE(backend
              .submit(greedy("The", 3),
                      [held](GenerationEvent event) {
                        if (event.end) held->set_value();
                      })
              .ok());
  held = nullptr;
  ended.get();
  wait_until_idle(backend);
  for (int wait = 0; wait < 5000 && !kept.expired(); ++wait) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(kept.expired());
}

TEST_CASE("a queue that is full refuses, and a backend that ends cancels") {
  const auto engine = open(options_of(1));
  std::future<Ended> running, waiting;
  {
    EngineBackend backend(*engine, tiny_tokenizer(), {.longest_queue = 1});
    Client client;
    std::promise<void> runs;
    running = client.ask(backend, greedy("Once upon a time", 200), [&](int64_t n) {
      if (n == 1) runs.set_value();
    });
    runs.get_future().get();
    waiting = client.ask(backend, greedy("The", 5));
    CHECK(backend.load().waiting == 1);
    const auto refused = backend.submit(greedy("The", 5), [](GenerationEvent) {});
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().message.find("wait already") != std::string::npos);
  }
  CHECK(running.get().end.reason == Finish::Cancelled);
  CHECK(waiting.get().end.reason == Finish::Cancelled);
  CHECK(engine->free_sequences() == 1);
}

TEST_CASE("a request without a finite number fails with its cause, and those beside it get the answers of before") {
  const Tokens prompt = tiny_tokenizer().encode("Once upon a time");
  constexpr int64_t kTokens = 40;
  const Tokens expected = alone(greedy(prompt, kTokens)).tokens;
  int32_t bad = 300;  // a token that no answer has
  const auto is_used = [&](const Tokens& in) { return std::find(in.begin(), in.end(), bad) != in.end(); };
  while (is_used(prompt) || is_used(expected)) ++bad;
  const auto shared = tiny_file().shards()[0].bytes;
  const auto bytes = smelt::test::with_bad_tokens({shared.begin(), shared.end()}, std::array{0, bad});
  const GgufFile file = GgufFile::open_memory(bytes).take();
  const auto engine = Engine::open(file, options_of(3), {}).take();
  EngineBackend backend(*engine, tiny_tokenizer());
  std::vector<std::future<Ended>> right, wrong;
  for (int i = 0; i < 4; ++i) {
    Tokens spoiled = prompt;
    spoiled.insert(spoiled.begin() + i, static_cast<size_t>(1 + 50 * i), bad);
    wrong.push_back(Client().ask(backend, greedy(spoiled, kTokens)));
    right.push_back(Client().ask(backend, greedy(prompt, kTokens)));
  }
  for (auto& answer : wrong) {
    const Ended ended = answer.get();
    CHECK(ended.end.reason == Finish::Failed);
    CHECK(ended.end.error.find("[sampler] logits: entry 0 of ") == 0);
    CHECK(ended.tokens.empty());
  }
  for (auto& answer : right) CHECK(answer.get().tokens == expected);
  // Nor do those find anything of it that begin like it.
  Tokens longer = prompt;
  while (longer.size() < 100) longer.insert(longer.end(), prompt.begin(), prompt.end());
  const Tokens of_longer = alone(greedy(longer, kTokens)).tokens;
  REQUIRE(!is_used(of_longer));
  Tokens spoiled = longer;
  spoiled.push_back(bad);
  CHECK(Client().ask(backend, greedy(spoiled, kTokens)).get().end.reason == Finish::Failed);
  CHECK(Client().ask(backend, greedy(longer, kTokens)).get().tokens == of_longer);
  CHECK(backend.load().failure.empty());
}

TEST_CASE("once a model is not to be trusted any more, requests end with the reason, and later ones are refused") {
  const auto engine = open(options_of(1));
  const std::string why = "model.gguf: was changed while it was in use";
  std::atomic<bool> is_sound = true;
  EngineBackend backend(*engine, tiny_tokenizer(), {.problem = [&] { return is_sound ? std::string() : why; }});
  auto running = Client().ask(backend, greedy("Once upon a time", 200), [&](int64_t n) { is_sound = n < 5; });
  auto waiting = Client().ask(backend, greedy("The", 5));
  for (auto* request : {&running, &waiting}) {
    const Ended ended = request->get();
    CHECK(ended.end.reason == Finish::Failed);
    CHECK(ended.end.error == why);
    CHECK(ended.tokens.size() == (request == &running ? 5 : 0));
  }
  CHECK(backend.load().failure == why);
  const auto refused = backend.submit(greedy("The", 5), [](GenerationEvent) {});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message == why);
}

TEST_CASE("a text stays within its grammar, from its start or behind a mark") {
  const auto engine = open(options_of(2));
  EngineBackend backend(*engine, tiny_tokenizer());
  const auto masks = TokenMasks::make(read_gbnf("root ::= \"yes\" | \"no\"").take(), TokenTable::of(tiny_tokenizer()));
  REQUIRE(masks.ok());
  GenerationRequest request = greedy("Once upon a time", 40);
  request.grammar = *masks;
  const Ended at_once = Client().ask(backend, request).get();
  CHECK(at_once.end.reason == Finish::Stop);
  CHECK((at_once.text() == "yes" || at_once.text() == "no"));
  request.grammar_after = ".";
  const Ended later = Client().ask(backend, request).get();
  CHECK(later.end.reason == Finish::Stop);
  const size_t mark = later.text().find('.');
  REQUIRE(mark != std::string::npos);
  CHECK(mark > 0);
  const std::string behind = later.text().substr(mark + 1);
  CHECK((behind == "yes" || behind == "no"));
}
