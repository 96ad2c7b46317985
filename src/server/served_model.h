// ServedModel: what the layers above the engine know of the model: its name, texts, template, and usual settings.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "chat/chat_template.h"
#include "chat/output_format.h"
#include "engine/sampler.h"
#include "gguf/gguf.h"
#include "grammar/constraint.h"
#include "text/tokenizer.h"

namespace smelt {

class ServedModel {
 public:
  // `template_source`: instead of the file's own. REQUIRES: `tokenizer` outlives this.
  static Result<ServedModel> make(const GgufFile& file, const Tokenizer& tokenizer, std::string name, int64_t context,
                                  const std::optional<std::string>& template_source = {});

  const std::string& name() const { return name_; }
  int64_t context() const { return context_; }
  // Bytes of a text; a longer one has more tokens than the context, whatever it says.
  size_t longest_text() const { return longest_text_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const ChatTemplate& chat_template() const { return template_; }
  const OutputFormat& format() const { return format_; }
  const std::vector<int32_t>& stops() const { return stops_; }  // of an answer in a chat
  const SamplerOptions& sampling() const { return sampling_; }  // the maker's, where it is known
  std::optional<uint64_t> seed() const { return seed_; }        // empty: a new one for each request
  // Tokens of an answer, and variables of the template, of requests that do not say them.
  int64_t usual_length(int64_t otherwise) const { return length_.value_or(otherwise); }
  void use_length(int64_t tokens) { length_ = tokens; }
  void use_variables(nlohmann::ordered_json variables) { variables_ = std::move(variables); }
  // Instead of the maker's.
  void use_sampling(SamplerOptions sampling, std::optional<uint64_t> seed) {
    sampling_ = std::move(sampling);
    seed_ = seed;
  }

  // A chat as the template has it, with the usual variables where it has none of its own.
  Result<jinja::Text> render(const Chat& chat) const;

  using MakeGrammar = std::function<Result<Grammar>(const TokenTable& tokens)>;
  // A grammar over the vocabulary of this model. The last few are kept, each under what it was made of. Thread-safe.
  Result<std::shared_ptr<const TokenMasks>> masks(const std::string& source, const MakeGrammar& make) const;

 private:
  ServedModel(ChatTemplate chat_template, const Tokenizer& tokenizer)
      : tokenizer_(&tokenizer), template_(std::move(chat_template)) {}

  std::string name_;
  int64_t context_ = 0;
  size_t longest_text_ = 0;
  const Tokenizer* tokenizer_;
  ChatTemplate template_;
  OutputFormat format_;
  std::vector<int32_t> stops_;
  SamplerOptions sampling_;
  std::optional<uint64_t> seed_;
  std::optional<int64_t> length_;
  nlohmann::ordered_json variables_ = nlohmann::ordered_json::object();
  struct KnownGrammar {
    std::string source;
    std::shared_ptr<const TokenMasks> masks;
  };
  struct Grammars {
    std::mutex mutex;
    std::shared_ptr<const TokenTable> tokens;  // made when the first grammar comes
    std::deque<KnownGrammar> known;            // the one that was used last comes first
  };
  std::shared_ptr<const TokenMasks> find_masks(const std::string& source) const;
  std::shared_ptr<const TokenTable> tokens() const;
  std::unique_ptr<Grammars> grammars_ = std::make_unique<Grammars>();
};

}  // namespace smelt
