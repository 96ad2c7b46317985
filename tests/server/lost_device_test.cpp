// A device that fails while requests are computed: each of them ends with a sentence, /health says so, and nobody else
// is let in. The GPU (support/fake_metal.h) computes nothing, and gives up in the run that a test names.
#include <doctest/doctest.h>

#include <future>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "runtime/metal/metal_device.h"
#include "server/engine_backend.h"
#include "server/fixture.h"
#include "server/http_client.h"
#include "support/fake_metal.h"

using namespace smelt;
using smelt::test::Client;
using smelt::test::FakeMetal;
using smelt::test::FakeMetalLog;

namespace {

// An engine on the fake, which outlives many servers.
struct OnFake {
  FakeMetalLog log;
  std::shared_ptr<Device> device;
  std::unique_ptr<Engine> engine;

  OnFake() {
    MetalProperties properties = FakeMetal::usual();
    properties.buffer_bytes = size_t{1} << 40;
    device = open_metal_device(std::make_unique<FakeMetal>(log, properties), {.use_cache = false}).take();
    const EngineOptions options{.opened = device, .context = 256, .sequences = 2, .prefill_chunk = 32};
    engine = Engine::open(smelt::test::tiny_file(), options, {}).take();
  }
  ~OnFake() { engine.reset(), device.reset(); }
};

// A server on it.
class Losing {
 public:
  explicit Losing(OnFake& fake) : backend_(*fake.engine, smelt::test::tiny_tokenizer()) {}

  // What it says to a request.
  std::string ask(const std::string& line, const Json& body) {
    Client client(running_);
    const std::string text = body.dump();
    client.send(line + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n" +
                "Content-Length: " + std::to_string(text.size()) + "\r\n\r\n" + text);
    return client.read_all();
  }
  // Lets those under way end. True: they did.
  bool end() {
    running_.end();
    return running_.all_answered;
  }

 private:
  void post(RouterThreads::Work work) { running_.server->post(std::move(work)); }
  RouterThreads threads() {
    const auto posts = [this](RouterThreads::Work work) { post(std::move(work)); };
    return {posts, posts, [](size_t, const RouterThreads::Work& work) { return work(), true; }};
  }

  EngineBackend backend_;
  Router router_{smelt::test::served_model(), backend_, {}, threads()};
  smelt::test::Running running_{[this](HttpRequest request, std::shared_ptr<HttpReply> reply) {
    router_.handle(std::move(request), std::move(reply));
  }};
};

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// Many at once, more than have a place: all of them are told `why`, and whoever comes later is, too.
void check_end(OnFake& fake, const char* why) {
  Losing server(fake);
  const std::string path = "POST /v1/completions";
  std::vector<std::future<std::string>> answers;
  for (const char* prompt : {"Once upon a time", "The", "A third one, for which there is no place yet"})
    for (const bool stream : {false, true}) {
      const Json body = {{"prompt", prompt}, {"max_tokens", 100}, {"stream", stream}, {"ignore_eos", true}};
      answers.push_back(std::async(std::launch::async, [&, body] { return server.ask(path, body); }));
    }
  for (auto& answer : answers) {
    const std::string text = answer.get();
    CAPTURE(text);
    CHECK((has(text, " 500 ") || has(text, " 503 ") || has(text, "\"error\":{")));
    CHECK(has(text, why));
  }
  const std::string health = server.ask("GET /health", {}), refused = server.ask(path, {{"prompt", "The"}});
  CHECK(has(health, " 503 "));
  CHECK(has(health, why));
  CHECK(has(refused, " 503 "));
  CHECK(has(refused, why));
  CHECK(server.end());
  CHECK(fake.engine->free_sequences() == 2);
}

}  // namespace

TEST_CASE("a device that is lost in any run ends all requests with a sentence, and the server says so from then on") {
  OnFake fake;
  for (const size_t runs : {0, 1, 5, 20, 45, 100}) {
    CAPTURE(runs);
    fake.log.fails = fake.log.started.size() + runs + 1;
    check_end(fake, "\"message\":\"the GPU gave up\"");
  }
  // And one that takes no more work, or of which nobody hears again.
  fake.log.fails = 0;
  for (const char* call : {"start", "wait"})
    for (const int after : {0, 1, 30}) {
      CAPTURE(call);
      CAPTURE(after);
      fake.log.fail_in = call;
      fake.log.fail_after = after;
      fake.log.count.clear();
      check_end(fake, (std::string("\"message\":\"it failed in ") + call + "\"").c_str());
    }
}
