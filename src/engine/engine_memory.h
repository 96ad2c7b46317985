// The memory of an engine on its device: everything that the plans read and write besides the weights.
//
// The host writes inputs (tokens, positions, rows to make logits of, page tables) into memory of its own and sends them
// before a run; where it sees the memory of the device, and no run is ever under way meanwhile, that is the same
// memory.
//
// The cache is addressed through page tables, one for each sequence, which lie one behind the other. Two pages more, at
// the end of the cache, belong to nobody. One takes the rows of padding tokens: the last entry of each table names it.
// The other one is always empty: entries that a sequence does not use name it. What is read there is masked, but it has
// to be a finite number, and what padding tokens leave may be none.
//
// Layers with a window have buffers with room for fewer pages, local ones, and two more, too, and page tables of their
// own: an entry that no token can see any more names the empty local page (window_pages.h).
//
// Recurrent states lie in numbered places. A run reads those of its sequences in some places and leaves them in others:
// what it has read stays as it was. The first place holds the state before any token, zeros; the second one takes the
// states of padding tokens.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/plan.h"
#include "engine/state_pool.h"
#include "model/model.h"
#include "runtime/device.h"

namespace smelt {

// Layers without a window have these pages, those with one the others.
enum class PageKind { Whole, Local };

struct EngineLayout {
  int64_t context = 0;         // tokens that a sequence may have
  int64_t sequences = 1;       // at a time
  int64_t batch = 1;           // most generated tokens of one run, a power of 2
  int64_t positions = 0;       // rows of the tables by position: the context in whole chunks, and those for padding
  int64_t table_entries = 0;   // of one sequence
  int64_t page_entries = 0;    // of all tables
  int64_t cache_pages = 0;     // for sequences
  int64_t window = 0;          // positions that a token sees in layers with a window; 0: there are none
  int64_t local_pages = 0;     // of such layers, for sequences
  int64_t token_tile = 0;      // tokens of a prompt come in multiples of it, a multiple of 8
  int64_t prefill_tokens = 0;  // most tokens of a prompt of one run, a multiple of token_tile
  int64_t head_rows = 8;       // most rows of logits of one run over a prompt
  int64_t drafts = 0;          // see EngineOptions
  int64_t states = 0;          // places of recurrent states, those two included; 0: the model has none
  int64_t back_steps = 0;      // see EngineOptions
  int64_t more_layers = 0;     // with a cache, behind those of the model: of its head for multi-token prediction

  // `cache_tokens`: rows of the cache; 0: so that every sequence may fill its context. `drafts`: see EngineOptions.
  static EngineLayout make(int64_t context, int64_t prefill_tokens, int64_t sequences = 1, int64_t cache_tokens = 0,
                           int64_t drafts = 0, int64_t token_tile = kGroupSize);

  // Room for recurrent states: two for each sequence, as of a run, and those that it may go back to; one for each row
  // of a batch that verifies a draft; and some that are kept to go on from.
  void add_states(int64_t back_steps);

  // Room for local pages: those that sequences hold, what a run writes, and as many windows that are kept to go on
  // from; without a number as many as a recurrent model keeps states, or a sixteenth of the cache where that is more.
  void add_window(int64_t window, std::optional<int64_t> kept);

  int64_t first_padding_position() const { return positions - kPageSize; }
  int64_t pages(PageKind kind) const { return kind == PageKind::Whole ? cache_pages : local_pages; }
  int32_t padding_page(PageKind kind) const { return static_cast<int32_t>(pages(kind)); }
  int32_t empty_page(PageKind kind) const { return static_cast<int32_t>(pages(kind) + 1); }
  int64_t cache_rows() const { return (cache_pages + 2) * kPageSize; }
  int64_t local_rows() const { return window ? (local_pages + 2) * kPageSize : 0; }
  int64_t table(int64_t sequence) const { return sequence * table_entries; }  // where it begins
  // Most of one run.
  int64_t tokens() const { return std::max(prefill_tokens, batch); }
  int64_t tables() const { return std::max(prefill_tokens / kGroupSize, batch); }
  int64_t logit_rows() const { return std::max(head_rows, batch); }
};

class EngineMemory {
 public:
  // REQUIRES: the device outlives it.
  static Result<EngineMemory> allocate(Device& device, const Model& model, const EngineLayout& layout, DType cache_type,
                                       int64_t arena_bytes);

  // Bytes that allocate() will ask for.
  static int64_t bytes(const Model& model, const EngineLayout& layout, DType cache_type, int64_t arena_bytes);

  // Memory of a slot of layer `layer`'s segment (any layer for embed and head). `flipped`: the two hidden buffers have
  // changed roles. REQUIRES: slot.kind is neither Weight nor InputSums.
  void* resolve(const SlotBinding& slot, int64_t layer, bool flipped) const;

