// Texts that are gone on with, in OpenAI's form.
#include "server/fixture.h"

using namespace smelt;
using smelt::test::Served;
using smelt::test::tiny_tokenizer;

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
  for (const Json& wrong : {Json(), Json(1), Json{-1}, Json{1e9}, Json::array({"a", 1}), Json::parse("[[[1]]]"),
                            Json::parse("[[]]"), Json::array(), Json::object()}) {
    CAPTURE(wrong.dump());
    CHECK(s.post("/v1/completions", {{"prompt", wrong}})->response.status == 400);
  }
  CHECK(s.backend.jobs.size() == 2);
}

TEST_CASE("several prompts have texts of their own, and logprobs in the form of texts") {
  Served s;
  const auto reply = s.post("/v1/completions", {{"prompt", {"One", "Two"}}, {"n", 2}, {"logprobs", 1}, {"seed", 1}});
  REQUIRE(s.backend.jobs.size() == 4);
  CHECK(s.backend.jobs[1].request.prompt == s.backend.jobs[0].request.prompt);
  CHECK(s.backend.jobs[2].request.prompt == tiny_tokenizer().encode("Two"));
  for (size_t i = 0; i < 4; ++i) {
    s.backend.write(" a b", i);
    s.backend.end(Finish::Length, "", i);
  }
  const Json json = reply->json();
  REQUIRE(json["choices"].size() == 4);
  CHECK(json["choices"][3]["index"] == 3);
  CHECK(json["choices"][3]["text"] == " a b");
  CHECK(json["usage"]["prompt_tokens"] ==
        s.backend.jobs[0].request.prompt.size() + s.backend.jobs[2].request.prompt.size());
  const Json& logprobs = json["choices"][0]["logprobs"];
  CHECK(logprobs["tokens"][0] == " a");
  CHECK(logprobs["token_logprobs"][0] == -0.5);
  CHECK(logprobs["text_offset"] == Json::array({0, 2}));
  CHECK(logprobs["top_logprobs"][1].size() == 2);
  s.backend.limit = 1000;
  CHECK(s.post("/v1/completions", {{"prompt", "x"}, {"n", 128}})->response.status == 200);
  CHECK(s.post("/v1/completions", {{"prompt", {"x", "y"}}, {"n", 65}})->response.status == 400);
}
