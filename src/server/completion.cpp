#include "server/completion.h"

#include "server/chunk_text.h"
#include "server/logprobs_json.h"
#include "server/settings.h"
#include "server/stop_text.h"

namespace smelt {
namespace {

constexpr int64_t kUsualTokens = 16;  // as OpenAI has it
constexpr size_t kMostPrompts = 128;

struct Text {
  StreamDecoder decoder;
  StopText stop;
  std::string text = {};
  GenerationEnd end = {};
  // Given out; of text that can be; of text that a stop string may cut away.
  std::vector<Logprobs> logprobs = {}, ready = {}, held = {};
  std::optional<ChunkText> chunk = {};  // of those that have a text and no logprobs

  void release() {
    ready.insert(ready.end(), held.begin(), held.end());
    held.clear();
  }
};

class TextAnswer : public Answer {
 public:
  // `count`: texts for each prompt, which come one behind another.
  TextAnswer(const ServedModel& model, const Settings& settings, size_t prompts, size_t count, const Stamp& stamp)
      : stamp_(stamp),
        model_(model),
        with_usage_(settings.stream_usage),
        with_logprobs_(settings.generation.top_logprobs >= 0),
        count_(count) {
    for (size_t i = 0; i < prompts * count; ++i)
      texts_.push_back({StreamDecoder(model.tokenizer(), true), StopText(settings.stops)});
  }

  StreamEvents take(size_t number, const GenerationEvent& news) override {
    Text& text = texts_[number];
    text.held.insert(text.held.end(), news.logprobs.begin(), news.logprobs.end());
    std::string more;
    for (int32_t token : news.tokens) more += text.stop.push(text.decoder.push(token));
    if (!text.stop.holds_back()) text.release();
    if (more.empty()) return {};
    if (with_logprobs_) return {{.data = chunk(number, more)}};
    if (!text.chunk) text.chunk.emplace(chunk_json(number, ChunkText::kMark, nullptr, nullptr));
    text.text += more;
    return {{.text = text.chunk->with(more)}};
  }

  StreamEvents finish(size_t number, const GenerationEnd& end) override {
    Text& text = texts_[number];
    text.end = end;
    if (text.stop.found().empty()) text.release();
    const std::string rest = text.stop.push(text.decoder.flush()) + text.stop.finish();
    Json last = chunk(number, rest, finish_reason(text));
    last["timings"] = timings_of(end);
    return {{.data = std::move(last)}};
  }

  StreamEvents finish_all() override {
    if (!with_usage_) return {};
    Json usage = object();
    usage["choices"] = Json::array();
    usage["usage"] = json_of(usage_of_all());
    return {{.data = std::move(usage)}};
  }

  Json whole() const override {
    Json all = object();
    all["choices"] = Json::array();
    for (size_t i = 0; i < texts_.size(); ++i)
      all["choices"].push_back(
          choice(i, texts_[i].text, logprobs_json(texts_[i].logprobs, 0), finish_reason(texts_[i])));
    all["usage"] = json_of(usage_of_all());
    if (texts_.size() == 1) all["timings"] = timings_of(texts_[0].end);
    return all;
  }

  bool is_complete(size_t number) const override { return !texts_[number].stop.found().empty(); }

 private:
  Json object() const {
    return {{"id", "cmpl-" + stamp_.id},
            {"object", "text_completion"},
            {"created", stamp_.created},
            {"model", model_.name()}};
  }

  static Json choice(size_t number, const std::string& text, Json logprobs, Json finish_reason) {
    return {{"index", number}, {"text", text}, {"logprobs", std::move(logprobs)}, {"finish_reason", finish_reason}};
  }

  Json logprobs_json(std::span<const Logprobs> logprobs, size_t offset) const {
    return with_logprobs_ ? legacy_json_of(logprobs, model_.tokenizer(), offset) : Json();
  }

  Json chunk_json(size_t number, const std::string& more, Json logprobs, Json finish_reason) const {
    Json json = object();
    json["choices"] = Json::array({choice(number, more, std::move(logprobs), std::move(finish_reason))});
    return json;
  }