  // Inputs, for the host to write. Those of states are there for a model that has them.
  int32_t* tokens() { return on_host(tokens_); }
  int32_t* positions() { return on_host(positions_); }
  int32_t* tables() { return on_host(tables_); }
  int32_t* rows() { return on_host(rows_); }
  int32_t* pages() { return on_host(pages_); }
  int32_t* local_pages() { return on_host(local_pages_); }  // for a model with windows
  int32_t* states_in() { return on_host(states_in_); }
  int32_t* states_out() { return on_host(states_out_); }
  // kChoiceNumbers of each row.
  int64_t* choices() { return on_host(choices_); }
  // What a run has chosen, on the device: Bound::Chosen.
  const int32_t* chosen() const { return chosen_; }
  // What was written there reaches the device.
  Status send_inputs();
  // The first `rows` rows of logits of the last run, valid until the next one. REQUIRES: it is done.
  Result<std::span<const float>> read_logits(int64_t rows);
  // Likewise rows from `first` on of Bound::HiddenIn.
  Result<std::span<const float>> read_hidden(bool flipped, int64_t first, int64_t rows);

  // The rows of a page, in all parts of the cache of all layers that have such pages.
  Status copy_page(PageKind kind, int32_t from, int32_t to);
  // Those from `first` on become zeros, but for what is finite anyhow (CachePart::lines).
  Status clear_rows(PageKind kind, int32_t page, int64_t first);
  // They as bytes. REQUIRES: `rows` has page_bytes().
  int64_t page_bytes(PageKind kind) const { return bytes_of(part_kind(kind)); }
  Status read_page(PageKind kind, int32_t page, std::span<std::byte> rows) { return read(part_kind(kind), page, rows); }
  Status write_page(PageKind kind, int32_t page, std::span<const std::byte> rows) {
    return write(part_kind(kind), page, rows);
  }

  // The parts of a recurrent state of all layers as bytes. REQUIRES: `bytes` has state_bytes().
  int64_t state_bytes() const { return bytes_of(PartKind::State); }
  Status read_state(int32_t state, std::span<std::byte> bytes) { return read(PartKind::State, state, bytes); }
  Status write_state(int32_t state, std::span<const std::byte> bytes) { return write(PartKind::State, state, bytes); }

  void* arena() const { return work_; }
  int64_t bytes() const { return static_cast<int64_t>(memory_.size()); }

 private:
  // Where the host writes what lies at an address of the inputs.
  template <class T>
  T* on_host(T* input) {
    if (inputs_.empty()) return input;
    return reinterpret_cast<T*>(inputs_.data() + (reinterpret_cast<std::byte*>(input) - memory_.data()));
  }
  // A buffer of pages, or of states.
  enum class PartKind { Whole, Local, State };
  struct Part {
    PartKind kind;
    std::string name;
    std::byte* begin = nullptr;
    int64_t bytes = 0;  // of one of them
    int64_t lines = 0;  // of a page
  };

  static PartKind part_kind(PageKind kind) { return kind == PageKind::Whole ? PartKind::Whole : PartKind::Local; }
  int64_t bytes_of(PartKind kind) const;
  Status for_each(PartKind kind, const std::function<Status(const Part& part)>& f) const;
  Status read(PartKind kind, int32_t number, std::span<std::byte> bytes);
  Status write(PartKind kind, int32_t number, std::span<const std::byte> bytes);
  Result<std::span<const float>> read_floats(const float* floats, int64_t count, std::vector<float>& on_host) const;
  void place(const Model& model, const EngineLayout& layout, DType cache_type, int64_t arena_bytes);
  void place_kept(const Model& model, const EngineLayout& layout, DType cache_type, std::byte* at);

  Device* device_ = nullptr;
  DeviceMemory memory_;
  std::vector<std::byte> inputs_;  // of the host; empty: they are written where they are read
  std::vector<float> logits_read_, hidden_read_;
  int64_t input_bytes_ = 0, vocabulary_ = 0, hidden_width_ = 0;
  int32_t *tokens_ = nullptr, *positions_ = nullptr, *rows_ = nullptr, *tables_ = nullptr, *pages_ = nullptr,
          *local_pages_ = nullptr, *states_in_ = nullptr, *states_out_ = nullptr, *chosen_ = nullptr;
  int64_t* choices_ = nullptr;
  float *hidden_[2] = {}, *logits_ = nullptr;
  std::map<std::string, float*> position_tables_;
  std::byte* work_ = nullptr;
  std::vector<std::vector<Part>> parts_;  // by layer
  std::vector<std::byte> page_on_host_;
};

// Bytes of the caches of all layers.
int64_t cache_bytes(const Model& model, const EngineLayout& layout, DType cache_type);
// Of their recurrent states.
int64_t states_bytes(const Model& model, const EngineLayout& layout);

}  // namespace smelt
