#include "app/chat_session.h"

#include <algorithm>
#include <cstdio>

#include "app/cache_size.h"
#include "app/printing.h"
#include "chat/recommended_sampling.h"
#include "chat/tool_grammar.h"

namespace smelt {
namespace {

template <class T, class U>
void take_if_known(T& setting, const std::optional<U>& known) {
  if (known) setting = *known;
}

}  // namespace

nlohmann::ordered_json assistant_message(const Output& output) {
  nlohmann::ordered_json message = {{"role", "assistant"}, {"content", output.content}};
  if (!output.reasoning.empty()) message["reasoning_content"] = output.reasoning;
  for (const ToolCall& call : output.calls) {
    const size_t number = message.contains("tool_calls") ? message["tool_calls"].size() : 0;
    const std::string id = call.id.empty() ? "call" + std::to_string(10000 + number) : call.id;
    message["tool_calls"].push_back(
        {{"id", id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", arguments_of(call)}}}});
  }
  return message;
}

Result<ChatSession> ChatSession::open(const EngineFlags& flags, const std::optional<std::string>& template_source) {
  ChatSession session;
  SMELT_TRY(engine, open_engine(flags));
  session.engine_ = std::move(engine);
  const Tokenizer& tokenizer = *session.engine_.tokenizer;
  auto made = template_source ? ChatTemplate::from_source(*template_source, tokenizer)
                              : ChatTemplate::from_gguf(*session.engine_.file, tokenizer);
  if (!made) return made.error();
  session.template_ = made.take();
  session.format_ = detect_format(session.template_->source());
  session.stops_ = session.template_->stop_tokens();
  session.cache_reads_ = smelt::cache_reads(*session.engine_.file, flags.cache_type);
  return session;
}

Status ChatSession::load_context(const std::string& path) {
  engine_.session->reset();
  in_context_.clear();
  SMELT_CHECK(engine_.session->restore(path));
  for (const CachedToken& token : engine_.session->tokens()) in_context_.push_back(token.id);
  return {};
}

Result<SamplerOptions> ChatSession::default_sampling() const {
  SMELT_TRY(known, recommended_sampling(*engine_.file));
  SamplerOptions options;
  take_if_known(options.temperature, known.temperature);
  take_if_known(options.top_k, known.top_k);
  take_if_known(options.top_p, known.top_p);
  take_if_known(options.min_p, known.min_p);
  take_if_known(options.repeat_penalty, known.repeat_penalty);
  return options;
}

Result<std::vector<int32_t>> ChatSession::prompt_ids(const Chat& chat, bool& starts_in_thoughts) const {
  SMELT_TRY(prompt, template_->render(chat));
  std::vector<int32_t> ids = template_->encode(prompt);
  starts_in_thoughts = ends_in_thoughts(format_, prompt.bytes());
  if (ids.empty()) return Error{"[chat] the prompt is empty; write something first"};
  if (static_cast<int64_t>(ids.size()) < context()) return ids;
  return Error{"[chat] the conversation has " + std::to_string(ids.size()) + " tokens and does not fit a context of " +
               std::to_string(context()) + "; /reset begins anew, and -c makes the context longer"};
}

// How many tokens of the context the prompt begins with. The last one is computed again, as its logits are wanted; so
// are those behind the last place where the model can go on, see Engine::rewind().
size_t ChatSession::keep_common(const std::vector<int32_t>& ids) {
  const size_t most = std::min(ids.size() - 1, in_context_.size());
  const auto end = std::mismatch(ids.begin(), ids.begin() + most, in_context_.begin()).first;
  const auto common = end - ids.begin();
  engine_.session->rewind(common);
  return static_cast<size_t>(engine_.session->position());
}

// Calls of tools cannot come out malformed where the format of the model is known.
Result<std::optional<Constraint>> ChatSession::constraint_for(const nlohmann::ordered_json& tools) {
  if (tools.empty() || format_.calls == CallStyle::none) return std::optional<Constraint>();
  if (!call_masks_ || tools != tools_of_masks_) {
    const auto tokens = TokenTable::of(*engine_.tokenizer);
    SMELT_TRY(grammar, tool_grammar(format_, tools, {}, *tokens));
    SMELT_TRY(masks, TokenMasks::make(grammar, tokens));
    call_masks_ = std::move(masks);
    tools_of_masks_ = tools;
  }
  return std::optional<Constraint>(call_masks_);
}

Result<Generation> ChatSession::answer(ChatSettings& settings, const std::function<void(const Output&)>& show,
                                       const std::atomic<bool>& cancel) {
  OutputOptions output_options{false, settings.chat.tools};
  SMELT_TRY(ids, prompt_ids(settings.chat, output_options.starts_in_thoughts));
  SMELT_TRY(constraint, constraint_for(settings.chat.tools));
  const size_t common = keep_common(ids);
  Sampler sampler(settings.sampler);
  for (int32_t id : ids) sampler.accept(id);

  const auto parser = OutputParser::make(format_, std::move(output_options));
  StreamDecoder decoder(*engine_.tokenizer);
  Output whole;
  const auto give = [&](const Output& part) {
    whole.append(part);
    show(part);
  };
  in_context_ = ids;
  const GenerateOptions options{.max_tokens = settings.max_tokens,
                                .stops = stops_,
                                .constraint = constraint ? &*constraint : nullptr,
                                .speculation = engine_.speculation.get(),
                                .before = {ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(common)}};
  const auto emit = [&](int32_t id) {
    in_context_.push_back(id);
    give(parser->push(decoder.push(id)));
    return all_printed().ok();
  };
  auto generation =
      generate(*engine_.session, *engine_.tokenizer, sampler, std::span(ids).subspan(common), options, emit, cancel);
  // Tokens that were given out but not appended, or appended in part, are not in the context.
  in_context_.resize(std::min(in_context_.size(), static_cast<size_t>(engine_.session->position())));
  if (!generation) return generation;
  give(parser->push(decoder.flush()));
  const bool is_cut = generation->stopped != StopReason::stop_token && generation->stopped != StopReason::complete;
  give(parser->finish(is_cut ? TextEnd::cut : TextEnd::complete));
  settings.chat.messages.push_back(assistant_message(whole));
  return generation;
}

}  // namespace smelt
