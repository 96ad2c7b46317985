// `smelt chat` and `smelt template` from outside, with the embedded model.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "app/process.h"

using namespace smelt::test;

namespace {

using Arguments = std::vector<std::string>;

std::string file_with(const std::string& name, const std::string& text) {
  const std::string path = scratch().file(name);
  std::ofstream(path) << text;
  return path;
}

Outcome chat(Arguments more, const RunOptions& options = {}) {
  Arguments arguments = {"chat", "--temp", "0", "--activations", "f32", "--cache-type", "f32", "-n", "8"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return smelt::test::smelt(on_one_thread(arguments), options);
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("one question has one answer, through the template that was asked for") {
  const std::string bare = file_with("bare.jinja", "{{ messages[0].content }}");
  const Outcome run = chat({"--chat-template-file", bare, "Once"});
  CHECK(run.exit_code == 0);
  CHECK(run.out.starts_with(" upon a time, there was"));
  CHECK(run.out.ends_with("\n"));
}

TEST_CASE("files and pipes come before the question") {
  const std::string notes = file_with("notes.txt", "Notes.\n");
  const std::string echo = file_with("echo.jinja", "{{ raise_exception(messages | tojson) }}");
  const Outcome run = chat({"-f", notes, "--chat-template-file", echo, "--system", "S", "Why?"}, {.input = "piped"});
  CHECK(run.exit_code == 1);
  CHECK(contains(run.err, "Notes."));
  CHECK(run.err.find("Notes.") < run.err.find("piped"));
  CHECK(run.err.find("piped") < run.err.find("Why?"));
  CHECK(contains(run.err, "system"));
}

TEST_CASE("nothing to answer is a wrong command line") { CHECK(chat({}).exit_code == 2); }

TEST_CASE("a template shows text and ids, and what a user typed stays text") {
  const std::string turns =
      file_with("turns.jinja", "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}");
  const Outcome text = smelt::test::smelt({"template", "--chat-template-file", turns, "Hi"});
  CHECK(text.exit_code == 0);
  CHECK(text.out == "[user]Hi\n");
  const Outcome json =
      smelt::test::smelt({"template", "--chat-template-file", turns, "--json"},
                         {.input = R"({"messages": [{"role": "user", "content": "a"}], "tools": []})"});
  REQUIRE(json.exit_code == 0);
  const auto answer = nlohmann::json::parse(json.out);
  CHECK(answer["prompt"] == "[user]a");
  CHECK(answer["ids"].size() > 0);
  CHECK(smelt::test::smelt({"template", "-f", file_with("bad.json", "{")}).exit_code == 1);
}

TEST_CASE("a saved conversation goes on with its messages, tools and variables") {
  const std::string saved = file_with("saved.json", R"({"messages": [{"role": "user", "content": "before"}],
    "tools": [{"name": "now"}], "chat_template_kwargs": {"mood": "calm"}, "temperature": 0.25})");
  const std::string echo =
      file_with("all.jinja", "{{ raise_exception(mood + (messages | tojson) + (tools | tojson)) }}");
  const Outcome run = chat({"--load", saved, "--chat-template-file", echo, "Why?"});
  CHECK(run.exit_code == 1);
  CHECK(contains(run.err, "calm"));
  CHECK(run.err.find("before") < run.err.find("Why?"));
  CHECK(contains(run.err, "now"));
  CHECK(contains(chat({"--load", file_with("none.json", "{}"), "Why?"}).err, "it has no list of messages"));
  CHECK(contains(chat({"--load", file_with("odd.json", "[7]"), "Why?"}).err, "a message has no role"));
  const std::string calls = R"([{"role": "assistant", "tool_calls": [{}]}])";
  CHECK(contains(chat({"--load", file_with("calls.json", calls), "Why?"}).err, "no list of objects with the name of"));
  const std::string hot = R"({"messages": [], "top_k": 1e300})";
  CHECK(
      contains(chat({"--load", file_with("hot.json", hot), "Why?"}).err, "top_k is 1e+300, which is no value for it"));
}

TEST_CASE("a conversation is kept with its cache and goes on from disk; a cache that cannot serve is computed anew") {
  const std::string saved = scratch().file("talk.json"), cache = saved + ".cache";
  const Outcome first = chat({"--save", saved, "Once upon"});
  REQUIRE(first.exit_code == 0);
  CHECK(std::filesystem::file_size(cache) > 1000);
  const Outcome second = chat({"--load", saved, "--save", saved, "a time"});
  CHECK(second.exit_code == 0);
  CHECK(second.err == first.err);  // nothing, or what this processor lacks
  const auto kept = nlohmann::json::parse(std::ifstream(saved));
  REQUIRE(kept["messages"].size() == 4);
  CHECK(second.out == kept["messages"][3]["content"].get<std::string>() + "\n");  // the new answer alone
  CHECK(contains(first.out, kept["messages"][1]["content"].get<std::string>()));
  std::filesystem::resize_file(cache, std::filesystem::file_size(cache) - 1);
  const Outcome anew = chat({"--load", saved, "Why?"});
  CHECK(anew.exit_code == 0);
  CHECK(contains(anew.err, "talk.json.cache: it is too short; what was said is computed anew"));
  const Outcome nowhere = chat({"--save", scratch().file("no/folder/talk.json"), "Why?"});
  CHECK(nowhere.exit_code == 1);
  CHECK(nowhere.out.empty());
}
