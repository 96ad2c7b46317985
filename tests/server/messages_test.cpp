// Messages in Anthropic's form: what the backend is asked for, and what the client gets.
#include "server/fixture.h"

using namespace smelt;
using smelt::test::Served;
using smelt::test::tiny_tokenizer;

namespace {

Json question(Json more = Json::object()) {
  Json body = {{"max_tokens", 20}, {"messages", Json::array({{{"role", "user"}, {"content", "Hi"}}})}};
  body.update(more);
  return body;
}

std::string prompt_of(Served& s) { return tiny_tokenizer().decode(s.backend.jobs.back().request.prompt); }

const Json kTools = Json::array({{{"name", "add"}, {"description", "adds"}, {"input_schema", {{"type", "object"}}}}});

}  // namespace

TEST_CASE("a message has blocks, a reason and usage") {
  Served s;
  const auto reply = s.post("/v1/messages", question({{"system", "Be kind."}, {"temperature", 0.5}, {"top_k", 3}}));
  REQUIRE(s.backend.jobs.size() == 1);
  CHECK(prompt_of(s).ends_with("[system] Be kind.\n[user] Hi\n[assistant] "));
  CHECK(s.backend.jobs[0].request.max_tokens == 20);
  CHECK(s.backend.jobs[0].request.sampler.top_k == 3);
  s.backend.write("Hello you");
  s.backend.end(Finish::Stop);
  REQUIRE(reply->ended);
  const Json json = reply->json();
  CHECK(json["id"].get<std::string>().starts_with("msg_"));
  CHECK(json["type"] == "message");
  CHECK(json["role"] == "assistant");
  CHECK(json["model"] == "tiny");
  CHECK(json["content"] == Json::array({{{"type", "text"}, {"text", "Hello you"}}}));
  CHECK(json["stop_reason"] == "end_turn");
  CHECK(json["stop_sequence"].is_null());
  CHECK(json["usage"]["input_tokens"] == s.backend.jobs[0].request.prompt.size() - 3);
  CHECK(json["usage"]["cache_read_input_tokens"] == 3);
  CHECK(json["usage"]["output_tokens"] == s.backend.written);
}

TEST_CASE("a stream of a message begins, grows and ends its blocks one after another") {
  Served s;
  const auto reply =
      s.post("/v1/messages", question({{"stream", true}, {"tools", kTools}, {"thinking", {{"type", "enabled"}}}}));
  CHECK(prompt_of(s).ends_with("<think>"));
  CHECK(reply->ping_text == "event: ping\ndata: {\"type\": \"ping\"}\n\n");
  s.backend.write("easy</think>Sure.<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1}}</tool_call>");
  s.backend.end(Finish::Stop);
  REQUIRE(reply->ended);
  std::string told, thinking, text, input;
  int index = -1;
  for (const StreamEvent& event : reply->events()) {
    CHECK(event.name == event.data["type"].get<std::string>());
    if (event.name == "content_block_start") {
      CHECK(event.data["index"] == ++index);
      told += event.data["content_block"]["type"].get<std::string>() + " ";
    } else if (event.name == "content_block_delta") {
      CHECK(event.data["index"] == index);
      const Json& delta = event.data["delta"];
      thinking += delta.value("thinking", "");
      text += delta.value("text", "");
      input += delta.value("partial_json", "");
    } else {
      told += event.name + " ";
    }
  }
  CHECK(told ==
        "message_start thinking content_block_stop text content_block_stop tool_use content_block_stop "
        "message_delta message_stop ");
  CHECK(thinking == "easy");
  CHECK(text == "Sure.");
  CHECK(input == "{\"a\":1}");
  const auto events = reply->events();
  CHECK(events.front().data["message"]["usage"]["input_tokens"] == s.backend.jobs[0].request.prompt.size());
  CHECK(events[events.size() - 2].data["delta"]["stop_reason"] == "tool_use");
  CHECK(events[events.size() - 2].data["usage"]["output_tokens"] == s.backend.written);
}

TEST_CASE("why a message ended has Anthropic's words") {
  const auto ended = [](const Json& more, const std::string& text, Finish reason, int64_t tokens) {
    Served s;
    const auto reply = s.post("/v1/messages", question(more));
    s.backend.write(text);
    s.backend.written = tokens;
    s.backend.end(reason);
    return reply->json();
  };
  CHECK(ended(Json::object(), "Hi", Finish::Length, 20)["stop_reason"] == "max_tokens");
  CHECK(ended(Json::object(), "Hi", Finish::Length, 19)["stop_reason"] == "model_context_window_exceeded");
  const Json stopped = ended({{"stop_sequences", {"END"}}}, "Hi END", Finish::Cancelled, 3);
  CHECK(stopped["stop_reason"] == "stop_sequence");
  CHECK(stopped["stop_sequence"] == "END");
  CHECK(stopped["content"][0]["text"] == "Hi ");
  const Json called = ended({{"tools", kTools}},
                            "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1}}</tool_call>", Finish::Stop, 9);
  CHECK(called["stop_reason"] == "tool_use");
  REQUIRE(called["content"].size() == 1);
  CHECK(called["content"][0]["type"] == "tool_use");
  CHECK(called["content"][0]["input"] == Json{{"a", 1}});
  CHECK(called["content"][0]["id"].get<std::string>().starts_with("toolu_"));
}

