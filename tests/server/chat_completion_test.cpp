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

TEST_CASE("n answers come side by side, each with its index and seed") {
  for (bool stream : {false, true}) {
    Served s;
    const auto reply =
        s.chat({{"n", 2}, {"seed", 7}, {"stream", stream}, {"stream_options", {{"include_usage", true}}}});
    REQUIRE(s.backend.jobs.size() == 2);
    CHECK(s.backend.jobs[0].request.sampler.seed == 7);
    CHECK(s.backend.jobs[1].request.sampler.seed == 8);
    s.backend.write("one", 0);
    s.backend.write("two", 1);
    s.backend.end(Finish::Length, "", 1);
    CHECK_FALSE(reply->ended);
    s.backend.end(Finish::Stop, "", 0);
    REQUIRE(reply->ended);
    std::string content[2], reason[2];
    Json usage;
    if (stream) {
      for (const Json& chunk : reply->chunks()) {
        for (const Json& choice : chunk["choices"]) {
          content[choice["index"].get<int>()] += choice["delta"].value("content", "");
          if (choice["finish_reason"].is_string()) reason[choice["index"].get<int>()] = choice["finish_reason"];
        }
        usage = chunk.value("usage", Json());
      }
    } else {
      for (int i : {0, 1}) {
        const Json choice = reply->json()["choices"][i];
        CHECK(choice["index"] == i);
        content[i] = choice["message"]["content"];
        reason[i] = choice["finish_reason"];
      }
      usage = reply->json()["usage"];
    }
    CHECK(content[0] == "one");
    CHECK(content[1] == "two");
    CHECK(reason[0] == "stop");
    CHECK(reason[1] == "length");
    CHECK(usage["prompt_tokens"] == s.backend.jobs[0].request.prompt.size());
  }
}

TEST_CASE("where one of n answers fails, or does not fit the queue, the others end") {
  Served s;
  const auto reply = s.chat({{"n", 3}});
  s.backend.end(Finish::Failed, "[sampler] no", 1);
  CHECK(reply->response.status == 500);
  CHECK(s.backend.jobs[0].cancelled);
  CHECK(s.backend.jobs[2].cancelled);
  s.backend.end(Finish::Cancelled, "", 0);
  s.backend.end(Finish::Cancelled, "", 2);
  Served full;
  full.backend.limit = 2;
  CHECK(full.chat({{"n", 3}})->response.status == 429);
  CHECK(full.backend.jobs[0].cancelled);
  CHECK(full.backend.jobs[1].cancelled);
  full.backend.end(Finish::Cancelled, "", 0);
  full.backend.end(Finish::Cancelled, "", 1);
}

TEST_CASE("logprobs come with the text that they are of") {
  for (bool stream : {false, true}) {
    Served s;
    const auto reply =
        s.chat({{"logprobs", true}, {"top_logprobs", 2}, {"stream", stream}, {"stop", Json::array({"STOP"})}});
    CHECK(s.backend.jobs[0].request.top_logprobs == 2);
    s.backend.write("Hello");
    s.backend.write(" you");
    s.backend.end(Finish::Stop);
    Json all = Json::array();
    if (stream) {
      for (const Json& chunk : reply->chunks())
        if (const Json& choice = chunk["choices"][0]; choice.contains("logprobs"))
          for (const Json& one : choice["logprobs"]["content"]) all.push_back(one);
    } else {
      all = reply->json()["choices"][0]["logprobs"]["content"];
    }
    REQUIRE(all.size() == static_cast<size_t>(s.backend.written));
    std::string text;
    for (const Json& one : all) text += one["token"].get<std::string>();
    CHECK(text == "Hello you");
    CHECK(all[0]["logprob"] == -0.5);
    CHECK(all[0]["bytes"][0] == 'H');
    CHECK(all[0]["top_logprobs"].size() == 2);
  }
  Served s;
  const auto reply = s.chat({{"logprobs", true}, {"stop", Json::array({"STOP"})}});
  CHECK(s.backend.jobs[0].request.top_logprobs == 0);
  s.backend.write("one ");
  s.backend.write("STOP");
  s.backend.end(Finish::Cancelled);
  const Json stopped = reply->json();
  std::string text;
  for (const Json& one : stopped["choices"][0]["logprobs"]["content"]) text += one["token"].get<std::string>();
  CHECK(text == "one ");
  CHECK(s.chat()->response.status == 200);
  CHECK(s.backend.jobs[1].request.top_logprobs == -1);
}

