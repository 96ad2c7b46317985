// The backend over one session, with the small model: the same texts as alone, in turn, and cancelled at any time.
#include "server/session_backend.h"

#include <doctest/doctest.h>

#include <future>

#include "grammar/gbnf.h"
#include "server/fixture.h"

using namespace smelt;
using smelt::test::tiny_file;
using smelt::test::tiny_tokenizer;

namespace {

struct Ended {
  std::string text;
  GenerationEnd end;
};

class Client {
 public:
  // `on_token`: called on the thread of the backend with the number of tokens so far.
  std::future<Ended> ask(Backend& backend, GenerationRequest request, std::function<void(int64_t)> on_token = {}) {
    auto promise = std::make_shared<std::promise<Ended>>();
    auto so_far = std::make_shared<std::vector<int32_t>>();
    const auto id = backend.submit(std::move(request), [=](GenerationEvent event) {
      so_far->insert(so_far->end(), event.tokens.begin(), event.tokens.end());
      if (on_token && !event.tokens.empty()) on_token(static_cast<int64_t>(so_far->size()));
      if (event.end) promise->set_value({tiny_tokenizer().decode(*so_far), *event.end});
    });
    REQUIRE_MESSAGE(id.ok(), id.error().message);
    last_id = *id;
    return promise->get_future();
  }
  Backend::Id last_id = 0;
};

std::unique_ptr<Session> open_session() {
  auto session = Session::open(tiny_file(), {.threads = 1, .context = 256, .use_tuned = false}, {});
  REQUIRE_MESSAGE(session.ok(), session.error().message);
  return session.take();
}

GenerationRequest greedy(const std::string& prompt, int64_t tokens) {
  GenerationRequest request{
      .prompt = tiny_tokenizer().encode(prompt), .max_tokens = tokens, .stops = tiny_tokenizer().stop_tokens()};
  request.sampler.temperature = 0;
  return request;
}

}  // namespace

TEST_CASE("requests that wait get the texts that they get alone, and what prompts have in common is computed once") {
  const auto session = open_session();
  std::vector<Ended> alone;
  for (const char* prompt : {"Once upon a time", "The little dragon"}) {
    session->reset();
    SessionBackend backend(*session, tiny_tokenizer());
    alone.push_back(Client().ask(backend, greedy(prompt, 12)).get());
    CHECK(alone.back().end.reason == Finish::Length);
    CHECK(alone.back().end.tokens == 12);
    CHECK(alone.back().end.cached_tokens == 0);
  }
  SessionBackend backend(*session, tiny_tokenizer());
  Client client;
  auto first = client.ask(backend, greedy("Once upon a time", 12)),
       second = client.ask(backend, greedy("The little dragon", 12)),
       third = client.ask(backend, greedy("The little dragon", 12));
  CHECK(first.get().text == alone[0].text);
  CHECK(second.get().text == alone[1].text);
  const Ended again = third.get();
  CHECK(again.text == alone[1].text);
  CHECK(again.end.cached_tokens == again.end.prompt_tokens - 1);
}

TEST_CASE("a cancelled request ends, running or waiting, and the next one is right") {
  const auto session = open_session();
  SessionBackend backend(*session, tiny_tokenizer());
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

TEST_CASE("a queue that is full refuses, and a backend that ends cancels") {
  const auto session = open_session();
  std::future<Ended> running, waiting;
  {
    SessionBackend backend(*session, tiny_tokenizer(), 1);
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
}

TEST_CASE("a text stays within its grammar, from its start or behind a mark") {
  const auto session = open_session();
  SessionBackend backend(*session, tiny_tokenizer());
  const auto masks = TokenMasks::make(read_gbnf("root ::= \"yes\" | \"no\"").take(), TokenTable::of(tiny_tokenizer()));
  REQUIRE(masks.ok());
  GenerationRequest request = greedy("Once upon a time", 40);
  request.grammar = *masks;
  const Ended at_once = Client().ask(backend, request).get();
  CHECK(at_once.end.reason == Finish::Stop);
  CHECK((at_once.text == "yes" || at_once.text == "no"));
  request.grammar_after = ".";
  const Ended later = Client().ask(backend, request).get();
  CHECK(later.end.reason == Finish::Stop);
  const size_t mark = later.text.find('.');
  REQUIRE(mark != std::string::npos);
  CHECK(mark > 0);
  const std::string behind = later.text.substr(mark + 1);
  CHECK((behind == "yes" || behind == "no"));
}
