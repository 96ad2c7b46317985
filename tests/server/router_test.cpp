// Who may ask, which paths there are, and what happens to those whose client goes.
#include "server/fixture.h"

using namespace smelt;
using smelt::test::Served;
using smelt::test::tiny_tokenizer;

namespace {

int status(Served& s, HttpHeaders headers, const std::string& method = "GET", const std::string& path = "/v1/models") {
  return s.ask({.method = method, .path = path, .headers = std::move(headers), .body = "{}"})->response.status;
}

}  // namespace

TEST_CASE("health, models, props and metrics say what is served") {
  Served s({.build = "smelt 1"});
  CHECK(s.get("/health")->json()["status"] == "ok");
  CHECK(s.get("/v1/models")->json()["data"][0]["id"] == "tiny");
  CHECK(s.get("/v1/models/tiny")->json()["id"] == "tiny");
  CHECK(s.get("/v1/models/t%69ny")->json()["id"] == "tiny");
  CHECK(s.get("/v1/models/big%2F%zz%")->response.status == 404);
  CHECK(s.get("/props")->json()["default_generation_settings"]["n_ctx"] == 256);
  CHECK(s.get("/props")->json()["build_info"] == "smelt 1");
  s.chat();
  s.backend.write("Hello");
  s.backend.end(Finish::Stop);
  const std::string metrics = s.get("/metrics")->response.body;
  for (const char* line :
       {"\nvllm:num_requests_running 1\n", "\nvllm:num_requests_waiting 2\n",
        "\nvllm:request_success_total{finished_reason=\"stop\"} 1\n", "\nvllm:prefix_cache_hits_total 3\n",
        "\nvllm:kv_cache_usage_perc 0.25\n", "\nvllm:time_to_first_token_seconds_bucket{le=\"0.01\"} 0\n",
        "\nvllm:time_to_first_token_seconds_bucket{le=\"0.025\"} 1\n",
        "\nvllm:time_to_first_token_seconds_bucket{le=\"+Inf\"} 1\n", "\nvllm:time_to_first_token_seconds_sum 0.02\n",
        "\nvllm:time_to_first_token_seconds_count 1\n"})
    CHECK(metrics.find(line) != std::string::npos);
}

TEST_CASE("slots say what runs") {
  Served s({.slots = 3});
  const Json slots = s.get("/slots")->json();
  REQUIRE(slots.size() == 3);
  CHECK(slots[0]["is_processing"] == !s.backend.slots().empty());
  CHECK(slots[2]["is_processing"] == false);
  CHECK(slots[2]["n_ctx"] == 256);
}

TEST_CASE("texts become tokens and back, and chats prompts") {
  Served s;
  const Json tokens = s.post("/tokenize", {{"content", "Once upon"}})->json()["tokens"];
  CHECK(tokens == tiny_tokenizer().encode("Once upon", true, false));
  CHECK(s.post("/detokenize", {{"tokens", tokens}})->json()["content"] == "Once upon");
  CHECK(s.post("/tokenize", {{"content", "Once"}, {"with_pieces", true}})->json()["tokens"][0]["piece"] == "Once");
  const Json chat = {{"messages", Json::array({{{"role", "user"}, {"content", "Hi"}}})}};
  CHECK(s.post("/apply-template", chat)->json()["prompt"] == "[user] Hi\n[assistant] ");
  CHECK(s.post("/detokenize", {{"tokens", {1 << 30}}})->response.status == 400);
  CHECK(s.post("/tokenize", {{"content", 1}})->response.status == 400);
}

TEST_CASE("paths and methods that are not there are told so") {
  Served s;
  CHECK(s.get("/v1/nothing")->response.status == 404);
  CHECK(s.get("/../etc/passwd")->response.status == 404);
  CHECK(s.get("/v1/chat/completions")->response.status == 405);
  CHECK(s.post("/health", Json::object())->response.status == 405);
  CHECK(s.post("/v1/embeddings", Json::object())->response.status == 501);
}

