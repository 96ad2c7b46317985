#include "engine/engine.h"

#include <algorithm>
#include <utility>

#include "base/ensure.h"

namespace smelt {
namespace {

bool is_cancelled(const StepItem& item) { return item.cancel && item.cancel->load(std::memory_order_relaxed); }

// Tokens of a prompt, for the cache.
std::vector<CachedToken> cached(std::span<const int32_t> ids, bool is_generated) {
  std::vector<CachedToken> out;
  out.reserve(ids.size());
  for (int32_t id : ids) out.push_back({id, is_generated});
  return out;
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::open(const GgufFile& file, const EngineOptions& options,
                                             const OpenHooks& hooks) {
  SMELT_TRY(loaded, LoadedModel::open(file, options, hooks));
  return std::unique_ptr<Engine>(new Engine(std::move(loaded)));
}

Engine::Engine(std::unique_ptr<LoadedModel> loaded)
    : loaded_(std::move(loaded)),
      pool_(loaded_->layout().cache_pages),
      sequences_(static_cast<size_t>(loaded_->layout().sequences)),
      was_used_(static_cast<size_t>(loaded_->layout().cache_pages)),
      table_entries_(sequences_.size()) {}

PageRun& Engine::run_of(SequenceId sequence) {
  ENSURE(sequence >= 0 && static_cast<size_t>(sequence) < sequences_.size() && sequences_[sequence],
         "a sequence that was not started");
  return *sequences_[static_cast<size_t>(sequence)];
}

// --- sequences

Result<SequenceId> Engine::free_sequence() const {
  const auto free = std::find(sequences_.begin(), sequences_.end(), std::nullopt);
  if (free == sequences_.end())
    return Error{"[engine] all " + std::to_string(most_sequences()) + " sequences are taken; stop one first"};
  return static_cast<SequenceId>(free - sequences_.begin());
}

Result<Engine::Started> Engine::start(std::span<const int32_t> prompt) {
  SMELT_TRY(id, free_sequence());
  const auto wanted = cached(prompt.first(prompt.size() - std::min<size_t>(prompt.size(), 1)), false);
  sequences_[static_cast<size_t>(id)] = pool_.find(wanted, copies_);
  SMELT_CHECK(copy_pages());
  return Started{id, position(id)};
}

Result<SequenceId> Engine::fork(SequenceId sequence) {
  SMELT_TRY(id, free_sequence());
  sequences_[static_cast<size_t>(id)] = pool_.fork(run_of(sequence));
  return id;
}

void Engine::rewind(SequenceId sequence, int64_t position) { pool_.rewind(run_of(sequence), position); }

void Engine::stop(SequenceId sequence) {
  pool_.release(run_of(sequence));
  sequences_[static_cast<size_t>(sequence)].reset();
}

// --- steps

Status Engine::check(std::span<const StepItem> items) const {
  std::vector<bool> is_there(sequences_.size());
  for (const StepItem& item : items) {
    const auto id = static_cast<size_t>(item.sequence);
    if (item.sequence < 0 || id >= sequences_.size() || !sequences_[id])
      return Error{"[engine] sequence " + std::to_string(item.sequence) + " was not started"};
    if (is_there[id]) return Error{"[engine] sequence " + std::to_string(item.sequence) + " is twice in one step"};
    is_there[id] = true;
    if (item.tokens.empty())
      return Error{"[engine] sequence " + std::to_string(item.sequence) + " has no tokens in this step"};
    const int64_t taken = position(item.sequence);
    if (taken + static_cast<int64_t>(item.tokens.size()) > context())
      return Error{"[context] " + std::to_string(item.tokens.size()) + " tokens do not fit: " + std::to_string(taken) +
                   " of " + std::to_string(context()) + " are taken; use a larger context (-c)"};
    for (int32_t t : item.tokens)
      if (t < 0 || t >= vocabulary_size())
        return Error{"[tokens] id " + std::to_string(t) + " is not in the vocabulary of " +
                     std::to_string(vocabulary_size())};
  }
  return {};
}

Result<std::vector<StepOutcome>> Engine::step(std::span<const StepItem> items, const LogitsSink& sink) {
  SMELT_CHECK(check(items));
  std::vector<StepOutcome> outcomes(items.size(), StepOutcome::Done);
  for (size_t i = 0; i < items.size(); ++i) {
    SMELT_TRY(outcome, make_room(items[i]));
    outcomes[i] = outcome;
  }
  Status status = step_generated(items, outcomes, sink);
  for (size_t i = 0; i < items.size() && status; ++i)
    if (!items[i].is_generated && outcomes[i] == StepOutcome::Done)
      status = step_prompt(items[i], i, outcomes[i], sink);
  // Room that an item did not use in the end is for others.
  for (const StepItem& item : items) rewind(item.sequence, position(item.sequence));
  if (!status) return status.error();
  return outcomes;
}

Result<StepOutcome> Engine::make_room(const StepItem& item) {
  PageRun& run = run_of(item.sequence);
  const auto had = static_cast<size_t>((run.size() + kPageSize - 1) / kPageSize);
  if (!pool_.reserve(run, static_cast<int64_t>(item.tokens.size()), copies_)) return StepOutcome::NoRoom;
  SMELT_CHECK(copy_pages());
  for (size_t i = had; i < run.pages().size(); ++i) {
    const auto page = static_cast<size_t>(run.pages()[i]);
    // Rows behind the last token are read and masked, so they have to be finite numbers.
    if (was_used_[page]) SMELT_CHECK(loaded_->memory().clear_page(run.pages()[i]));
    was_used_[page] = true;
  }
  return StepOutcome::Done;
}

Status Engine::copy_pages() {
  for (const PageCopy& copy : std::exchange(copies_, {})) {
    was_used_[static_cast<size_t>(copy.to)] = true;
    SMELT_CHECK(loaded_->memory().copy_page(copy.from, copy.to));
  }
  return {};
}

// Entries behind the pages of a sequence name the page for padding: any will do, as what is read there is masked.
void Engine::write_table(SequenceId sequence) {
  const std::span<const int32_t> pages = run_of(sequence).pages();
  size_t& entries = table_entries_[static_cast<size_t>(sequence)];
  int32_t* table = loaded_->memory().pages() + loaded_->layout().table(sequence);
  std::copy(pages.begin(), pages.end(), table);
  if (entries > pages.size())
    std::fill(table + pages.size(), table + entries, static_cast<int32_t>(loaded_->layout().padding_page()));
  entries = pages.size();
}

// Kernels trust what they are given: a wrong page would be another sequence's, or nobody's memory.
Status Engine::check_table(SequenceId sequence, int64_t first, int64_t count) const {
  const PageRun& run = run_of(sequence);
  const SessionLayout& layout = loaded_->layout();
  const auto wrong = [&](const std::string& what) {
    return Error{"[engine] the page table of sequence " + std::to_string(sequence) + " " + what};
  };
  if (static_cast<int64_t>(run.pages().size()) >= layout.table_entries) return wrong("is too long");
  for (int32_t page : run.pages())
    if (page < 0 || page >= layout.cache_pages) return wrong("names page " + std::to_string(page));
  for (int64_t position = first; position < first + count; ++position)
    if (!pool_.may_write(run, position))
      return wrong("has no page of its own for position " + std::to_string(position));
  return {};
}

// --- generated tokens

Status Engine::step_generated(std::span<const StepItem> items, std::vector<StepOutcome>& outcomes,
                              const LogitsSink& sink) {
  const auto most = static_cast<size_t>(loaded_->layout().batch);
  std::vector<Row> rows;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is_generated || outcomes[i] != StepOutcome::Done) continue;
    const int64_t first = position(items[i].sequence);
    for (int64_t index = 0; index < static_cast<int64_t>(items[i].tokens.size()); ++index) {
      rows.push_back({i, index, first + index});
      if (rows.size() < most) continue;
      SMELT_CHECK(run_batch(items, rows, outcomes, sink));
      rows.clear();
    }
  }
  return run_batch(items, rows, outcomes, sink);
}

Status Engine::run_batch(std::span<const StepItem> items, std::vector<Row> rows, std::vector<StepOutcome>& outcomes,
                         const LogitsSink& sink) {
  std::erase_if(rows, [&](const Row& row) {
    if (is_cancelled(items[row.item])) outcomes[row.item] = StepOutcome::Cancelled;
    return outcomes[row.item] != StepOutcome::Done;
  });
  if (rows.empty()) return {};
  SMELT_CHECK(write_rows(items, rows));
  const auto count = static_cast<int64_t>(rows.size());
  LoadedModel::Extent extent{.tokens = count, .first = rows.front().position};
  for (const Row& row : rows) extent.end = std::max(extent.end, row.position + 1);
  // A batch goes on for those who were not cancelled.
  const std::atomic<bool>* cancel = items[rows.front().item].cancel;
  for (const Row& row : rows)
    if (items[row.item].cancel != cancel) cancel = nullptr;
  if (const Status ran = loaded_->run_generated(loaded_->batch_for(count), extent, cancel); !ran) {
    if (!cancel || !cancel->load(std::memory_order_relaxed)) return ran;
    for (const Row& row : rows) outcomes[row.item] = StepOutcome::Cancelled;
    return {};
  }
  for (const Row& row : rows) {
    const CachedToken token{items[row.item].tokens[static_cast<size_t>(row.index)], true};
    pool_.append(run_of(items[row.item].sequence), {&token, 1});
  }
  return report_batch(items, rows, sink);
}

// The inputs of a batch. Rows that fill it up have places of their own in the padding page.
Status Engine::write_rows(std::span<const StepItem> items, std::span<const Row> rows) {
  SessionMemory& memory = loaded_->memory();
  const SessionLayout& layout = loaded_->layout();
  const int64_t count = static_cast<int64_t>(rows.size()), batch = loaded_->batch_for(count);
  for (int64_t r = 0; r < batch; ++r) {
    memory.tokens()[r] = 0;
    memory.positions()[r] = static_cast<int32_t>(r % kPageSize);
    memory.tables()[r] = static_cast<int32_t>(layout.padding_table());
    memory.rows()[r] = static_cast<int32_t>(r);
  }
  for (int64_t r = 0; r < count; ++r) {
    const Row& row = rows[static_cast<size_t>(r)];
    const StepItem& item = items[row.item];
    SMELT_CHECK(check_table(item.sequence, row.position, 1));
    write_table(item.sequence);
    memory.tokens()[r] = item.tokens[static_cast<size_t>(row.index)];
    memory.positions()[r] = static_cast<int32_t>(row.position);
    memory.tables()[r] = static_cast<int32_t>(layout.table(item.sequence));
  }
  return {};
}

Status Engine::report_batch(std::span<const StepItem> items, std::span<const Row> rows, const LogitsSink& sink) {
  SMELT_TRY(logits, loaded_->memory().read_logits(static_cast<int64_t>(rows.size())));
  const auto width = static_cast<size_t>(vocabulary_size());
  for (size_t r = 0; r < rows.size(); ++r) {
    const StepItem& item = items[rows[r].item];
    const bool is_last = rows[r].index + 1 == static_cast<int64_t>(item.tokens.size());
    if (item.logits == WantedLogits::All || (item.logits == WantedLogits::Last && is_last))
      sink(rows[r].item, rows[r].index, logits.subspan(r * width, width));
  }
  return {};
}

// --- prompts

Status Engine::step_prompt(const StepItem& item, size_t number, StepOutcome& outcome, const LogitsSink& sink) {
  const auto most = static_cast<size_t>(loaded_->layout().prefill_tokens);
  std::span<const int32_t> rest = item.tokens;
  while (!rest.empty()) {
    const auto part = rest.first(std::min(rest.size(), most));
    const auto first = static_cast<int64_t>(item.tokens.size() - rest.size());
    rest = rest.subspan(part.size());
    Status status = prefill(item, part);
    if (status) {
      pool_.append(run_of(item.sequence), cached(part, false));
      const bool is_last = rest.empty();
      if (item.logits == WantedLogits::All || (item.logits == WantedLogits::Last && is_last))
        status = report_part(item, number, first, static_cast<int64_t>(part.size()), sink);
    }
    if (status) continue;
    if (!is_cancelled(item)) return status;
    outcome = StepOutcome::Cancelled;
    return {};
  }
  return {};
}

Status Engine::prefill(const StepItem& item, std::span<const int32_t> tokens) {
  SessionMemory& memory = loaded_->memory();
  const SessionLayout& layout = loaded_->layout();
  const int64_t first = position(item.sequence), count = static_cast<int64_t>(tokens.size());
  SMELT_CHECK(check_table(item.sequence, first, count));
  write_table(item.sequence);
  memory.tables()[0] = static_cast<int32_t>(layout.table(item.sequence));
  for (int64_t i = 0; i < (count + 7) / 8 * 8; ++i) {
    memory.tokens()[i] = i < count ? tokens[static_cast<size_t>(i)] : 0;
    memory.positions()[i] = static_cast<int32_t>(i < count ? first + i : layout.first_padding_position() + i % 8);
  }
  return loaded_->run_prompt({count, first, first + count}, item.cancel);
}

// The logits of the `count` tokens of the prompt that were computed just now, or of the last one.
Status Engine::report_part(const StepItem& item, size_t number, int64_t first, int64_t count, const LogitsSink& sink) {
  SessionMemory& memory = loaded_->memory();
  const auto width = static_cast<size_t>(vocabulary_size());
  const int64_t end = position(item.sequence);
  const LoadedModel::Extent extent{count, end - count, end};
  const bool all = item.logits == WantedLogits::All;
  const int64_t together = all ? loaded_->layout().head_rows : 1;
  for (int64_t row = all ? 0 : count - 1; row < count; row += together) {
    for (int64_t r = 0; r < together; ++r) memory.rows()[r] = static_cast<int32_t>(std::min(row + r, count - 1));
    SMELT_CHECK(all ? loaded_->run_wide_head(extent, item.cancel) : loaded_->run_head(extent, item.cancel));
    const int64_t rows = std::min(together, count - row);
    SMELT_TRY(logits, memory.read_logits(rows));
    for (int64_t r = 0; r < rows; ++r)
      sink(number, first + row + r, logits.subspan(static_cast<size_t>(r) * width, width));
  }
  return {};
}

}  // namespace smelt
