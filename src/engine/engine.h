// Engine: one loaded model that computes for many sequences. A step takes tokens of some of them, prompts and generated
// ones mixed, and hands out the logits that are wanted. What a sequence gets has the same bits whatever is computed
// beside it, in whichever steps and batches, but where large batches multiply halves (EngineOptions::deterministic).
//
//   engine = Engine::open(file, {.context = 8192, .sequences = 16}, hooks)
//   [id, found] = engine->start(prompt)              what the cache has of a prompt is not computed again
//   engine->step(items, sink)                        the rest of this prompt, beside what others have generated
//   engine->stop(id)                                 its rows stay in the cache until their room is needed
//
// One thread at a time calls an engine; a `cancel` may be set by any.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/loaded_model.h"
#include "engine/page_pool.h"
#include "engine/token_choice.h"

namespace smelt {

using SequenceId = int32_t;

enum class WantedLogits { None, Last, All };  // of which tokens of an item

// What a step does for one sequence.
//
// Tokens come in two ways, which may differ in how sums are made, so that the caller says which: those of a prompt,
// many at once, and generated ones. What is read in one way gives the same bits however it is divided among steps.
struct StepItem {
  SequenceId sequence = 0;
  std::span<const int32_t> tokens = {};  // not empty
  bool is_generated = false;
  WantedLogits logits = WantedLogits::Last;
  // When it becomes true, the work for this item ends: within a kernel, or before the next run of a plan where others,
  // with other flags, take part in this one.
  const std::atomic<bool>* cancel = nullptr;
};

enum class StepOutcome {
  Done,
  NoRoom,     // the cache is full of what others use: nothing was done, and the sequence stands as before
  Cancelled,  // the sequence stands behind the last of its tokens that were finished
};

class Engine {
 public:
  // The logits of tokens[index] of an item, valid until the sink is called again or the next step begins.
  using LogitsSink = std::function<void(size_t item, int64_t index, std::span<const float> logits)>;

  // REQUIRES: `file` outlives the engine.
  static Result<std::unique_ptr<Engine>> open(const GgufFile& file, const EngineOptions& options,
                                              const OpenHooks& hooks);

  int64_t context() const { return loaded_->layout().context; }  // most tokens of a sequence
  int64_t most_sequences() const { return loaded_->layout().sequences; }
  int64_t free_sequences() const { return std::count(sequences_.begin(), sequences_.end(), std::nullopt); }
  int64_t vocabulary_size() const { return loaded_->model().numbers().vocabulary; }
  const PagePool& pool() const { return pool_; }
  // The model, its plans and what they cost.
  LoadedModel& loaded() { return *loaded_; }
  const LoadedModel& loaded() const { return *loaded_; }

  struct Started {
    SequenceId id = 0;
    int64_t found = 0;  // tokens of the prompt that the cache has; the others are for step()
  };
  // A new sequence that begins with as much of a prompt as the cache has, but for its last token, whose logits somebody
  // will want. An Error if there are as many sequences as there may be.
  Result<Started> start(std::span<const int32_t> prompt = {}, const PrefixReuse& reuse = {});
  // Another one with the tokens of a sequence, which shares its rows.
  Result<SequenceId> fork(SequenceId sequence);
  // Forgets what comes after `position`. A model with recurrent states keeps them at few positions, one whose layers
  // have windows not all rows of these (docs/design.md): it goes back to the last place where it can go on, and
  // position() says which. As far as the generated tokens of the last run go, a step's of up to EngineLayout::batch, it
  // always can.
  // REQUIRES: position <= this->position(sequence)
  void rewind(SequenceId sequence, int64_t position);
  // Ends a sequence. Its pages are free for others at once, and what it has computed can be found, but for what is no
  // finite number and came in a run with such tokens.
  void stop(SequenceId sequence);

  int64_t position(SequenceId sequence) const { return run_of(sequence).size(); }  // tokens in its context
  std::span<const CachedToken> tokens(SequenceId sequence) const { return run_of(sequence).tokens(); }

  // --- rows of a sequence as bytes, to keep them elsewhere (cache_file.h)

  // They come in pieces: its pages from the begin, local pages of its end where layers have windows, and the recurrent
  // state behind its tokens where the model has one.
  struct Pieces {
    int64_t tokens = 0;
    int64_t pages = 0, page_bytes = 0;
    int64_t local_pages = 0, local_page_bytes = 0;  // those in front of the end
    int64_t state_bytes = 0;

