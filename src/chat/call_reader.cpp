#include "chat/call_reader.h"

#include "chat/gemma_call_reader.h"
#include "chat/headed_call_reader.h"
#include "chat/json_call_reader.h"
#include "chat/tagged_call_reader.h"

namespace smelt {
namespace {

using Tags = TaggedCallReader::Tags;

constexpr Tags kGlm{
    .entry_begin = "<arg_key>", .key_end = "</arg_key>", .value_begin = "<arg_value>", .value_end = "</arg_value>"};

constexpr Tags kFunctions{.call_begin = "<function=",
                          .name_end = ">",
                          .entry_begin = "<parameter=",
                          .key_end = ">",
                          .value_end = "</parameter>",
                          .call_end = "</function>"};

constexpr Tags with_lines(Tags tags) {
  tags.has_lines = true;
  return tags;
}

constexpr Tags kDsml{.call_begin = "<｜DSML｜invoke",
                     .name_end = ">",
                     .entry_begin = "<｜DSML｜parameter",
                     .key_end = ">",
                     .value_end = "</｜DSML｜parameter>",
                     .call_end = "</｜DSML｜invoke>",
                     .has_attributes = true};

// Mistral: older models write a list of objects, each with an id behind the arguments.
class MistralCallReader : public CallReader {
 public:
  void take(char byte, Output& out) override {
    const bool is_space = byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
    if (!reader_ && is_space) return;
    if (!reader_ && (byte == '[' || byte == '{'))
      reader_ = std::make_unique<JsonCallReader>(JsonCallReader::Options{.id_may_follow = true});
    if (!reader_) reader_ = std::make_unique<HeadedCallReader>(read_mistral_head, false);
    reader_->take(byte, out);
  }
  std::string end(TextEnd how, Output& out) override { return reader_ ? reader_->end(how, out) : ""; }
  int calls() const override { return reader_ ? reader_->calls() : 0; }

 private:
  std::unique_ptr<CallReader> reader_;
};

}  // namespace

std::unique_ptr<CallReader> CallReader::make(CallStyle style, const nlohmann::ordered_json& tools) {
  switch (style) {
    case CallStyle::none:
    case CallStyle::harmony: break;
    case CallStyle::json_in_tags:
    case CallStyle::command:
    case CallStyle::llama3: return std::make_unique<JsonCallReader>(JsonCallReader::Options{});
    case CallStyle::glm: return std::make_unique<TaggedCallReader>(kGlm, tools);
    case CallStyle::qwen_coder: return std::make_unique<TaggedCallReader>(with_lines(kFunctions), tools);
    case CallStyle::seed: return std::make_unique<TaggedCallReader>(kFunctions, tools);
    case CallStyle::mistral: return std::make_unique<MistralCallReader>();
    case CallStyle::deepseek: return std::make_unique<HeadedCallReader>(read_deepseek_head, true);
    case CallStyle::gemma: return std::make_unique<GemmaCallReader>();
    case CallStyle::kimi: return std::make_unique<HeadedCallReader>(read_kimi_head, true);
    case CallStyle::dsml: return std::make_unique<TaggedCallReader>(kDsml, tools);
  }
  return nullptr;
}

}  // namespace smelt
