// ModelDrafter: the guesses of another, smaller model with the same vocabulary.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "engine/draft_choice.h"
#include "engine/session.h"

namespace smelt {

class ModelDrafter : public Drafter {
 public:
  ModelDrafter(std::shared_ptr<GgufFile> file, std::unique_ptr<Session> session, DraftChoice choice)
      : file_(std::move(file)), session_(std::move(session)), choice_(std::move(choice)) {}

  void sample_like(const SamplerOptions& options) override { choice_.sample_like(options); }
  // Nothing where the text has a token that the other model has not, or does not fit its context.
  Result<std::vector<DraftToken>> draft(std::span<const int32_t> text, int64_t most) override;

 private:
  Result<std::span<const float>> read(std::span<const int32_t> text);
  bool can_read(std::span<const int32_t> tokens) const;

  std::shared_ptr<GgufFile> file_;  // several may draft with one model
  std::unique_ptr<Session> session_;
  DraftChoice choice_;
  std::vector<int32_t> tokens_;  // in its context
};

}  // namespace smelt
