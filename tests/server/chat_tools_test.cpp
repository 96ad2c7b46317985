// Calls of tools in chats in OpenAI's form: how they come to the client, and what holds the model to them.
#include "server/fixture.h"

using namespace smelt;
using smelt::test::Served;
using smelt::test::tiny_tokenizer;

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
      Json call = Json::object();
      std::string arguments;
      for (const Json& chunk : reply->chunks()) {
        const Json& choice = chunk["choices"][0];
        for (const auto& [key, value] : choice["delta"].items())
          if (value.is_string()) message[key] = message.value(key, "") + value.get<std::string>();
        for (const Json& part : choice["delta"].value("tool_calls", Json::array())) {
          CHECK(part["index"] == 0);
          if (part.contains("id")) call = part;
          arguments += part["function"]["arguments"].get<std::string>();
        }
        if (choice["finish_reason"].is_string()) reason = choice["finish_reason"];
      }
      call["function"]["arguments"] = arguments;
      message["tool_calls"] = Json::array({call});
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

TEST_CASE("arguments of calls come as they are written, and calls one after another") {
  const Json tools = Json::array({{{"type", "function"}, {"function", {{"name", "add"}}}}});
  Served s;
  const auto reply = s.chat({{"tools", tools}, {"stream", true}});
  const auto arguments = [&](int64_t index) {
    std::string all;
    for (const Json& chunk : reply->chunks())
      for (const Json& part : chunk["choices"][0]["delta"].value("tool_calls", Json::array()))
        if (part["index"] == index) all += part["function"]["arguments"].get<std::string>();
    return all;
  };
  s.backend.write("<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": \"one t");
  CHECK(arguments(0) == "{\"a\":\"one t");
  s.backend.write("wo\"}}</tool_call><tool_call>{\"name\": \"add\", \"arguments\": {\"b\": [1");
  CHECK(arguments(0) == "{\"a\":\"one two\"}");
  CHECK(arguments(1) == "{\"b\":[1");
  s.backend.write("]}}</tool_call>");
  s.backend.end(Finish::Stop);
  CHECK(arguments(1) == "{\"b\":[1]}");
  CHECK(reply->chunks().back()["choices"][0]["finish_reason"] == "tool_calls");
}

TEST_CASE("an answer that is cut within a call says so") {
  const Json tools = Json::array({{{"type", "function"}, {"function", {{"name", "add"}}}}});
  Served s;
  const auto reply = s.chat({{"tools", tools}});
  s.backend.write("<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b");
  s.backend.end(Finish::Length);
  const Json choice = reply->json()["choices"][0];
  CHECK(choice["finish_reason"] == "length");
  CHECK(choice["message"]["tool_calls"][0]["function"]["arguments"] == "{\"a\":1,\"b");
}

TEST_CASE("tool_choice none keeps the tools from the model") {
  Served s;
  const Json tools = Json::array({{{"type", "function"}, {"function", {{"name", "add"}}}}});
  s.chat({{"tools", tools}, {"tool_choice", "none"}});
  REQUIRE(s.backend.jobs.size() == 1);
  const auto without = s.backend.jobs[0].request.prompt;
  s.chat();
  CHECK(s.backend.jobs[1].request.prompt == without);
}

TEST_CASE("tools are held to a grammar of the model's calls, which tool_choice makes stricter") {
  const Json tools = Json::array({{{"type", "function"}, {"function", {{"name", "add"}}}}});
  const Json named = {{"type", "function"}, {"function", {{"name", "add"}}}};
  Served s;
  const auto grammar_for = [&](const Json& more) {
    const auto reply = s.chat(more);
    REQUIRE_MESSAGE(reply->response.status == 200, reply->response.body);
    return s.backend.jobs.back().request.grammar;
  };
  const auto free = grammar_for({{"tools", tools}});
  CHECK(free != nullptr);
  CHECK(grammar_for({{"tools", tools}, {"tool_choice", "auto"}}) == free);  // made once
  CHECK(grammar_for({{"tools", tools}, {"tool_choice", "none"}}) == nullptr);
  const auto may_begin = [](const std::shared_ptr<const TokenMasks>& grammar, const std::string& text) {
    Constraint constraint(grammar);
    return constraint.accept(std::string_view(text)).ok();
  };
  CHECK(may_begin(free, "Hello"));
  CHECK(may_begin(free, "<tool_call>{\"name\": \"add\""));
  for (const Json& choice : {Json("required"), named}) {
    const auto held = grammar_for({{"tools", tools}, {"tool_choice", choice}});
    REQUIRE(held != nullptr);
    CHECK_FALSE(may_begin(held, "Hello"));
    CHECK(may_begin(held, "<tool_call>{\"name\": \"add\""));
  }
  const std::string call = "<tool_call>\n{\"name\": \"add\", \"arguments\": {}}\n</tool_call>";
  CHECK(may_begin(free, call + "\n" + call));
  CHECK_FALSE(may_begin(grammar_for({{"tools", tools}, {"parallel_tool_calls", false}}), call + "\n" + call));
}

TEST_CASE("with a schema beside tools an answer is calls or what the schema says") {
  const Json tools = Json::array({{{"type", "function"}, {"function", {{"name", "add"}}}}});
  const Json schema = {{"type", "object"}, {"properties", {{"n", {{"type", "integer"}}}}}, {"required", {"n"}}};
  const Json format = {{"type", "json_schema"}, {"json_schema", {{"name", "x"}, {"schema", schema}}}};
  const std::string call = "<tool_call>\n{\"name\": \"add\", \"arguments\": {}}\n</tool_call>";
  for (bool thinks : {false, true}) {
    Served s;
    s.chat({{"tools", tools}, {"response_format", format}, {"chat_template_kwargs", {{"enable_thinking", thinks}}}});
    REQUIRE(s.backend.jobs.size() == 1);
    const GenerationRequest& request = s.backend.jobs[0].request;
    CHECK(request.grammar_after.empty());
    const auto has = [&](const std::string& text) {
      Constraint constraint(request.grammar);
      return constraint.accept(std::string_view((thinks ? "why</think>" : "") + text)) && constraint.can_end();
    };
    CHECK(has("{\"n\": 7}"));
    CHECK(has(call));
    CHECK_FALSE(has("{\"n\": \"7\"}"));
    CHECK_FALSE(has("Hello"));
    CHECK_FALSE(has("{\"n\": 7}" + call));
  }
}

TEST_CASE("a tool_choice that makes no sense is refused by name") {
  const Json tools = Json::array({{{"type", "function"}, {"function", {{"name", "add"}}}}});
  for (const auto& [name, more] : std::vector<std::pair<std::string, Json>>{
           {"tool_choice", {{"tool_choice", {{"type", "function"}, {"function", {{"name", "other"}}}}}}},
           {"tool_choice", {{"tool_choice", "any"}}},
           {"tool_choice", {{"tool_choice", 1}}},
           {"tool_choice", {{"tool_choice", "required"}, {"tools", Json::array()}}},
           {"parallel_tool_calls", {{"parallel_tool_calls", "no"}}},
           {"tools", {{"grammar", "root ::= \"a\""}}}}) {
    CAPTURE(more.dump());
    Served s;
    Json body = {{"tools", tools}};
    body.update(more);
    const auto reply = s.chat(body);
    CHECK(reply->response.status == 400);
    CHECK(reply->json()["error"]["param"] == name);
    CHECK(s.backend.jobs.empty());
  }
}