  // More of a text, with the logprobs of what has become clear since the chunk before.
  Json chunk(size_t number, const std::string& more, Json finish_reason = nullptr) {
    Text& text = texts_[number];
    const std::vector<Logprobs> now = std::exchange(text.ready, {});
    Json json = chunk_json(number, more, logprobs_json(now, text.text.size()), std::move(finish_reason));
    text.text += more;
    text.logprobs.insert(text.logprobs.end(), now.begin(), now.end());
    return json;
  }

  static const char* finish_reason(const Text& text) { return text.end.reason == Finish::Length ? "length" : "stop"; }

  Usage usage_of_all() const {
    Usage usage;
    for (size_t i = 0; i < texts_.size(); ++i) {
      usage.tokens += texts_[i].end.tokens;
      if (i % count_ != 0) continue;
      usage.prompt_tokens += texts_[i].end.prompt_tokens;
      usage.cached_tokens += texts_[i].end.cached_tokens;
    }
    return usage;
  }

  Stamp stamp_;
  const ServedModel& model_;
  bool with_usage_, with_logprobs_;
  size_t count_;
  std::vector<Text> texts_;
};

using Prompts = std::vector<std::vector<int32_t>>;

// A text, a list of token ids, or a list of such.
std::optional<ApiError> read_prompts(const Json& prompt, const ServedModel& model, Prompts& prompts) {
  if (prompt.is_string()) {
    const auto& text = prompt.get_ref<const std::string&>();
    if (auto problem = check_text(text, model)) return problem;
    prompts.push_back(model.tokenizer().encode(text));
    return std::nullopt;
  }
  const bool is_list = prompt.is_array() && !prompt.empty();
  if (is_list && prompt[0].is_number()) return read_ids("prompt", prompt, model, prompts.emplace_back());
  if (!is_list || prompt.size() > kMostPrompts)
    return ApiError{.message = "prompt: expected a string, a list of token ids, or a list of up to " +
                               std::to_string(kMostPrompts) + " of them",
                    .param = "prompt"};
  for (const Json& one : prompt) {
    if (one.is_array() && (one.empty() || !one[0].is_number()))
      return ApiError{.message = "prompt: a list in it has no token ids", .param = "prompt"};
    if (auto problem = read_prompts(one, model, prompts)) return problem;
  }
  return std::nullopt;
}

}  // namespace

std::optional<ApiError> read_ids(const char* name, const Json& list, const ServedModel& model,
                                 std::vector<int32_t>& ids) {
  const ApiError wrong{.message = std::string(name) + ": expected a list of token ids from 0 to " +
                                  std::to_string(model.tokenizer().size() - 1),
                       .param = name};
  if (!list.is_array()) return wrong;
  for (const Json& id : list) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= static_cast<uint64_t>(model.tokenizer().size())) return wrong;
    ids.push_back(id.get<int32_t>());
  }
  return std::nullopt;
}

std::optional<ApiError> read_completion(const Json& body, const ServedModel& model, const Stamp& stamp,
                                        ApiRequest& understood) {
  Fields fields(body);
  Settings settings = read_settings(fields, model, model.usual_length(kUsualTokens));
  settings.generation.top_logprobs = static_cast<int32_t>(fields.whole("logprobs", 0, kMostLogprobs, -1));
  settings.generation.stops = model.tokenizer().stop_tokens();
  const int64_t count = read_answer_count(fields);
  fields.refuse("echo", false, "put the prompt in front yourself");
  fields.refuse("suffix", "", "leave it out");
  if (fields.problem()) return fields.problem();
  Prompts prompts;
  if (auto problem = read_prompts(body.value("prompt", Json()), model, prompts)) return problem;
  if (static_cast<int64_t>(prompts.size()) * count > static_cast<int64_t>(kMostPrompts))
    return ApiError{.message = "n: more than " + std::to_string(kMostPrompts) + " texts in all", .param = "n"};
  for (std::vector<int32_t>& prompt : prompts) {
    if (auto problem = check_prompt(prompt, model)) return problem;
    settings.generation.prompt = std::move(prompt);
    for (GenerationRequest& one : repeated(settings.generation, count))
      understood.generations.push_back(std::move(one));
  }
  understood.stream = settings.stream;
  understood.answer = std::make_unique<TextAnswer>(model, settings, prompts.size(), static_cast<size_t>(count), stamp);
  return std::nullopt;
}

}  // namespace smelt
