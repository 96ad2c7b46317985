#include "server/served_model.h"

#include <algorithm>
#include <cstdint>

#include "chat/recommended_sampling.h"

namespace smelt {
namespace {

constexpr size_t kMostGrammars = 16;

Result<SamplerOptions> usual_sampling(const GgufFile& file) {
  SMELT_TRY(known, recommended_sampling(file));
  SamplerOptions options;
  options.temperature = known.temperature.value_or(options.temperature);
  options.top_k = known.top_k.value_or(options.top_k);
  options.top_p = known.top_p.value_or(options.top_p);
  options.min_p = known.min_p.value_or(options.min_p);
  options.repeat_penalty = known.repeat_penalty.value_or(options.repeat_penalty);
  return options;
}

// No token stands for more bytes than the longest one has. SentencePiece may leave out some of a text.
size_t longest_text(const Tokenizer& tokenizer, int64_t context) {
  if (!tokenizer.is_byte_level()) return SIZE_MAX;
  size_t longest = 0;
  for (int32_t id = 0; id < tokenizer.size(); ++id) longest = std::max(longest, tokenizer.piece(id).size());
  return longest * static_cast<size_t>(context);
}

}  // namespace

Result<ServedModel> ServedModel::make(const GgufFile& file, const Tokenizer& tokenizer, std::string name,
                                      int64_t context, const std::optional<std::string>& template_source) {
  auto made = template_source ? ChatTemplate::from_source(*template_source, tokenizer)
                              : ChatTemplate::from_gguf(file, tokenizer);
  if (!made) return made.error();
  ServedModel model(made.take(), tokenizer);
  SMELT_TRY(sampling, usual_sampling(file));
  model.name_ = std::move(name);
  model.context_ = context;
  model.longest_text_ = smelt::longest_text(tokenizer, context);
  model.format_ = detect_format(model.template_.source());
  model.stops_ = model.template_.stop_tokens();
  model.sampling_ = sampling;
  return model;
}

Result<jinja::Text> ServedModel::render(const Chat& chat) const {
  if (variables_.empty()) return template_.render(chat);
  Chat with_usual = chat;
  with_usual.variables = variables_;
  with_usual.variables.update(chat.variables);
  return template_.render(with_usual);
}

std::shared_ptr<const TokenMasks> ServedModel::find_masks(const std::string& source) const {
  std::lock_guard lock(grammars_->mutex);
  auto& all = grammars_->known;
  const auto known = std::find_if(all.begin(), all.end(), [&](const KnownGrammar& g) { return g.source == source; });
  if (known == all.end()) return nullptr;
  std::rotate(all.begin(), known, known + 1);
  return all.front().masks;
}

std::shared_ptr<const TokenTable> ServedModel::tokens() const {
  std::lock_guard lock(grammars_->mutex);
  if (!grammars_->tokens) grammars_->tokens = TokenTable::of(*tokenizer_);
  return grammars_->tokens;
}

// Made without the lock: who wants another one does not wait.
Result<std::shared_ptr<const TokenMasks>> ServedModel::masks(const std::string& source, const MakeGrammar& make) const {
  if (auto known = find_masks(source)) return known;
  const auto tokens = this->tokens();
  SMELT_TRY(grammar, make(*tokens));
  SMELT_TRY(masks, TokenMasks::make(grammar, tokens));
  std::lock_guard lock(grammars_->mutex);
  grammars_->known.push_front({source, masks});
  if (grammars_->known.size() > kMostGrammars) grammars_->known.pop_back();
  return masks;
}

}  // namespace smelt