    int64_t count() const { return pages + local_pages + (state_bytes > 0); }
    int64_t bytes(int64_t piece) const {
      return piece < pages ? page_bytes : piece < pages + local_pages ? local_page_bytes : state_bytes;
    }
  };
  Pieces pieces(SequenceId sequence) const;
  // Those that a sequence of so many tokens may have. An Error: it could not go on with so many local pages.
  Result<Pieces> pieces_of(int64_t tokens, int64_t local_pages) const;
  // REQUIRES: bytes has pieces(sequence).bytes(piece).
  Status read_piece(SequenceId sequence, int64_t piece, std::span<std::byte> bytes);
  // Fills in a piece.
  using PieceSource = std::function<Status(int64_t piece, std::span<std::byte> bytes)>;
  // A sequence without tokens gets these, with what read_piece() gave. An Error, and it has none, if there is no room,
  // a token is not in the vocabulary, or `source` has one. REQUIRES: `pieces` are those of so many tokens.
  Status restore(SequenceId sequence, std::span<const CachedToken> tokens, const Pieces& pieces,
                 const PieceSource& source);

  // Appends the tokens of all items, generated ones first, then prompts: of several sequences together. The outcome of
  // each item; an Error, before anything is done, if tokens are not in the vocabulary or do not fit the context, if a
  // sequence appears twice or not at all; and an Error if the device fails: then sequences may stand further back.
  Result<std::vector<StepOutcome>> step(std::span<const StepItem> items, const LogitsSink& sink);

  // --- steps whose tokens are chosen on the device, so that they follow each other without the host in between

  // A generated token, and how the one behind it is chosen.
  struct ChainItem {
    SequenceId sequence = 0;
    std::optional<int32_t> token = {};  // nothing: what was chosen for this sequence by the step begun last
    TokenChoice choice = {};
  };
  bool chooses_tokens() const { return loaded_->chooses_tokens(); }
  // Steps that may be begun and not taken: the device has work while the host looks at what the first one has chosen.
  static constexpr int64_t kMostBegun = 2;
  int64_t begun() const { return std::ssize(chain_); }
  // Begins a step. False, and nothing was done: the cache or a context is full. An Error as of step().
  // REQUIRES: chooses_tokens(), begun() < kMostBegun, items are no more than a batch, and one for a sequence.
  Result<bool> begin(std::span<const ChainItem> items);
  // What was chosen for an item: nothing, if it was dropped, or an Error where logits are no finite numbers.
  using Chosen = std::optional<Result<int32_t>>;
  // Waits for the step that was begun first, by item. Its sequences have their tokens then. An Error if the device
  // failed: nothing is begun any more. REQUIRES: begun() > 0
  Result<std::vector<Chosen>> take();
  // Nobody wants what was begun for a sequence and not taken yet.
  void drop(SequenceId sequence);
  // Waits for all that was begun. REQUIRES: every sequence of it was dropped.
  Status settle();

  // Takes logits and gives the token that a draft goes on with; nothing: it ends.
  using ChooseDraft = std::function<std::optional<int32_t>(std::span<const float> logits)>;

  // Up to `most` tokens that may follow `next`, which itself follows the sequence, as the model's head for multi-token
  // prediction guesses them (EngineOptions::mtp). It reads what the last step has left of its last tokens, so it gives
  // nothing where that step, or its last run, was about others. Rows of the head's cache that several sequences share
  // are written by each of them: a guess may suffer, a text does not. An Error if the device fails.
  Result<std::vector<int32_t>> draft(SequenceId sequence, int32_t next, int64_t most, const ChooseDraft& choose,
                                     const std::atomic<bool>* cancel = nullptr);

 private:
  explicit Engine(std::unique_ptr<LoadedModel> loaded);

  // A generated token on its way through a plan.
  struct Row {
    size_t item = 0;
    int64_t index = 0;  // in the item's tokens
    int64_t position = 0;
  };

  PageRun& run_of(SequenceId sequence);
  const PageRun& run_of(SequenceId sequence) const { return const_cast<Engine*>(this)->run_of(sequence); }
  Status check(std::span<const StepItem> items) const;
  Result<SequenceId> free_sequence() const;
  Result<StepOutcome> make_room(SequenceId sequence, int64_t tokens);
  Status copy_pages();
  Status write_piece(SequenceId sequence, const Pieces& pieces, int64_t piece, std::span<const std::byte> bytes);
  Status reserve_window(SequenceId sequence, int64_t first, int64_t count);
  Status clear(PageKind kind, int32_t page, int64_t first);
  Status clear_behind(SequenceId sequence, int64_t first, int64_t count);
  int64_t& rows_of(PageKind kind, int32_t page) {
    return (kind == PageKind::Whole ? rows_ : local_rows_)[static_cast<size_t>(page)];
  }
  Status prepare(SequenceId sequence, int64_t first, int64_t count);
  void write_table(SequenceId sequence);
  void write_local_table(SequenceId sequence);
  bool has_states() const { return loaded_->layout().states > 0; }
  void write_states(SequenceId sequence, int64_t index, int64_t number);
  Status check_table(SequenceId sequence, int64_t first, int64_t count) const;

