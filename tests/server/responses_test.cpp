// Responses in OpenAI's form: what the backend is asked for, and what the client gets.
#include "server/fixture.h"

using namespace smelt;
using smelt::test::Served;
using smelt::test::tiny_tokenizer;

namespace {

std::string prompt_of(Served& s) { return tiny_tokenizer().decode(s.backend.jobs.back().request.prompt); }

const Json kTools = Json::array({{{"type", "function"}, {"name", "add"}, {"parameters", {{"type", "object"}}}}});

}  // namespace

TEST_CASE("a response has items, a status and usage, and repeats what was asked") {
  Served s;
  const auto reply = s.post("/v1/responses", {{"input", "Hi"},
                                              {"instructions", "Be kind."},
                                              {"max_output_tokens", 9},
                                              {"temperature", 0.5},
                                              {"metadata", {{"a", "b"}}}});
  REQUIRE(s.backend.jobs.size() == 1);
  CHECK(prompt_of(s).ends_with("[system] Be kind.\n[user] Hi\n[assistant] "));
  CHECK(s.backend.jobs[0].request.max_tokens == 9);
  s.backend.write("Hello you");
  s.backend.end(Finish::Stop);
  REQUIRE(reply->ended);
  const Json json = reply->json();
  CHECK(json["object"] == "response");
  CHECK(json["status"] == "completed");
  CHECK(json["instructions"] == "Be kind.");
  CHECK(json["temperature"] == 0.5);
  CHECK(json["metadata"]["a"] == "b");
  REQUIRE(json["output"].size() == 1);
  CHECK(json["output"][0]["type"] == "message");
  CHECK(json["output"][0]["content"][0]["type"] == "output_text");
  CHECK(json["output"][0]["content"][0]["text"] == "Hello you");
  CHECK(json["usage"]["output_tokens"] == s.backend.written);
  CHECK(json["usage"]["input_tokens_details"]["cached_tokens"] == 3);
}

TEST_CASE("a response that was cut says so") {
  Served s;
  const auto reply = s.post("/v1/responses", {{"input", "Hi"}});
  s.backend.write("Hello");
  s.backend.end(Finish::Length);
  CHECK(reply->json()["status"] == "incomplete");
  CHECK(reply->json()["incomplete_details"]["reason"] == "max_output_tokens");
}

TEST_CASE("a stream of a response adds up to the response") {
  Served s;
  const auto reply = s.post(
      "/v1/responses",
      {{"input", "Hi"}, {"stream", true}, {"tools", kTools}, {"chat_template_kwargs", {{"enable_thinking", true}}}});
  s.backend.write("easy</think>Sure.<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1}}</tool_call>");
  s.backend.end(Finish::Stop);
  REQUIRE(reply->ended);
  std::string told, text, arguments;
  int64_t number = 0;
  Json items = Json::array();
  for (const StreamEvent& event : reply->events()) {
    CHECK(event.name == event.data["type"].get<std::string>());
    CHECK(event.data["sequence_number"] == number++);
    if (event.name == "response.output_item.added") told += event.data["item"]["type"].get<std::string>() + " ";
    if (event.name == "response.output_text.delta") text += event.data["delta"].get<std::string>();
    if (event.name == "response.function_call_arguments.delta") arguments += event.data["delta"].get<std::string>();
    if (event.name == "response.output_item.done") {
      CHECK(event.data["output_index"] == items.size());
      items.push_back(event.data["item"]);
    }
  }
  CHECK(told == "reasoning message function_call ");
  CHECK(text == "Sure.");
  CHECK(arguments == "{\"a\":1}");
  const StreamEvent last = reply->events().back();
  CHECK(last.name == "response.completed");
  CHECK(last.data["response"]["output"] == items);
}

TEST_CASE("a response that is cut within a call has an item that is incomplete") {
  Served s;
  const auto reply = s.post("/v1/responses", {{"input", "Hi"}, {"stream", true}, {"tools", kTools}});
  s.backend.write("<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1");
  s.backend.end(Finish::Length);
  const StreamEvent last = reply->events().back();
  CHECK(last.name == "response.incomplete");
  const Json item = last.data["response"]["output"].at(0);
  CHECK(item["status"] == "incomplete");
  CHECK(item["arguments"] == "{\"a\":1");
  CHECK(item["name"] == "add");
}

TEST_CASE("items of a conversation become messages that templates know") {
  Served s;
  const Json input = Json::parse(R"([
    {"role": "developer", "content": "Be kind."},
    {"role": "user", "content": [{"type": "input_text", "text": "Add 1"}]},
    {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "easy"}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me."}]},
    {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{\"a\": 1}"},
    {"type": "function_call_output", "call_id": "c1", "output": "2"}])");
  s.post("/v1/responses", {{"input", input}});
  REQUIRE(s.backend.jobs.size() == 1);
  CHECK(prompt_of(s).ends_with("[system] Be kind.\n[user] Add 1\n[assistant] Let me.\n[tool] 2\n[assistant] "));
}

TEST_CASE("a format of the text is a grammar") {
  Served s;
  const Json schema = {{"type", "object"}, {"properties", {{"a", {{"type", "integer"}}}}}};
  s.post("/v1/responses",
         {{"input", "Hi"}, {"text", {{"format", {{"type", "json_schema"}, {"name", "x"}, {"schema", schema}}}}}});
  REQUIRE(s.backend.jobs.size() == 1);
  CHECK(s.backend.jobs[0].request.grammar != nullptr);
  s.post("/v1/responses", {{"input", "Hi"}, {"text", {{"format", {{"type", "text"}}}}}});
  CHECK(s.backend.jobs[1].request.grammar == nullptr);
}

TEST_CASE("what a response cannot have is refused by name") {
  for (const auto& [name, value] : std::vector<std::pair<std::string, Json>>{
           {"input", nullptr},
           {"input", 1},
           {"input", Json::array()},
           {"input", Json::array({{{"type", "item_reference"}, {"id", "x"}}})},
           {"input", Json::array({{{"role", "user"}, {"content", {{{"type", "input_image"}}}}}})},
           {"instructions", 1},
           {"previous_response_id", "resp_1"},
           {"conversation", "conv_1"},
           {"background", true},
           {"truncation", "auto"},
           {"max_output_tokens", 0},
           {"tools", Json::array({{{"type", "web_search"}}})},
           {"tool_choice", "some"},
           {"reasoning", 1},
           {"text", {{"format", {{"type", "xml"}}}}}}) {
    CAPTURE(name);
    CAPTURE(value.dump());
    Served s;
    Json body = {{"input", "Hi"}};
    body[name] = value;
    const auto reply = s.post("/v1/responses", body);
    CHECK(reply->response.status == 400);
    CHECK(reply->json()["error"]["param"] == name);
    CHECK(s.backend.jobs.empty());
  }
  Served s;
  const auto reply = s.post("/v1/responses", {{"input", "Hi"}, {"stream", true}});
  s.backend.end(Finish::Failed, "[engine] no");
  CHECK(reply->events().back().name == "error");
  CHECK(reply->events().back().data["error"]["message"] == "no");
}
