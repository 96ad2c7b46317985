// BatchSpeculation: drafts for the steps of an engine that generate tokens of several sequences, as many of them as
// pay. What speculation.h is for one sequence; drafters and their verification are the same.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/draft_rate.h"
#include "engine/drafter.h"
#include "engine/engine.h"
#include "engine/speculation.h"

namespace smelt {

class BatchSpeculation {
 public:
  // `drafters`: of each sequence of the engine, by its id. `rows`: tokens and drafts that one step of the engine
  // computes together (EngineLayout::batch).
  BatchSpeculation(std::vector<std::unique_ptr<Drafter>> drafters, const DraftOptions& options, int64_t rows);

  // How many drafts each of so many texts may have in the coming step, see DraftRate.
  int64_t next(int64_t texts) { return options_.adaptive ? rate_.next(texts) : rate_.most(texts); }
  // Up to `most` tokens that may follow `text`, see Drafter. Fewer than the options want at least: none.
  Result<std::vector<DraftToken>> draft(SequenceId sequence, std::span<const int32_t> text, int64_t most);
  // A step for which next() said `asked` gave the texts so many tokens in so many seconds, drafting included.
  void record(int64_t texts, int64_t asked, int64_t tokens, double seconds) {
    rate_.record(texts, asked, tokens, seconds);
  }

 private:
  std::vector<std::unique_ptr<Drafter>> drafters_;
  const DraftOptions options_;
  DraftRate rate_;
};

}  // namespace smelt