TEST_CASE("every path but health and the page wants the key, where there is one") {
  Served s({.api_keys = {"first", "second"}});
  CHECK(Router::paths().size() > 15);
  for (const auto& [method, path] : Router::paths()) {
    CAPTURE(path);
    const int expected = path.ends_with("/health") ? 200 : 401;
    CHECK(status(s, {{"Content-Type", "application/json"}}, method, path) == expected);
    for (const char* wrong : {"Bearer firs", "Bearer firsts", "Bearer secondfirst", "Basic first", "first", ""})
      CHECK(status(s, {{"Authorization", wrong}}, method, path) == expected);
    CHECK(status(s, {{"X-Api-Key", "firs"}}, method, path) == expected);
  }
  CHECK(status(s, {}) == 401);
  CHECK(status(s, {{"Authorization", "Bearer "}}) == 401);
  CHECK(status(s, {{"Authorization", "Bearer firsts"}}) == 401);
  CHECK(status(s, {{"Authorization", "Bearer first"}}) == 200);
  CHECK(status(s, {{"authorization", "Bearer second"}}) == 200);
  CHECK(status(s, {{"X-Api-Key", "second"}}) == 200);
  CHECK(status(s, {}, "GET", "/health") == 200);
  CHECK(status(s, {}, "GET", "/") == 200);
  CHECK(s.backend.jobs.empty());
}

TEST_CASE("names of others and pages of others are refused") {
  Served s({.host = "box"});
  for (const char* host : {"localhost", "localhost:8080", "127.0.0.1", "192.168.1.5:80", "[::1]:8080", "box:1"}) {
    CAPTURE(host);
    CHECK(status(s, {{"Host", host}}) == 200);
  }
  for (const char* host : {"evil.example", "localhost.evil.example:8080", "127.0.0.1.evil.example"}) {
    CAPTURE(host);
    CHECK(status(s, {{"Host", host}}) == 403);
  }
  CHECK(status(s, {{"Host", "localhost:8080"}, {"Origin", "http://localhost:8080"}}) == 200);
  for (const char* origin : {"http://evil.example", "http://localhost:8081", "null", "http://localhost:8080.evil"})
    CHECK(status(s, {{"Host", "localhost:8080"}, {"Origin", origin}}) == 403);
  const HttpHeaders text = {{"Host", "localhost"}, {"Content-Type", "text/plain"}};
  CHECK(status(s, text, "POST", "/v1/chat/completions") == 415);
}

TEST_CASE("bodies that are no JSON object, or too deep, are refused") {
  Served s;
  for (const std::string& body : {std::string("{"), std::string("[]"), std::string(), std::string("\"text\""),
                                  "{\"a\":" + std::string(1'000'000, '[')}) {
    const auto reply = s.ask({.method = "POST",
                              .path = "/v1/chat/completions",
                              .headers = {{"Content-Type", "application/json"}},
                              .body = body});
    CHECK(reply->response.status == 400);
  }
}

TEST_CASE("a client that goes cancels its request, and nothing is written to it") {
  Served s;
  const auto reply = s.chat({{"stream", true}});
  reply->gone();
  CHECK(s.backend.jobs[0].cancelled);
  const size_t before = reply->response.body.size();
  s.backend.write("Hello");
  s.backend.end(Finish::Cancelled);
  CHECK(reply->response.body.size() == before);
  CHECK_FALSE(reply->ended);
}

TEST_CASE("what an answer needs before it begins holds up nobody else") {
  std::deque<Router::Work> waiting;
  Served s({}, [&](size_t, Router::Work work) { return waiting.push_back(std::move(work)), waiting.size() <= 2; });
  const auto tokens = s.post("/tokenize", {{"content", "Once upon"}});
  const auto chat = s.chat();
  CHECK(s.get("/health")->response.status == 200);
  CHECK_FALSE(tokens->ended);
  CHECK(s.backend.jobs.empty());
  CHECK(s.post("/tokenize", {{"content", "Once"}})->response.status == 429);
  waiting.pop_back();
  for (Router::Work& work : std::exchange(waiting, {})) work();
  CHECK(tokens->response.status == 200);
  CHECK(s.backend.jobs.size() == 1);
  s.backend.end(Finish::Stop);
  CHECK(chat->response.status == 200);
}

TEST_CASE("nothing is prepared for a client that has gone") {
  std::deque<Router::Work> waiting;
  Served s({}, [&](size_t, Router::Work work) { return waiting.push_back(std::move(work)), true; });
  const auto ask = [&](const char* path, std::string body) {
    body.append(1 << 17, ' ');
    return s.ask({.method = "POST", .path = path, .headers = {{"Content-Type", "application/json"}}, .body = body});
  };
  const auto chat = ask("/v1/chat/completions", R"({"messages": [{"role": "user", "content": "Hi"}]})");
  const auto tokens = ask("/tokenize", R"({"content": "Once"})");
  chat->gone();
  tokens->gone();
  for (const Router::Work& work : waiting) work();
  CHECK(s.backend.jobs.empty());
  CHECK_FALSE(chat->ended);
  CHECK_FALSE(tokens->ended);
}

