#include "engine/engine.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/ensure.h"

namespace smelt {
namespace {

constexpr int64_t kKeptEvery = 16 * kPageSize;  // positions of a prompt

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
      pool_(loaded_->layout().cache_pages, kPageSize, loaded_->layout().states,
            {loaded_->layout().window, loaded_->layout().local_pages}),
      sequences_(static_cast<size_t>(loaded_->layout().sequences)),
      rows_(static_cast<size_t>(loaded_->layout().cache_pages)),
      local_rows_(static_cast<size_t>(loaded_->layout().local_pages)),
      table_entries_(sequences_.size()),
      local_entries_(sequences_.size()) {}

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

Result<Engine::Started> Engine::start(std::span<const int32_t> prompt, const PrefixReuse& reuse) {
  SMELT_TRY(id, free_sequence());
  const auto wanted = prompt.first(prompt.size() - std::min<size_t>(prompt.size(), 1));
  sequences_[static_cast<size_t>(id)] = pool_.find(wanted, reuse, copies_);
  if (const Status copied = copy_pages(); !copied) {
    stop(id);
    return copied.error();
  }
  return Started{id, position(id)};
}

Result<SequenceId> Engine::fork(SequenceId sequence) {
  SMELT_TRY(id, free_sequence());
  sequences_[static_cast<size_t>(id)] = pool_.fork(run_of(sequence));
  return id;
}

void Engine::rewind(SequenceId sequence, int64_t position) { pool_.rewind(run_of(sequence), position); }

void Engine::stop(SequenceId sequence) {
  drop(sequence);
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
  ENSURE(chain_.empty(), "a step among those that were begun");
  SMELT_CHECK(check(items));
  std::vector<StepOutcome> outcomes(items.size(), StepOutcome::Done);
  for (size_t i = 0; i < items.size(); ++i) {
    SMELT_TRY(outcome, make_room(items[i].sequence, static_cast<int64_t>(items[i].tokens.size())));
    outcomes[i] = outcome;
  }
  Status status = step_generated(items, outcomes, sink);
  if (status) status = step_prompts(items, outcomes, sink);
  if (const Status finished = finish_runs(); status) status = finished;
  // Room that an item did not use in the end is for others.
  for (const StepItem& item : items) rewind(item.sequence, position(item.sequence));
  if (!status) return status.error();
  return outcomes;
}

// It leaves its hidden values where the one before has left its own, so these are looked at before; but where a device
// has a queue, and those sequences go on in this run, it is enough to look at what they have then.
Status Engine::begin_run(const std::function<bool(SequenceId)>& takes_part) {
  const auto goes_on = [&](const Begun& begun) { return takes_part(begun.sequence); };
  if (!loaded_->device().runs_ahead() || !std::all_of(begun_.begin(), begun_.end(), goes_on))
    SMELT_CHECK(finish_runs());
  for (Begun& begun : begun_) begun.row.reset();
  hidden_rows_.clear();
  return {};
}

// Runs of a step follow each other without the host in between, unless it wants to see what one has left, or a run is
// done when it returns. What they were to write counts once they are done.
//
// A token that is no finite number spoils others of its sequence in the same run, those before it, too: they see it
// with weight zero. So what the sequence has got from these runs is not to be found by others.
Status Engine::finish_runs() {
  const std::vector<Begun> begun = std::exchange(begun_, {});
  SMELT_CHECK(loaded_->finish());
  for (const Begun& b : begun) {
    SMELT_TRY(finite, is_finite(b));
    if (!finite) pool_.distrust(run_of(b.sequence));
  }
  for (const Begun& b : begun) {
    pool_.append(run_of(b.sequence), b.tokens);
    if (b.keeps_state) pool_.keep_state(run_of(b.sequence));
  }
  return {};
}

// Whether the hidden values behind the last layer are: what is none in a row of a layer's cache is none there, too.
// Where they are to be fetched from a device the last token speaks for those before, whose rows it sees; layers with a
// window do not show it all of them.
Result<bool> Engine::is_finite(const Begun& begun) {
  if (!begun.row) return true;  // a later run sees these rows
  const auto count = std::ssize(begun.tokens);
  const bool is_last_enough = !loaded_->device().host_sees_memory() && loaded_->layout().window == 0;
  const int64_t first = is_last_enough ? count - 1 : 0;
  SMELT_TRY(hidden, loaded_->read_hidden(*begun.row + first, count - first));
  return std::all_of(hidden.begin(), hidden.end(), [](float x) { return std::isfinite(x); });
}

Result<StepOutcome> Engine::make_room(SequenceId sequence, int64_t tokens) {
  PageRun& run = run_of(sequence);
  // Pages behind these may be there for steps that were begun.
  const size_t had = std::max(static_cast<size_t>((run.size() + kPageSize - 1) / kPageSize),
                              ahead_of(sequence) > 0 ? run.pages().size() : 0);
  if (!pool_.reserve(run, tokens, copies_)) return StepOutcome::NoRoom;
  SMELT_CHECK(copy_pages());
  for (size_t i = had; i < run.pages().size(); ++i) SMELT_CHECK(clear(PageKind::Whole, run.pages()[i], 0));
  return StepOutcome::Done;
}

// The rows of a page from `first` on.
Status Engine::clear(PageKind kind, int32_t page, int64_t first) {
  int64_t& rows = rows_of(kind, page);
  if (rows <= first) return {};
  rows = first;
  return loaded_->memory().clear_rows(kind, page, first);
}

Status Engine::copy_pages() {
  const auto copied = [&](PageKind kind, int32_t from, int32_t to) {
    rows_of(kind, to) = rows_of(kind, from);
    return loaded_->memory().copy_page(kind, from, to);
  };
  for (const PageCopy& copy : std::exchange(copies_, {})) {
    SMELT_CHECK(copied(PageKind::Whole, copy.from, copy.to));
    if (copy.local_to != WindowPages::kNone) SMELT_CHECK(copied(PageKind::Local, copy.local_from, copy.local_to));
  }
  return {};
}

// Local pages that are filled need not be cleared before, as a layer writes all rows of a run before it reads any.
Status Engine::reserve_window(SequenceId sequence, int64_t first, int64_t count) {
  std::vector<int64_t> taken;
  pool_.reserve_window(run_of(sequence), first + count, taken);
  for (const int64_t index : taken) {
    const int32_t page = pool_.local_page(run_of(sequence), index);
    const bool is_filled = first <= index * kPageSize && (index + 1) * kPageSize <= first + count;
    if (!is_filled) SMELT_CHECK(clear(PageKind::Local, page, 0));
  }
  return {};
}

// Rows behind those that a run writes are read and masked, and zero times what is no finite number is none. They are
// what a page held when it was copied, drafts that were taken back, and what a cancelled run has left.
Status Engine::clear_behind(SequenceId sequence, int64_t first, int64_t count) {
  const PageRun& run = run_of(sequence);
  for (int64_t index = first / kPageSize; index * kPageSize < first + count; ++index) {
    const int64_t rows = std::min(kPageSize, first + count - index * kPageSize);
    const auto written = [&](PageKind kind, int32_t page) -> Status {
      SMELT_CHECK(clear(kind, page, rows));
      rows_of(kind, page) = rows;
      return {};
    };
    SMELT_CHECK(written(PageKind::Whole, run.pages()[static_cast<size_t>(index)]));
    if (loaded_->layout().window > 0) SMELT_CHECK(written(PageKind::Local, pool_.local_page(run, index)));
  }
  return {};
}

// A run is about to write rows of a sequence: its tables name these, and what it sees beside them.
Status Engine::prepare(SequenceId sequence, int64_t first, int64_t count) {
  SMELT_CHECK(reserve_window(sequence, first, count));
  SMELT_CHECK(check_table(sequence, first, count));
  SMELT_CHECK(clear_behind(sequence, first, count));
  write_table(sequence);
  if (loaded_->layout().window > 0) write_local_table(sequence);
  return {};
}

// Entries behind the pages of a sequence name the empty page, as what is read there is masked.
void Engine::write_table(SequenceId sequence) {
  const std::span<const int32_t> pages = run_of(sequence).pages();
  size_t& entries = table_entries_[static_cast<size_t>(sequence)];
  int32_t* table = loaded_->memory().pages() + loaded_->layout().table(sequence);
  std::copy(pages.begin(), pages.end(), table);
  if (entries > pages.size())
    std::fill(table + pages.size(), table + entries, loaded_->layout().empty_page(PageKind::Whole));
  entries = pages.size();
}

// So do those of pages that are out of the window.
void Engine::write_local_table(SequenceId sequence) {
  const PageRun& run = run_of(sequence);
  auto& [first, end] = local_entries_[static_cast<size_t>(sequence)];
  int32_t* table = loaded_->memory().local_pages() + loaded_->layout().table(sequence);
  std::fill(table + first, table + end, loaded_->layout().empty_page(PageKind::Local));
  first = run.first_local(), end = run.end_local();
  for (int64_t index = first; index < end; ++index) table[index] = pool_.local_page(run, index);
}

// Of a row of a batch, or of a group of a part of a prompt: a state is read in one place and left in another. Row
// `number` of those of the sequence in this run finds what the one before has left.
void Engine::write_states(SequenceId sequence, int64_t index, int64_t number) {
  if (!has_states()) return;
  PageRun& run = run_of(sequence);
  pool_.reserve_states(run, number + 1);
  loaded_->memory().states_in()[index] = number == 0 ? run.state() : -1;
  loaded_->memory().states_out()[index] = run.next_states()[static_cast<size_t>(number)];
}

// Kernels trust what they are given: a wrong page would be another sequence's, or nobody's memory.
Status Engine::check_table(SequenceId sequence, int64_t first, int64_t count) const {
  const PageRun& run = run_of(sequence);
  const EngineLayout& layout = loaded_->layout();
  const auto wrong = [&](const std::string& what) {
    return Error{"[engine] the page table of sequence " + std::to_string(sequence) + " " + what};
  };
  if (static_cast<int64_t>(run.pages().size()) >= layout.table_entries) return wrong("is too long");
  for (int32_t page : run.pages())
    if (page < 0 || page >= layout.cache_pages) return wrong("names page " + std::to_string(page));
  for (int64_t position = first; position < first + count; ++position)
    if (!pool_.may_write(run, position))
      return wrong("has no page of its own for position " + std::to_string(position));
  if (layout.window == 0) return {};
  for (int64_t index = run.first_local(); index < run.end_local(); ++index)
    if (const int32_t page = pool_.local_page(run, index); page < 0 || page >= layout.local_pages)
      return wrong("names local page " + std::to_string(page));
  if (run.end_local() * kPageSize < first + count || !pool_.holds_window(run, first))
    return wrong("has no window for position " + std::to_string(first));
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
      // There are no more states for a sequence, each of which could be the one to go on from.
      const bool has_all_states = has_states() && (index + 1) % (1 + loaded_->layout().drafts) == 0;
      if (rows.size() < most && !(has_all_states && index + 1 < std::ssize(items[i].tokens))) continue;
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
  SMELT_CHECK(begin_run([&](SequenceId sequence) {
    return std::any_of(rows.begin(), rows.end(), [&](const Row& r) { return items[r.item].sequence == sequence; });
  }));
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
    const auto number = std::ssize(hidden_rows_);
    pool_.leave_behind(run_of(items[row.item].sequence), row.position + 1);
    hidden_rows_.push_back({items[row.item].sequence, row.position, number});
    begun_.push_back({.sequence = items[row.item].sequence,
                      .tokens = cached(items[row.item].tokens.subspan(static_cast<size_t>(row.index), 1), true),
                      .row = number});
  }
  const bool is_seen = std::any_of(rows.begin(), rows.end(), [&](const Row& row) { return wants_logits(items, row); });
  if (is_seen) return report_batch(items, rows, sink);
  return has_states() ? finish_runs() : Status();  // the next run reads what this one leaves, by its place
}

// The inputs of a batch.
Status Engine::write_rows(std::span<const StepItem> items, std::span<const Row> rows) {
  const auto count = static_cast<int64_t>(rows.size());
  for (auto& run : sequences_)  // the drafts of the run before are decided
    if (run) pool_.keep_states(*run, 1 + loaded_->layout().back_steps);
  int64_t first = 0;  // row of the same item
  for (int64_t r = 0; r < count; ++r) {
    const Row& row = rows[static_cast<size_t>(r)];
    const StepItem& item = items[row.item];
    if (rows[static_cast<size_t>(first)].item != row.item) first = r;
    const auto is_of_item = [&](const Row& other) { return other.item == row.item; };
    if (r == first)
      SMELT_CHECK(prepare(item.sequence, row.position, std::count_if(rows.begin(), rows.end(), is_of_item)));
    write_states(item.sequence, r, r - first);
    write_row(r, item.sequence, item.tokens[static_cast<size_t>(row.index)], row.position);
  }
  write_padding(count, loaded_->batch_for(count));
  return {};
}

// Rows that fill a batch up are the last one once more: they choose its experts, so that no other ones are read for
// them, and write what it writes, to the last bit. With states it is the last one that has found its state in a place,
// not in what a row has left; those of padding, which nobody wants, go elsewhere.
void Engine::write_padding(int64_t first, int64_t batch) {
  EngineMemory& memory = loaded_->memory();
  int64_t from = first - 1;
  while (has_states() && memory.states_in()[from] < 0) --from;
  for (int64_t r = first; r < batch; ++r) {
    memory.tokens()[r] = memory.tokens()[from];
    memory.positions()[r] = memory.positions()[from];
    memory.tables()[r] = memory.tables()[from];
    memory.rows()[r] = static_cast<int32_t>(r);
    if (has_states()) memory.states_in()[r] = memory.states_in()[from], memory.states_out()[r] = kPaddingState;
  }
}

void Engine::write_row(int64_t row, SequenceId sequence, int32_t token, int64_t position) {
  EngineMemory& memory = loaded_->memory();
  memory.tokens()[row] = token;
  memory.positions()[row] = static_cast<int32_t>(position);
  memory.tables()[row] = static_cast<int32_t>(loaded_->layout().table(sequence));
  memory.rows()[row] = static_cast<int32_t>(row);
}

bool Engine::wants_logits(std::span<const StepItem> items, const Row& row) {
  const StepItem& item = items[row.item];
  const bool is_last = row.index + 1 == static_cast<int64_t>(item.tokens.size());
  return item.logits == WantedLogits::All || (item.logits == WantedLogits::Last && is_last);
}

Status Engine::report_batch(std::span<const StepItem> items, std::span<const Row> rows, const LogitsSink& sink) {
  SMELT_CHECK(finish_runs());
  SMELT_TRY(logits, loaded_->read_logits(static_cast<int64_t>(rows.size())));
  const auto width = static_cast<size_t>(vocabulary_size());
  for (size_t r = 0; r < rows.size(); ++r)
    if (wants_logits(items, rows[r])) sink(rows[r].item, rows[r].index, logits.subspan(r * width, width));
  return {};
}

// --- prompts

namespace {

// Of a part that begins at a position, with so many tokens of the prompt to come: where a state will be kept at the
// latest.
int64_t next_kept(int64_t at, int64_t rest) {
  const int64_t every = (at / kKeptEvery + 1) * kKeptEvery, last_page = (at + rest) / kPageSize * kPageSize;
  return last_page > at ? std::min(every, last_page) : every;
}

// The groups of a part behind its first one find what the one before them has left, and leave it in the same place.
// Groups that fill up a tile are of nobody.
void write_more_groups(EngineMemory& memory, int64_t row, int64_t count, int64_t tile) {
  const int64_t first = row / kGroupSize, end = (row + count + kGroupSize - 1) / kGroupSize;
  for (int64_t group = first + 1; group < end || group * kGroupSize % tile != 0; ++group) {
    memory.states_in()[group] = group < end ? -1 : kZeroState;
    memory.states_out()[group] = group < end ? memory.states_out()[first] : kPaddingState;
  }
}

}  // namespace

// What is left of all prompts, in runs of as many tokens as go into one.
Status Engine::step_prompts(std::span<const StepItem> items, std::vector<StepOutcome>& outcomes,
                            const LogitsSink& sink) {
  std::vector<int64_t> done(items.size()), first;
  for (const StepItem& item : items) first.push_back(position(item.sequence));
  while (true) {
    std::vector<Part> parts;
    int64_t room = loaded_->layout().prefill_tokens;
    for (size_t i = 0; i < items.size() && room > 0; ++i) {
      const int64_t rest = static_cast<int64_t>(items[i].tokens.size()) - done[i];
      if (items[i].is_generated || outcomes[i] != StepOutcome::Done || rest == 0) continue;
      if (is_cancelled(items[i])) {
        outcomes[i] = StepOutcome::Cancelled;
        continue;
      }
      const int64_t row = loaded_->layout().prefill_tokens - room;
      const int64_t at = first[i] + done[i];
      int64_t count = std::min(rest, room);
      if (has_states()) count = std::min(count, next_kept(at, rest) - at);
      parts.push_back({.item = i, .index = done[i], .count = count, .row = row, .position = at});
      done[i] += count;
      room -= (count + kGroupSize - 1) / kGroupSize * kGroupSize;
    }
    if (parts.empty()) return {};
    SMELT_CHECK(run_parts(items, parts, outcomes, sink));
  }
}

// At the last whole page of a prompt, which a longer prompt or another one may begin with, and now and then in between.
bool Engine::keeps_state(const StepItem& item, const Part& part) const {
  const int64_t rest = std::ssize(item.tokens) - part.index - part.count;
  return rest < kPageSize || (part.position + part.count) % kKeptEvery == 0;
}

// Where somebody may want to go on: at the end of a prompt, and now and then in between.
void Engine::keep_windows(const StepItem& item, const Part& part) {
  PageRun& run = run_of(item.sequence);
  const int64_t end = part.position + part.count;
  for (int64_t at = part.position / kKeptEvery + 1; at * kKeptEvery <= end; ++at)
    pool_.keep_window(run, at * kKeptEvery);
  if (part.index + part.count == std::ssize(item.tokens)) pool_.keep_window(run, end);
  pool_.leave_behind(run, end);
}

Status Engine::run_parts(std::span<const StepItem> items, std::span<const Part> parts,
                         std::vector<StepOutcome>& outcomes, const LogitsSink& sink) {
  LoadedModel::Extent extent{.tokens = parts.back().row + parts.back().count, .first = parts.front().position};
  // A run goes on for those who were not cancelled.
  const std::atomic<bool>* cancel = items[parts.front().item].cancel;
  for (const Part& part : parts) {
    extent.end = std::max(extent.end, part.position + part.count);
    if (items[part.item].cancel != cancel) cancel = nullptr;
  }
  SMELT_CHECK(begin_run([&](SequenceId sequence) {
    return std::any_of(parts.begin(), parts.end(), [&](const Part& p) { return items[p.item].sequence == sequence; });
  }));
  SMELT_CHECK(write_parts(items, parts));
  Status status = loaded_->run_prompt(extent, cancel);
  if (status) {
    for (const Part& part : parts) {
      const StepItem& item = items[part.item];
      keep_windows(item, part);
      begun_.push_back({.sequence = item.sequence,
                        .tokens = cached(item.tokens.subspan(part.index, part.count), false),
                        .row = part.row,
                        .keeps_state = keeps_state(item, part)});
    }
    status = report_parts(items, parts, extent, cancel, sink);
    if (status && loaded_->can_draft()) status = draft_parts(items, parts, extent, cancel);
    if (status && has_states()) status = finish_runs();  // the next run reads what this one leaves, by its place
  }
  if (status) return {};
  if (!cancel || !cancel->load(std::memory_order_relaxed)) return status;
  for (const Part& part : parts) outcomes[part.item] = StepOutcome::Cancelled;
  return {};
}

// The inputs of a run. Rows that fill up the last group of a part, and those behind the last part that fill up a tile,
// have the last token, so that they are finite where the sequence is, and places in the padding page.
Status Engine::write_parts(std::span<const StepItem> items, std::span<const Part> parts) {
  EngineMemory& memory = loaded_->memory();
  const EngineLayout& layout = loaded_->layout();
  for (const Part& part : parts) {
    const StepItem& item = items[part.item];
    const int64_t first = part.position;
    SMELT_CHECK(prepare(item.sequence, first, part.count));
    const int64_t multiple = &part == &parts.back() ? layout.token_tile : kGroupSize;
    pool_.keep_states(run_of(item.sequence), 1);
    write_states(item.sequence, part.row / kGroupSize, 0);
    if (has_states()) write_more_groups(memory, part.row, part.count, multiple);
    for (int64_t i = 0; i < part.count || (part.row + i) % multiple != 0; ++i) {
      const int64_t row = part.row + i;
      const bool is_token = i < part.count;
      memory.tokens()[row] = item.tokens[static_cast<size_t>(part.index + std::min(i, part.count - 1))];
      memory.positions()[row] =
          static_cast<int32_t>(is_token ? first + i : layout.first_padding_position() + row % kPageSize);
      memory.tables()[row / kGroupSize] = static_cast<int32_t>(layout.table(item.sequence));
    }
  }
  return {};
}

// The logits that are wanted of a run.
Status Engine::report_parts(std::span<const StepItem> items, std::span<const Part> parts,
                            const LoadedModel::Extent& extent, const std::atomic<bool>* cancel,
                            const LogitsSink& sink) {
  std::vector<Wanted> wanted;
  for (const Part& part : parts) {
    const StepItem& item = items[part.item];
    const int64_t end = part.index + part.count;
    const bool is_last = end == static_cast<int64_t>(item.tokens.size());
    int64_t first = end;  // of those that are wanted
    if (item.logits == WantedLogits::All) first = part.index;
    if (item.logits == WantedLogits::Last && is_last) first = end - 1;
    for (int64_t index = first; index < end; ++index)
      wanted.push_back({.item = part.item, .index = index, .row = part.row + index - part.index});
  }
  const auto width = static_cast<size_t>(vocabulary_size());
  const auto together = static_cast<size_t>(wanted.size() == 1 ? 1 : loaded_->layout().head_rows);
  for (size_t begin = 0; begin < wanted.size(); begin += together) {
    const auto some = std::span(wanted).subspan(begin, std::min(together, wanted.size() - begin));
    for (size_t r = 0; r < together; ++r)
      loaded_->memory().rows()[r] = static_cast<int32_t>(some[std::min(r, some.size() - 1)].row);
    SMELT_CHECK(together == 1 ? loaded_->run_head(extent, cancel) : loaded_->run_wide_head(extent, cancel));
    SMELT_CHECK(finish_runs());
    SMELT_TRY(logits, loaded_->read_logits(static_cast<int64_t>(some.size())));
    for (size_t r = 0; r < some.size(); ++r) sink(some[r].item, some[r].index, logits.subspan(r * width, width));
  }
  return {};
}

}  // namespace smelt
