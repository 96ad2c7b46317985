// Chats in OpenAI's form: what the backend is asked for, and what the client gets.
#include "server/fixture.h"

using namespace smelt;
using smelt::test::Served;
using smelt::test::served_model;
using smelt::test::tiny_tokenizer;

TEST_CASE("an answer as a whole has content, reason and usage") {
  Served s;
  const auto reply = s.chat({{"temperature", 0}, {"max_tokens", 7}, {"seed", 5}});
  REQUIRE(s.backend.jobs.size() == 1);
  const GenerationRequest& asked = s.backend.jobs[0].request;
  CHECK(tiny_tokenizer().decode(asked.prompt).ends_with("[user] Hi\n[assistant] "));
  CHECK(asked.max_tokens == 7);
  CHECK(asked.sampler.temperature == 0);
  CHECK(asked.sampler.seed == 5);
  CHECK(asked.stops == served_model().stops());
  CHECK_FALSE(reply->ended);
  s.backend.write("Hello you");
  s.backend.end(Finish::Stop);
  REQUIRE(reply->ended);
  CHECK(reply->response.status == 200);
  const Json json = reply->json();
  CHECK(json["object"] == "chat.completion");
  CHECK(json["model"] == "tiny");
  CHECK(json["id"].get<std::string>().starts_with("chatcmpl-"));
  const Json& choice = json["choices"][0];
  CHECK(choice["message"] == Json{{"role", "assistant"}, {"content", "Hello you"}});
  CHECK(choice["finish_reason"] == "stop");
  CHECK(json["usage"]["prompt_tokens"] == asked.prompt.size());
  CHECK(json["usage"]["completion_tokens"] == s.backend.written);
  CHECK(json["usage"]["prompt_tokens_details"]["cached_tokens"] == 3);
  CHECK(json["timings"]["predicted_ms"] == 250);
}

TEST_CASE("a stream has the role, pieces of content, the reason, the usage and its end") {
  Served s;
  const auto reply = s.chat({{"stream", true}, {"stream_options", {{"include_usage", true}}}});
  CHECK(reply->response.type == "text/event-stream");
  CHECK(reply->chunks().size() == 1);  // at once
  s.backend.write("Hello you");
  s.backend.end(Finish::Length);
  REQUIRE(reply->ended);
  CHECK(reply->response.body.ends_with("data: [DONE]\n\n"));
  const auto chunks = reply->chunks();
  REQUIRE(chunks.size() >= 4);
  CHECK(chunks[0]["choices"][0]["delta"] == Json{{"role", "assistant"}, {"content", ""}});
  CHECK(chunks[0]["choices"][0]["finish_reason"].is_null());
  std::string content;
  for (size_t i = 1; i + 2 < chunks.size(); ++i)
    content += chunks[i]["choices"][0]["delta"]["content"].get<std::string>();
  CHECK(content == "Hello you");
  CHECK(chunks[chunks.size() - 2]["choices"][0]["finish_reason"] == "length");
  CHECK(chunks.back()["choices"].empty());
  CHECK(chunks.back()["usage"]["completion_tokens"] == s.backend.written);
  for (const Json& chunk : chunks) CHECK(chunk["id"] == chunks[0]["id"]);
}

TEST_CASE("a stop string ends the answer and the work") {
  for (bool stream : {false, true}) {
    Served s;
    const auto reply = s.chat({{"stop", Json::array({"STOP"})}, {"stream", stream}});
    s.backend.write("one ST");
    CHECK_FALSE(s.backend.jobs[0].cancelled);
    s.backend.write("OP two");
    CHECK(s.backend.jobs[0].cancelled);
    s.backend.end(Finish::Cancelled);
    REQUIRE(reply->ended);
    std::string content, reason;
    if (stream) {
      for (const Json& chunk : reply->chunks()) {
        const Json& choice = chunk["choices"][0];
        content += choice["delta"].value("content", "");
        if (choice["finish_reason"].is_string()) reason = choice["finish_reason"];
      }
    } else {
      content = reply->json()["choices"][0]["message"]["content"];
      reason = reply->json()["choices"][0]["finish_reason"];
    }
    CHECK(content == "one ");
    CHECK(reason == "stop");
  }
}