TEST_CASE("a message that is cut within a call keeps what is complete of its input") {
  for (bool stream : {false, true}) {
    Served s;
    const auto reply = s.post("/v1/messages", question({{"tools", kTools}, {"stream", stream}}));
    s.backend.write("<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": \"tw");
    s.backend.written = 20;
    s.backend.end(Finish::Length);
    if (!stream) {
      CHECK(reply->json()["stop_reason"] == "max_tokens");
      CHECK(reply->json()["content"][0]["input"] == Json{{"a", 1}});
      continue;
    }
    std::string input, told;
    for (const StreamEvent& event : reply->events()) {
      told += event.name + " ";
      if (event.name == "content_block_delta") input += event.data["delta"]["partial_json"].get<std::string>();
    }
    CHECK(input == "{\"a\":1,\"b\":\"tw");
    CHECK(told.ends_with("content_block_delta content_block_stop message_delta message_stop "));
  }
}

TEST_CASE("blocks of a conversation become messages that templates know") {
  Served s;
  const Json messages = Json::parse(R"([
    {"role": "user", "content": [{"type": "text", "text": "Add"}, {"type": "text", "text": "1 and 2"}]},
    {"role": "assistant", "content": [
      {"type": "thinking", "thinking": "easy", "signature": "x"},
      {"type": "text", "text": "Let me."},
      {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1}}]},
    {"role": "user", "content": [
      {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "3"}]},
      {"type": "text", "text": "Thanks"}]}])");
  s.post("/v1/messages",
         question({{"messages", messages}, {"system", Json::parse(R"([{"type": "text", "text": "S"}])")}}));
  REQUIRE(s.backend.jobs.size() == 1);
  CHECK(prompt_of(s).ends_with(
      "[system] S\n[user] Add\n1 and 2\n[assistant] Let me.\n[tool] 3\n[user] Thanks\n[assistant] "));
}

TEST_CASE("tokens of a message are counted without computing anything") {
  Served s;
  const auto reply = s.post("/v1/messages/count_tokens", {{"messages", question()["messages"]}});
  REQUIRE(reply->response.status == 200);
  s.post("/v1/messages", question());
  CHECK(reply->json()["input_tokens"] == s.backend.jobs[0].request.prompt.size());
}

TEST_CASE("errors have Anthropic's form, before a message and within it") {
  for (const auto& [name, value] : std::vector<std::pair<std::string, Json>>{
           {"max_tokens", nullptr},
           {"max_tokens", "x"},
           {"messages", nullptr},
           {"messages", Json::array()},
           {"messages", Json::array({{{"role", "robot"}, {"content", "x"}}})},
           {"messages", Json::array({{{"role", "user"}, {"content", 1}}})},
           {"messages", Json::array({{{"role", "user"}, {"content", {{{"type", "image"}}}}}})},
           {"messages", Json::array({{{"role", "assistant"}, {"content", {{{"type", "tool_use"}}}}}})},
           {"messages", Json::array({{{"role", "user"}, {"content", "a"}}, {{"role", "assistant"}, {"content", "b"}}})},
           {"system", 1},
           {"tools", Json::array({{{"type", "web_search_20250305"}, {"name", "web_search"}}})},
           {"tool_choice", {{"type", "some"}}},
           {"tool_choice", {{"type", "any"}}},  // without tools
           {"thinking", {{"type", "much"}}},
           {"stop_sequences", 1},
           {"temperature", -1}}) {
    CAPTURE(name);
    CAPTURE(value.dump());
    Served s;
    const auto reply = s.post("/v1/messages", question({{name, value}}));
    CHECK(reply->response.status == 400);
    CHECK(reply->json()["type"] == "error");
    CHECK(reply->json()["error"]["type"] == "invalid_request_error");
    CHECK(reply->json()["error"]["message"].get<std::string>().starts_with(name));
    CHECK(s.backend.jobs.empty());
  }
  Served locked({.api_keys = {"secret"}});
  const auto refused = locked.post("/v1/messages", question());
  CHECK(refused->response.status == 401);
  CHECK(refused->json()["error"]["type"] == "authentication_error");
  Served s;
  const auto reply = s.post("/v1/messages", question({{"stream", true}}));
  s.backend.end(Finish::Failed, "[engine] no");
  REQUIRE(reply->ended);
  CHECK(reply->events().back().name == "error");
  CHECK(reply->events().back().data["error"] == Json{{"type", "api_error"}, {"message", "no"}});
}
