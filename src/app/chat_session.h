// ChatSession: a conversation with a model: messages, what the model is given of them, and its answers as they come.
//
// Only what is new since the last answer is computed: the tokens that the prompt has in common with those in the
// context stay there.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/engine_flags.h"
#include "app/generate.h"
#include "chat/chat_template.h"
#include "chat/output_parser.h"
#include "engine/cache_reads.h"
#include "engine/sampler.h"

namespace smelt {

struct ChatSettings {
  SamplerOptions sampler;
  int64_t max_tokens = -1;
  Chat chat;  // messages, tools, variables of the template
};

class ChatSession {
 public:
  // `template_source`: instead of the file's own.
  static Result<ChatSession> open(const EngineFlags& flags, const std::optional<std::string>& template_source);

  // The maker's sampling where it is known; the rest as smelt usually has it.
  Result<SamplerOptions> default_sampling() const;
  const ChatTemplate& chat_template() const { return *template_; }
  const GgufFile& file() const { return *engine_.file; }
  const Tokenizer& tokenizer() const { return *engine_.tokenizer; }
  EngineStats stats() const { return engine_.session->stats(); }
  int64_t context() const { return engine_.session->context(); }
  int64_t position() const { return engine_.session->position(); }
  const CacheReads& cache_reads() const { return cache_reads_; }

  // What the context holds, to a file and from it (engine/cache_file.h), so that the next turn computes only what is
  // new. An Error where it cannot serve: then the context is empty.
  Status save_context(const std::string& path) { return engine_.session->save(path); }
  Status load_context(const std::string& path);

  // The model's next turn, which is added to the messages also where it was interrupted. `show` gets it as it comes.
  Result<Generation> answer(ChatSettings& settings, const std::function<void(const Output&)>& show,
                            const std::atomic<bool>& cancel);

 private:
  Result<std::vector<int32_t>> prompt_ids(const Chat& chat, bool& starts_in_thoughts) const;
  size_t keep_common(const std::vector<int32_t>& ids);
  Result<std::optional<Constraint>> constraint_for(const nlohmann::ordered_json& tools);

  OpenedModel engine_;
  std::optional<ChatTemplate> template_;
  OutputFormat format_;
  std::vector<int32_t> stops_;
  std::vector<int32_t> in_context_;
  CacheReads cache_reads_;
  nlohmann::ordered_json tools_of_masks_;  // what the masks were made for
  std::shared_ptr<const TokenMasks> call_masks_;
};

// A message of the assistant, in the shape of Chat.
nlohmann::ordered_json assistant_message(const Output& output);

}  // namespace smelt
