#include "engine/batch_speculation.h"

#include <utility>

namespace smelt {

BatchSpeculation::BatchSpeculation(std::vector<std::unique_ptr<Drafter>> drafters, const DraftOptions& options,
                                   int64_t rows)
    : drafters_(std::move(drafters)), options_(options), rate_(options.most, rows) {}

Result<std::vector<DraftToken>> BatchSpeculation::draft(SequenceId sequence, std::span<const int32_t> text,
                                                        int64_t most) {
  SMELT_TRY(drafts, drafters_[static_cast<size_t>(sequence)]->draft(text, most));
  if (std::ssize(drafts) < options_.least) drafts.clear();
  return drafts;
}

}  // namespace smelt