TEST_CASE("the samplers have the names that OpenAI and llama.cpp gave them") {
  Served s;
  s.chat({{"presence_penalty", 0.5},
          {"frequency_penalty", -0.25},
          {"typical_p", 0.75},
          {"dynatemp_range", 0.5},
          {"dynatemp_exponent", 2},
          {"xtc_probability", 0.5},
          {"xtc_threshold", 0.25},
          {"dry_multiplier", 0.5},
          {"dry_base", 2},
          {"dry_allowed_length", 3},
          {"dry_penalty_last_n", 64},
          {"logit_bias", {{"5", 1.5}, {"6", -100}}},
          {"ignore_eos", true}});
  REQUIRE(s.backend.jobs.size() == 1);
  const SamplerOptions& o = s.backend.jobs[0].request.sampler;
  CHECK(o.presence_penalty == 0.5f);
  CHECK(o.frequency_penalty == -0.25f);
  CHECK(o.typical_p == 0.75f);
  CHECK(o.temperature_range == 0.5f);
  CHECK(o.temperature_exponent == 2);
  CHECK(o.xtc_probability == 0.5f);
  CHECK(o.xtc_threshold == 0.25f);
  CHECK(o.dry.multiplier == 0.5f);
  CHECK(o.dry.base == 2);
  CHECK(o.dry.allowed_length == 3);
  CHECK(o.dry.last_n == 64);
  for (int32_t token : o.dry.breaks)
    CHECK(tiny_tokenizer().piece(token).find_first_of("\n:\"*") != std::string_view::npos);
  CHECK_FALSE(o.dry.breaks.empty());
  REQUIRE(o.bias.size() == 2);
  CHECK(o.bias[0].token == 5);
  CHECK(o.bias[1].bias == -100);
  CHECK(o.banned == served_model().stops());

  s.chat({{"logit_bias", Json::parse(R"([[5, false], ["Once", 2]])")},
          {"dry_multiplier", 1},
          {"dry_sequence_breakers", Json::array({"q"})}});
  const SamplerOptions& second = s.backend.jobs[1].request.sampler;
  CHECK(second.banned == std::vector<int32_t>{5});
  CHECK(second.bias.size() == tiny_tokenizer().encode("Once", false, false).size());
  for (int32_t token : second.dry.breaks) CHECK(tiny_tokenizer().piece(token).find('q') != std::string_view::npos);
}

TEST_CASE("what a request does not say is as the server was told, and what it says is as it says") {
  ServedModel model = smelt::test::new_model();
  model.use_length(7);
  model.use_variables({{"enable_thinking", true}, {"other", 1}});
  Served s(model);
  const auto asked = [&](const std::string& path, Json body) {
    s.post(path, body);
    return s.backend.jobs.back().request;
  };
  const Json messages = Json::array({{{"role", "user"}, {"content", "Hi"}}});
  const auto thinks = [](const GenerationRequest& request) {
    return tiny_tokenizer().decode(request.prompt).ends_with("<think>");
  };
  const GenerationRequest usual = asked("/v1/chat/completions", {{"messages", messages}});
  CHECK(usual.max_tokens == 7);
  CHECK(thinks(usual));
  const Json says = {{"messages", messages}, {"max_tokens", 3}, {"chat_template_kwargs", {{"enable_thinking", false}}}};
  const GenerationRequest said = asked("/v1/chat/completions", says);
  CHECK(said.max_tokens == 3);
  CHECK(!thinks(said));
  CHECK(asked("/v1/completions", {{"prompt", "Hi"}}).max_tokens == 7);
  CHECK(asked("/v1/responses", {{"input", "Hi"}}).max_tokens == 7);
  CHECK(asked("/v1/responses", {{"input", "Hi"}, {"max_output_tokens", 3}}).max_tokens == 3);
  CHECK(thinks(asked("/v1/messages", {{"messages", messages}, {"max_tokens", 2}})));
  CHECK(s.post("/apply-template", {{"messages", messages}})->json()["prompt"].get<std::string>().ends_with("<think>"));
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
           {"n", 129},
           {"n", 0},
           {"logprobs", 1},
           {"top_logprobs", 3},
           {"top_logprobs", 21},
           {"logit_bias", 1},
           {"logit_bias", {{"1", "2"}}},
           {"logit_bias", {{"1", 1e300}}},
           {"logit_bias", {{"99999999", 2}}},
           {"logit_bias", Json::array({1})},
           {"presence_penalty", "0.5"},
           {"frequency_penalty", 101},
           {"dry_multiplier", -1},
           {"dry_base", 0.5},
           {"dry_sequence_breakers", 1},
           {"mirostat", 2},
           {"samplers", Json::array({"top_k"})},
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

TEST_CASE("a prompt that is certainly too long is not even made into tokens") {
  Served s;
  const std::string fits(served_model().longest_text() - 100, 'a'), too_long(served_model().longest_text() + 1, 'a');
  const auto message = [&](const std::string& text) {
    const Json json = s.chat({{"messages", Json::array({{{"role", "user"}, {"content", text}}})}})->json();
    CHECK(json["error"]["code"] == "context_length_exceeded");
    return json["error"]["message"].get<std::string>();
  };
  CHECK(message(fits).find("has more than") == std::string::npos);
  CHECK(message(too_long).starts_with("the prompt has more than 256 tokens, and the context of this server has 256"));
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