  // Tokens whose rows a run of this step is to write, and which the sequence has once that is done.
  struct Begun {
    SequenceId sequence = 0;
    std::vector<CachedToken> tokens;
    std::optional<int64_t> row;  // of the first one's hidden values, while these are there
    bool keeps_state = false;
  };
  Status begin_run(const std::function<bool(SequenceId)>& takes_part);
  Status finish_runs();
  Result<bool> is_finite(const Begun& begun);

  Status step_generated(std::span<const StepItem> items, std::vector<StepOutcome>& outcomes, const LogitsSink& sink);
  Status run_batch(std::span<const StepItem> items, std::vector<Row> rows, std::vector<StepOutcome>& outcomes,
                   const LogitsSink& sink);
  Status write_rows(std::span<const StepItem> items, std::span<const Row> rows);
  void write_padding(int64_t first, int64_t batch);
  void write_row(int64_t row, SequenceId sequence, int32_t token, int64_t position);

  // A step that was begun and not taken.
  struct Chained {
    struct Entry {
      std::optional<SequenceId> sequence;  // nothing: it was dropped
      std::optional<int32_t> token;        // nothing: not known before the step before is taken
    };
    std::vector<Entry> entries;   // by row
    std::vector<int32_t> chosen;  // by row, then how many of its logits are no finite numbers
    uint64_t run = 0;
  };
  int64_t ahead_of(SequenceId sequence) const;
  Result<int32_t> token_of(const ChainItem& item) const;
  void write_choice(int64_t row, const TokenChoice& choice);
  Result<int32_t> chosen_in(const Chained& step, size_t row) const;
  static bool wants_logits(std::span<const StepItem> items, const Row& row);
  Status report_batch(std::span<const StepItem> items, std::span<const Row> rows, const LogitsSink& sink);

  // Neighbouring tokens of a prompt, in a run of several.
  struct Part {
    size_t item = 0;
    int64_t index = 0, count = 0;  // in the item's tokens
    int64_t row = 0;               // of the run: that of the first one, at the begin of a group
    int64_t position = 0;          // in the sequence, of the first one
  };
  struct Wanted {
    size_t item = 0;
    int64_t index = 0, row = 0;
  };

  Status step_prompts(std::span<const StepItem> items, std::vector<StepOutcome>& outcomes, const LogitsSink& sink);
  Status run_parts(std::span<const StepItem> items, std::span<const Part> parts, std::vector<StepOutcome>& outcomes,
                   const LogitsSink& sink);
  bool keeps_state(const StepItem& item, const Part& part) const;
  void keep_windows(const StepItem& item, const Part& part);
  Status write_parts(std::span<const StepItem> items, std::span<const Part> parts);
  Status report_parts(std::span<const StepItem> items, std::span<const Part> parts, const LoadedModel::Extent& extent,
                      const std::atomic<bool>* cancel, const LogitsSink& sink);

  // A row of hidden values that the last run has left.
  struct HiddenRow {
    SequenceId sequence = 0;
    int64_t position = 0, row = 0;
  };
  Status draft_parts(std::span<const StepItem> items, std::span<const Part> parts, const LoadedModel::Extent& extent,
                     const std::atomic<bool>* cancel);
  // The last tokens of a sequence whose rows are there, the last one first.
  std::vector<HiddenRow> rows_to_draft_from(SequenceId sequence) const;
  Result<std::span<const float>> run_draft(SequenceId sequence, std::span<const HiddenRow> rows,
                                           std::span<const int32_t> tokens, const std::atomic<bool>* cancel);

  std::unique_ptr<LoadedModel> loaded_;
  PagePool pool_;
  std::vector<std::optional<PageRun>> sequences_;  // by id
  std::vector<PageCopy> copies_;
  std::vector<int64_t> rows_, local_rows_;                  // of each page: those that may hold something
  std::vector<size_t> table_entries_;                       // of each sequence: those that name its pages
  std::vector<std::pair<int64_t, int64_t>> local_entries_;  // likewise, from the first up to the second
  std::vector<HiddenRow> hidden_rows_;
  std::vector<Begun> begun_;
  std::deque<Chained> chain_;
};

}  // namespace smelt