TEST_CASE("where the queue is full nothing is prepared") {
  int prepared = 0;
  Served s({}, [&](size_t, const Router::Work& work) { return ++prepared, work(), true; });
  s.backend.limit = 0;
  CHECK(s.chat()->response.status == 429);
  CHECK(prepared == 0);
  CHECK(s.post("/tokenize", {{"content", "Once"}})->response.status == 200);
}

TEST_CASE("an answer that has ended keeps nothing of its client") {
  Served s;
  for (const bool stream : {false, true}) {
    const auto reply = s.chat({{"stream", stream}});
    s.backend.write("Hello");
    CHECK(reply.use_count() > 1);
    s.backend.end(Finish::Stop);
    CHECK(reply.use_count() == 1);
  }
}

TEST_CASE("behind a stop string it does not matter what the backend still does") {
  Served s;
  const auto reply = s.chat({{"stop", "STOP"}});
  s.backend.write("one STOP");
  const int64_t written = s.backend.written;
  s.backend.write(" two three");
  s.backend.end(Finish::Length);
  CHECK(reply->json()["choices"][0]["finish_reason"] == "stop");
  CHECK(reply->json()["choices"][0]["message"]["content"] == "one ");
  CHECK(reply->json()["usage"]["completion_tokens"] == written);
}

TEST_CASE("a full queue says when to come back, and so does a server that ends") {
  Served s;
  s.backend.limit = 0;
  const auto reply = s.chat();
  CHECK(reply->response.status == 429);
  CHECK(reply->json()["error"]["type"] == "rate_limit_error");
  s.backend.limit = 1;
  s.router.drain();
  CHECK(s.chat()->response.status == 503);
  CHECK(s.get("/health")->response.status == 503);
  CHECK(s.backend.jobs.empty());
}

TEST_CASE("who asks by another key gets nothing from the cache of the first") {
  Served s({.api_keys = {"first", "second"}});
  for (const char* key : {"first", "second", "first"})
    s.ask({.method = "POST",
           .path = "/v1/chat/completions",
           .headers = {{"Content-Type", "application/json"}, {"X-Api-Key", key}},
           .body = R"({"messages": [{"role": "user", "content": "Hi"}]})"});
  REQUIRE(s.backend.jobs.size() == 3);
  CHECK(s.backend.jobs[0].request.cache_owner != s.backend.jobs[1].request.cache_owner);
  CHECK(s.backend.jobs[0].request.cache_owner == s.backend.jobs[2].request.cache_owner);
}

TEST_CASE("a server whose device is lost, or whose model is being loaded, says so") {
  Served s;
  s.backend.failure = "[cuda] the device is lost";
  CHECK(s.get("/health")->response.status == 503);
  CHECK(s.chat()->response.status == 503);
  CHECK(s.chat()->json()["error"]["message"] == "the device is lost");
  CHECK(s.backend.jobs.empty());
  const auto reply = std::make_shared<smelt::test::FakeReply>();
  Router::refuse_while_loading(reply);
  CHECK(reply->response.status == 503);
  CHECK(reply->json()["error"]["type"] == "unavailable_error");
}

TEST_CASE("the page is served with a policy that lets nothing else in") {
  Served s;
  for (const char* path : {"/", "/app.js", "/style.css", "/branches.js", "/highlight.js", "/live.js", "/markdown.js",
                           "/maths.js", "/store.js"}) {
    const auto reply = s.get(path);
    CHECK(reply->response.status == 200);
    bool strict = false;
    for (const auto& [name, value] : reply->response.headers)
      strict |= name == "Content-Security-Policy" && value.starts_with("default-src 'none'") &&
                value.find("unsafe") == std::string::npos;
    CHECK(strict);
  }
  for (const char* path :
       {"/app.js", "/branches.js", "/highlight.js", "/live.js", "/markdown.js", "/maths.js", "/store.js"})
    for (const char* sink : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "http://"})
      CHECK(s.get(path)->response.body.find(sink) == std::string::npos);
}
