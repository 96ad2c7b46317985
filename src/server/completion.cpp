#include "server/completion.h"

#include "server/settings.h"
#include "server/stop_text.h"

namespace smelt {
namespace {

constexpr int64_t kUsualTokens = 16;  // as OpenAI has it

class TextAnswer : public Answer {
 public:
  TextAnswer(const ServedModel& model, const Settings& settings, const Stamp& stamp)
      : stamp_(stamp),
        model_(model.name()),
        with_usage_(settings.stream_usage),
        decoder_(model.tokenizer(), true),
        stop_(settings.stops) {}

  std::vector<Json> take(std::span<const int32_t> tokens) override {
    std::string news;
    for (int32_t token : tokens) news += stop_.push(decoder_.push(token));
    return chunks_of(news);
  }

  std::vector<Json> finish(const GenerationEnd& end) override {
    end_ = end;
    std::vector<Json> chunks = chunks_of(stop_.push(decoder_.flush()) + stop_.finish());
    Json last = choice("", finish_reason());
    last["timings"] = timings_of(end_);
    chunks.push_back(std::move(last));
    if (!with_usage_) return chunks;
    Json usage = object();
    usage["choices"] = Json::array();
    usage["usage"] = usage_of(end_);
    chunks.push_back(std::move(usage));
    return chunks;
  }

  Json whole() const override {
    Json all = choice(text_, finish_reason());
    all["usage"] = usage_of(end_);
    all["timings"] = timings_of(end_);
    return all;
  }

  bool is_complete() const override { return !stop_.found().empty(); }

 private:
  Json object() const {
    return {{"id", "cmpl-" + stamp_.id}, {"object", "text_completion"}, {"created", stamp_.created}, {"model", model_}};
  }

  Json choice(const std::string& text, Json finish_reason) const {
    Json json = object();
    json["choices"] =
        Json::array({{{"index", 0}, {"text", text}, {"logprobs", nullptr}, {"finish_reason", finish_reason}}});
    return json;
  }

  std::vector<Json> chunks_of(const std::string& news) {
    text_ += news;
    if (news.empty()) return {};
    return {choice(news, nullptr)};
  }

  const char* finish_reason() const { return end_.reason == Finish::Length ? "length" : "stop"; }

  Stamp stamp_;
  std::string model_;
  bool with_usage_;
  StreamDecoder decoder_;
  StopText stop_;
  std::string text_;
  GenerationEnd end_;
};

std::optional<ApiError> read_prompt(const Json& body, const ServedModel& model, std::vector<int32_t>& ids) {
  const ApiError wrong{.message = "prompt: expected a string, or a list of token ids", .param = "prompt"};
  Json prompt = body.value("prompt", Json());
  if (prompt.is_array() && prompt.size() == 1 && !prompt[0].is_number()) prompt = Json(prompt[0]);
  if (prompt.is_array()) return read_ids("prompt", prompt, model, ids);
  if (!prompt.is_string()) return wrong;
  ids = model.tokenizer().encode(prompt.get_ref<const std::string&>());
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
                                        ApiRequest& request) {
  Fields fields(body);
  const Settings settings = read_settings(fields, model, kUsualTokens);
  fields.refuse("echo", false, "put the prompt in front yourself");
  fields.refuse("suffix", "", "leave it out");
  if (fields.problem()) return fields.problem();
  std::vector<int32_t> prompt;
  if (auto problem = read_prompt(body, model, prompt)) return problem;
  request.generation = {.prompt = std::move(prompt),
                        .sampler = settings.sampler,
                        .max_tokens = settings.max_tokens,
                        .stops = model.tokenizer().stop_tokens(),
                        .grammar = settings.grammar};
  request.stream = settings.stream;
  request.answer = std::make_unique<TextAnswer>(model, settings, stamp);
  return check_prompt(request.generation.prompt, model);
}

}  // namespace smelt