TEST_CASE("thoughts and calls of tools come apart from content") {
  const Json tools = Json::array({{{"type", "function"}, {"function", {{"name", "add"}}}}});
  for (bool stream : {false, true}) {
    Served s;
    const auto reply =
        s.chat({{"tools", tools}, {"stream", stream}, {"chat_template_kwargs", {{"enable_thinking", true}}}});
    CHECK(tiny_tokenizer().decode(s.backend.jobs[0].request.prompt).ends_with("<think>"));
    s.backend.write("easy</think>Sure.<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1}}</tool_call>");
    s.backend.end(Finish::Stop);
    Json message = Json::object();
    std::string reason;
    if (stream) {
      for (const Json& chunk : reply->chunks()) {
        const Json& choice = chunk["choices"][0];
        for (const auto& [key, value] : choice["delta"].items())
          message[key] = value.is_string() ? Json(message.value(key, "") + value.get<std::string>()) : value;
        if (choice["finish_reason"].is_string()) reason = choice["finish_reason"];
      }
      CHECK(message["tool_calls"][0]["index"] == 0);
    } else {
      message = reply->json()["choices"][0]["message"];
      reason = reply->json()["choices"][0]["finish_reason"];
    }
    CHECK(message["reasoning_content"] == "easy");
    CHECK(message["content"] == "Sure.");
    CHECK(message["tool_calls"].size() == 1);
    CHECK(message["tool_calls"][0]["type"] == "function");
    CHECK(message["tool_calls"][0]["function"] == Json{{"name", "add"}, {"arguments", "{\"a\":1}"}});
    CHECK(reason == "tool_calls");
  }
}

TEST_CASE("tool_choice none keeps the tools from the model") {
  Served s;
  s.chat({{"tools", Json::array({{{"type", "function"}, {"function", {{"name", "add"}}}}})}, {"tool_choice", "none"}});
  CHECK(s.backend.jobs.size() == 1);
}

TEST_CASE("response_format asks for a grammar, behind the thoughts where the prompt begins them") {
  const Json schema = {{"type", "object"}, {"properties", {{"a", {{"type", "integer"}}}}}, {"required", {"a"}}};
  const Json format = {{"type", "json_schema"}, {"json_schema", {{"name", "x"}, {"schema", schema}}}};
  Served s;
  s.chat({{"response_format", format}});
  REQUIRE(s.backend.jobs.size() == 1);
  CHECK(s.backend.jobs[0].request.grammar != nullptr);
  CHECK(s.backend.jobs[0].request.grammar_after == "");
  s.chat({{"response_format", {{"type", "json_object"}}}, {"chat_template_kwargs", {{"enable_thinking", true}}}});
  REQUIRE(s.backend.jobs.size() == 2);
  CHECK(s.backend.jobs[1].request.grammar != nullptr);
  CHECK(s.backend.jobs[1].request.grammar_after == "</think>");
  s.chat({{"response_format", {{"type", "text"}}}});
  CHECK(s.backend.jobs[2].request.grammar == nullptr);
}

