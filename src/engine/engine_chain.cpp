// Engine: steps whose tokens are chosen on the device.
//
// The host writes the inputs of a step while the one before is under way: positions and tables it knows, and in place
// of a token that is not chosen yet the row of that step that it is chosen in, -1 - row. What was chosen is read back
// behind each run. Rows that a step writes behind the end of a text that nobody goes on with count for nothing.
#include <algorithm>
#include <string>

#include "base/ensure.h"
#include "engine/engine.h"

namespace smelt {

// Tokens of a sequence in steps that are under way.
int64_t Engine::ahead_of(SequenceId sequence) const {
  int64_t count = 0;
  for (const Chained& step : chain_)
    for (const Chained::Entry& entry : step.entries) count += entry.sequence == sequence;
  return count;
}

Result<int32_t> Engine::token_of(const ChainItem& item) const {
  if (item.token) {
    if (*item.token < 0 || *item.token >= vocabulary_size())
      return Error{"[tokens] id " + std::to_string(*item.token) + " is not in the vocabulary of " +
                   std::to_string(vocabulary_size())};
    return *item.token;
  }
  ENSURE(!chain_.empty(), "nothing is under way that would choose a token");
  const std::vector<Chained::Entry>& entries = chain_.back().entries;
  const auto row = std::find_if(entries.begin(), entries.end(),
                                [&](const Chained::Entry& entry) { return entry.sequence == item.sequence; });
  ENSURE(row != entries.end(), "the last step does not choose a token for this sequence");
  return static_cast<int32_t>(-1 - (row - entries.begin()));
}

void Engine::write_choice(int64_t row, const TokenChoice& choice) {
  ChoiceNumbers numbers = choice.numbers;
  if (choice.kind == ChoiceKind::Greedy) numbers[static_cast<size_t>(Choice::IsGreedy)] = 1;
  std::copy(numbers.begin(), numbers.end(), loaded_->memory().choices() + row * kChoiceNumbers);
}

Result<bool> Engine::begin(std::span<const ChainItem> items) {
  const auto count = std::ssize(items);
  ENSURE(chooses_tokens() && begun() < kMostBegun && count > 0 && count <= loaded_->layout().batch,
         "a step that cannot be begun");
  for (const ChainItem& item : items) {
    const int64_t ahead = ahead_of(item.sequence);
    if (position(item.sequence) + ahead >= context()) return false;
    SMELT_TRY(outcome, make_room(item.sequence, ahead + 1));
    if (outcome != StepOutcome::Done) return false;
  }
  const int64_t batch = loaded_->batch_for(count);
  Chained step{.entries = {}, .chosen = std::vector<int32_t>(static_cast<size_t>(2 * batch))};
  LoadedModel::Extent extent{.tokens = count, .first = position(items[0].sequence) + ahead_of(items[0].sequence)};
  ChoiceKind kind = ChoiceKind::Greedy;
  for (int64_t row = 0; row < batch; ++row) {
    const ChainItem& item = items[static_cast<size_t>(std::min(row, count - 1))];
    write_choice(row, item.choice);
    if (row >= count) continue;
    const int64_t at = position(item.sequence) + ahead_of(item.sequence);
    SMELT_TRY(token, token_of(item));
    SMELT_CHECK(prepare(item.sequence, at, 1));
    write_row(row, item.sequence, token, at);
    extent.end = std::max(extent.end, at + 1);
    if (item.choice.kind == ChoiceKind::Drawn) kind = ChoiceKind::Drawn;
    step.entries.push_back({item.sequence, item.token});
  }
  write_padding(count, batch);
  hidden_rows_.clear();
  SMELT_TRY(run, loaded_->run_choosing(kind, batch, extent, step.chosen));
  step.run = run;
  chain_.push_back(std::move(step));
  return true;
}

Result<std::vector<Engine::Chosen>> Engine::take() {
  ENSURE(!chain_.empty(), "no step was begun");
  const Chained step = std::move(chain_.front());
  chain_.pop_front();
  if (const Status done = loaded_->wait(step.run); !done) {
    chain_.clear();  // what was begun behind it has read what it did not write
    return done.error();
  }
  std::vector<Chosen> chosen(step.entries.size());
  for (size_t row = 0; row < chosen.size(); ++row) {
    const Chained::Entry& entry = step.entries[row];
    if (!entry.sequence) continue;
    ENSURE(entry.token, "a step is taken before the one that chooses its tokens");
    const CachedToken token{*entry.token, true};
    PageRun& run = run_of(*entry.sequence);
    chosen[row] = chosen_in(step, row);
    if (!*chosen[row]) pool_.distrust(run);
    pool_.append(run, {&token, 1});
    pool_.leave_behind(run, position(*entry.sequence));
    if (chain_.empty()) continue;
    for (Chained::Entry& next : chain_.front().entries)
      if (next.sequence == entry.sequence && !next.token) next.token = step.chosen[row];
  }
  return chosen;
}

Result<int32_t> Engine::chosen_in(const Chained& step, size_t row) const {
  const int32_t wrong = step.chosen[step.chosen.size() / 2 + row];
  if (wrong == 0) return step.chosen[row];
  return Error{"[sampler] logits: " + std::to_string(wrong) + " of " + std::to_string(vocabulary_size()) +
               " are no finite numbers; the model file is damaged or its weights overflow"};
}

Status Engine::settle() {
  while (!chain_.empty()) SMELT_CHECK(take());
  return {};
}

void Engine::drop(SequenceId sequence) {
  for (Chained& step : chain_)
    for (Chained::Entry& entry : step.entries)
      if (entry.sequence == sequence) entry.sequence.reset();
}

}  // namespace smelt