TEST_CASE("a field that is wrong or not there is refused by its name, and nothing runs") {
  const Json deep = Json::parse(std::string(100, '[') + std::string(100, ']'));
  for (const auto& [name, value] : std::vector<std::pair<std::string, Json>>{
           {"temperature", -1},
           {"temperature", "hot"},
           {"temperature", 1e308},
           {"top_p", 2},
           {"top_k", 1.5},
           {"top_k", uint64_t{1} << 63},
           {"max_tokens", -2},
           {"max_completion_tokens", true},
           {"seed", Json::object()},
           {"stop", ""},
           {"stop", Json::array({1})},
           {"stop", std::string(257, 'x')},
           {"stop", std::vector<std::string>(17, "x")},
           {"stream", 1},
           {"stream_options", 1},
           {"n", 2},
           {"n", 0},
           {"logprobs", true},
           {"top_logprobs", 3},
           {"logit_bias", {{"1", 2}}},
           {"presence_penalty", 0.5},
           {"response_format", 1},
           {"response_format", {{"type", "xml"}}},
           {"response_format", {{"type", "json_schema"}}},
           {"response_format", {{"type", "json_schema"}, {"json_schema", {{"schema", {{"type", "nothing"}}}}}}},
           {"tools", 1},
           {"tools", Json::array({1})},
           {"tools", deep},
           {"messages", Json::array()},
           {"messages", "Hi"},
           {"messages", Json::array({{{"content", "Hi"}}})},
           {"messages", Json::array({{{"role", "user"}, {"content", 1}}})},
           {"messages", Json::array({{{"role", "user"}, {"content", {{{"type", "image_url"}}}}}})},
           {"chat_template_kwargs", 1}}) {
    CAPTURE(name);
    CAPTURE(value.dump());
    Served s;
    const auto reply = s.chat({{name, value}});
    REQUIRE(reply->ended);
    CHECK(reply->response.status == 400);
    CHECK(reply->json()["error"]["param"] == name);
    CHECK(reply->json()["error"]["type"] == "invalid_request_error");
    CHECK(reply->json()["error"]["message"].get<std::string>().find(name) == 0);
    CHECK(s.backend.jobs.empty());
  }
}

TEST_CASE("a prompt that does not fit the context is refused before anything is computed") {
  Served s;
  std::string words;
  for (int i = 0; i < 300; ++i) words += "the ";
  const auto reply = s.chat({{"messages", Json::array({{{"role", "user"}, {"content", words}}})}});
  CHECK(reply->response.status == 400);
  CHECK(reply->json()["error"]["code"] == "context_length_exceeded");
  CHECK(s.backend.jobs.empty());
}

TEST_CASE("what fails after its start says so, in the stream or as a whole") {
  for (bool stream : {false, true}) {
    Served s;
    const auto reply = s.chat({{"stream", stream}});
    s.backend.write("Hello");
    s.backend.end(Finish::Failed, "[sampler] logit 3 is not a number");
    REQUIRE(reply->ended);
    const Json error = stream ? reply->chunks().back() : reply->json();
    CHECK(error["error"]["message"] == "logit 3 is not a number");
    CHECK(error["error"]["type"] == "server_error");
    CHECK(reply->response.status == (stream ? 200 : 500));
    CHECK(reply->response.body.find("[DONE]") == std::string::npos);
  }
}

TEST_CASE("a text is gone on with, from a string or from ids") {
  Served s;
  const auto reply = s.post("/v1/completions", {{"prompt", "Once upon"}, {"stop", "."}});
  CHECK(s.backend.jobs[0].request.prompt == tiny_tokenizer().encode("Once upon"));
  CHECK(s.backend.jobs[0].request.max_tokens == 16);
  s.backend.write(" a time. There");
  s.backend.end(Finish::Cancelled);
  CHECK(reply->json()["object"] == "text_completion");
  CHECK(reply->json()["choices"][0]["text"] == " a time");
  CHECK(reply->json()["choices"][0]["finish_reason"] == "stop");
  s.post("/v1/completions", {{"prompt", {5, 6, 7}}, {"max_tokens", 3}});
  CHECK(s.backend.jobs[1].request.prompt == std::vector<int32_t>{5, 6, 7});
  for (const Json& wrong : {Json(), Json(1), Json{-1}, Json{1e9}, Json{"a", "b"}, Json::object()}) {
    CAPTURE(wrong.dump());
    CHECK(s.post("/v1/completions", {{"prompt", wrong}})->response.status == 400);
  }
  CHECK(s.backend.jobs.size() == 2);
}
