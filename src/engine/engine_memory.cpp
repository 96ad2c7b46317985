#include "engine/engine_memory.h"

#include <algorithm>
#include <bit>

#include "base/ensure.h"
#include "model/choice_graph.h"

namespace smelt {
namespace {

constexpr int64_t kAlign = 64;
constexpr int64_t kMostRows = 64;  // generated tokens of one run

// Hands out consecutive pieces; with no base it only counts.
class Pieces {
 public:
  explicit Pieces(std::byte* base) : base_(base) {}

  template <class T>
  T* take(int64_t count) {
    T* piece = base_ ? reinterpret_cast<T*>(base_ + used_) : nullptr;
    used_ += (count * static_cast<int64_t>(sizeof(T)) + kAlign - 1) / kAlign * kAlign + kAlign;
    return piece;
  }
  int64_t used() const { return used_; }

 private:
  std::byte* base_;
  int64_t used_ = 0;
};

int64_t bytes_of_state(const StatePart& part) { return part.width * static_cast<int64_t>(sizeof(float)); }

int64_t aligned(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

// Of caches and recurrent states of all layers.
int64_t kept_bytes(const Model& model, const EngineLayout& layout, DType type) {
  return cache_bytes(model, layout, type) + states_bytes(model, layout);
}

// No sequence has a page yet.
void write_tables(int32_t* entries, PageKind kind, const EngineLayout& layout) {
  std::fill_n(entries, layout.page_entries, layout.empty_page(kind));
  for (int64_t s = 0; s < layout.sequences; ++s)
    entries[layout.table(s) + layout.table_entries - 1] = layout.padding_page(kind);
}

// Of pages that `positions` neighbouring ones lie in, wherever they begin.
int64_t most_pages(int64_t positions) { return (positions + kPageSize - 2) / kPageSize + 1; }

}  // namespace

int64_t cache_bytes(const Model& model, const EngineLayout& layout, DType type) {
  int64_t bytes = 0;
  for (int64_t layer = 0; layer < model.numbers().layers + layout.more_layers; ++layer) {
    const int64_t rows = model.window(layer) ? layout.local_rows() : layout.cache_rows();
    for (const CachePart& part : model.cache_parts(type, layer)) bytes += aligned(rows * part.row_bytes);
  }
  return bytes;
}

int64_t states_bytes(const Model& model, const EngineLayout& layout) {
  int64_t bytes = 0;
  for (int64_t layer = 0; layer < model.numbers().layers + layout.more_layers; ++layer)
    for (const StatePart& part : model.state_parts(layer)) bytes += aligned(layout.states * bytes_of_state(part));
  return bytes;
}

EngineLayout EngineLayout::make(int64_t context, int64_t prefill_tokens, int64_t sequences, int64_t cache_tokens,
                                int64_t drafts, int64_t token_tile) {
  EngineLayout l{.context = context, .sequences = sequences, .token_tile = token_tile, .drafts = drafts};
  const int64_t rows = std::max(sequences, 1 + drafts);
  l.batch = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::min(rows, kMostRows))));
  const int64_t in_chunks = (context + kChunkSize - 1) / kChunkSize * kChunkSize;
  l.positions = in_chunks + kPageSize;
  l.table_entries = l.positions / kPageSize;
  l.page_entries = l.table_entries * sequences;
  const int64_t pages_of_one = in_chunks / kPageSize;
  l.cache_pages =
      cache_tokens == 0 ? pages_of_one * sequences : std::max(pages_of_one, (cache_tokens + kPageSize - 1) / kPageSize);
  const auto tiles = [&](int64_t tokens) { return (tokens + token_tile - 1) / token_tile; };
  l.prefill_tokens = std::max<int64_t>(1, std::min(tiles(prefill_tokens), tiles(context) * sequences)) * token_tile;
  return l;
}

void EngineLayout::add_states(int64_t steps) {
  back_steps = steps;
  const int64_t of_drafts = std::min(batch - 1, drafts * sequences);
  states = kFirstState + (2 + back_steps) * sequences + of_drafts + 4 + sequences;
}

// A sequence holds the pages of its window and, for drafts, of kPageSize positions more; in a run one more is begun,
// and what the run writes; and a page may be copied.
void EngineLayout::add_window(int64_t positions, std::optional<int64_t> kept) {
  window = positions;
  if (window == 0) return;
  const int64_t held = most_pages(window - 1 + kPageSize);
  const int64_t used = sequences * (held + 1) + (tokens() + kPageSize - 1) / kPageSize + 1;
  const int64_t spare = kept ? *kept * held : std::max((sequences + 4) * held, cache_pages / 16);
  local_pages = std::min(cache_pages, used + spare);
}

int64_t EngineMemory::bytes(const Model& model, const EngineLayout& l, DType cache_type, int64_t arena_bytes) {
  Pieces pieces(nullptr);
  for (int i = 0; i < 3; ++i) pieces.take<int32_t>(l.tokens());
  for (int i = 0; i < (l.states ? 3 : 1); ++i) pieces.take<int32_t>(l.tables());
  for (int i = 0; i < (l.window ? 2 : 1); ++i) pieces.take<int32_t>(l.page_entries);
  pieces.take<int64_t>(l.logit_rows() * kChoiceNumbers);
  for (const PositionTable& table : model.position_tables()) pieces.take<float>(l.positions * table.width);
  for (int i = 0; i < 2; ++i) pieces.take<float>(l.tokens() * model.numbers().hidden);
  pieces.take<float>(l.logit_rows() * model.numbers().vocabulary);
  pieces.take<int32_t>(2 * l.logit_rows());
  pieces.take<std::byte>(arena_bytes);
  pieces.take<std::byte>(kept_bytes(model, l, cache_type));
  return pieces.used();
}

Result<EngineMemory> EngineMemory::allocate(Device& device, const Model& model, const EngineLayout& l, DType cache_type,
                                            int64_t arena_bytes) {
  EngineMemory m;
  m.device_ = &device;
  const auto size = static_cast<size_t>(bytes(model, l, cache_type, arena_bytes));
  SMELT_TRY(memory, DeviceMemory::allocate(device, size, "the cache and the working memory"));
  m.memory_ = std::move(memory);
  m.place(model, l, cache_type, arena_bytes);
  write_tables(m.pages(), PageKind::Whole, l);
  if (l.window) write_tables(m.local_pages(), PageKind::Local, l);
  for (const PositionTable& table : model.position_tables()) {
    const std::vector<float> rows = table.rows(l.positions, l.context);
    SMELT_CHECK(device.upload(m.position_tables_.at(table.name), std::as_bytes(std::span(rows))));
  }
  return m;
}

void EngineMemory::place(const Model& model, const EngineLayout& l, DType cache_type, int64_t arena_bytes) {
  Pieces pieces(memory_.data());
  tokens_ = pieces.take<int32_t>(l.tokens());
  positions_ = pieces.take<int32_t>(l.tokens());
  rows_ = pieces.take<int32_t>(l.tokens());
  tables_ = pieces.take<int32_t>(l.tables());
  if (l.states) {
    states_in_ = pieces.take<int32_t>(l.tables());
    states_out_ = pieces.take<int32_t>(l.tables());
  }
  pages_ = pieces.take<int32_t>(l.page_entries);
  if (l.window) local_pages_ = pieces.take<int32_t>(l.page_entries);
  choices_ = pieces.take<int64_t>(l.logit_rows() * kChoiceNumbers);
  input_bytes_ = pieces.used();
  if (!device_->host_sees_memory() || device_->runs_ahead()) inputs_.resize(static_cast<size_t>(input_bytes_));
  for (const PositionTable& table : model.position_tables())
    position_tables_[table.name] = pieces.take<float>(l.positions * table.width);
  hidden_width_ = model.numbers().hidden;
  for (float*& h : hidden_) h = pieces.take<float>(l.tokens() * hidden_width_);
  vocabulary_ = model.numbers().vocabulary;
  logits_ = pieces.take<float>(l.logit_rows() * vocabulary_);
  chosen_ = pieces.take<int32_t>(2 * l.logit_rows());
  work_ = pieces.take<std::byte>(arena_bytes);
  place_kept(model, l, cache_type, pieces.take<std::byte>(kept_bytes(model, l, cache_type)));
}

void EngineMemory::place_kept(const Model& model, const EngineLayout& l, DType cache_type, std::byte* at) {
  for (int64_t layer = 0; layer < model.numbers().layers + l.more_layers; ++layer) {
    std::vector<Part>& parts = parts_.emplace_back();
    const auto add = [&](int64_t count, Part part) {
      at += aligned(count * part.bytes);
      parts.push_back(std::move(part));
    };
    const bool is_local = model.window(layer) > 0;
    const int64_t rows = is_local ? l.local_rows() : l.cache_rows();
    for (CachePart& part : model.cache_parts(cache_type, layer))
      add(rows / kPageSize, {.kind = is_local ? PartKind::Local : PartKind::Whole,
                             .name = std::move(part.name),
                             .begin = at,
                             .bytes = kPageSize * part.row_bytes,
                             .lines = part.lines});
    for (StatePart& part : model.state_parts(layer))
      add(l.states,
          {.kind = PartKind::State, .name = std::move(part.name), .begin = at, .bytes = bytes_of_state(part)});
  }
}

Status EngineMemory::send_inputs() { return inputs_.empty() ? Status() : device_->upload(memory_.data(), inputs_); }

Status EngineMemory::for_each(PartKind kind, const std::function<Status(const Part& part)>& f) const {
  for (const std::vector<Part>& of_layer : parts_)
    for (const Part& part : of_layer)
      if (part.kind == kind) SMELT_CHECK(f(part));
  return {};
}

Status EngineMemory::copy_page(PageKind kind, int32_t from, int32_t to) {
  return for_each(part_kind(kind), [&](const Part& part) -> Status {
    std::byte *source = part.begin + from * part.bytes, *target = part.begin + to * part.bytes;
    const auto bytes = static_cast<size_t>(part.bytes);
    if (device_->host_sees_memory() && !device_->runs_ahead()) return device_->upload(target, {source, bytes});
    page_on_host_.resize(bytes);
    SMELT_CHECK(device_->read_back(page_on_host_, source));
    return device_->upload(target, page_on_host_);
  });
}

// Lines that are cleared as a whole follow each other.
Status EngineMemory::clear_rows(PageKind kind, int32_t page, int64_t first) {
  return for_each(part_kind(kind), [&](const Part& part) -> Status {
    const int64_t pieces = first == 0 ? std::min<int64_t>(part.lines, 1) : part.lines;
    for (int64_t piece = 0; piece < pieces; ++piece) {
      const int64_t bytes = part.bytes / pieces, kept = bytes / kPageSize * first;
      std::byte* begin = part.begin + page * part.bytes + piece * bytes;
      SMELT_CHECK(device_->clear(begin + kept, static_cast<size_t>(bytes - kept)));
    }
    return {};
  });
}

int64_t EngineMemory::bytes_of(PartKind kind) const {
  int64_t bytes = 0;
  for (const std::vector<Part>& of_layer : parts_)
    for (const Part& part : of_layer)
      if (part.kind == kind) bytes += part.bytes;
  return bytes;
}

Status EngineMemory::read(PartKind kind, int32_t number, std::span<std::byte> bytes) {
  return for_each(kind, [&](const Part& part) -> Status {
    const auto piece = bytes.first(static_cast<size_t>(part.bytes));
    bytes = bytes.subspan(piece.size());
    return device_->read_back(piece, part.begin + number * part.bytes);
  });
}

Status EngineMemory::write(PartKind kind, int32_t number, std::span<const std::byte> bytes) {
  return for_each(kind, [&](const Part& part) -> Status {
    const auto piece = bytes.first(static_cast<size_t>(part.bytes));
    bytes = bytes.subspan(piece.size());
    return device_->upload(part.begin + number * part.bytes, piece);
  });
}

Result<std::span<const float>> EngineMemory::read_logits(int64_t rows) {
  return read_floats(logits_, rows * vocabulary_, logits_read_);
}

Result<std::span<const float>> EngineMemory::read_hidden(bool flipped, int64_t first, int64_t rows) {
  return read_floats(hidden_[flipped ? 1 : 0] + first * hidden_width_, rows * hidden_width_, hidden_read_);
}

Result<std::span<const float>> EngineMemory::read_floats(const float* floats, int64_t count,
                                                         std::vector<float>& on_host) const {
  if (device_->host_sees_memory()) return std::span<const float>(floats, static_cast<size_t>(count));
  on_host.resize(static_cast<size_t>(count));
  SMELT_CHECK(device_->read_back(std::as_writable_bytes(std::span(on_host)), floats));
  return std::span<const float>(on_host);
}

namespace {

template <class Part>
std::byte* begin_of(const std::vector<Part>& parts, const std::string& name) {
  const auto part = std::find_if(parts.begin(), parts.end(), [&](const Part& p) { return p.name == name; });
  ENSURE(part != parts.end(), "layers have no memory for " + name);
  return part->begin;
}

}  // namespace

void* EngineMemory::resolve(const SlotBinding& slot, int64_t layer, bool flipped) const {
  switch (slot.kind) {
    case Bound::Tokens: return tokens_;
    case Bound::Positions: return positions_;
    case Bound::Tables: return tables_;
    case Bound::Pages: return pages_;
    case Bound::LocalPages: return local_pages_;
    case Bound::Cache:
    case Bound::State: return begin_of(parts_[static_cast<size_t>(layer)], slot.name);
    case Bound::StatesIn: return states_in_;
    case Bound::StatesOut: return states_out_;
    case Bound::PositionTable: return position_tables_.at(slot.name);
    case Bound::HiddenIn: return hidden_[flipped ? 1 : 0];
    case Bound::HiddenOut: return hidden_[flipped ? 0 : 1];
    case Bound::Rows: return rows_;
    case Bound::Logits: return logits_;
    case Bound::Choices: return choices_;
    case Bound::Chosen: return chosen_;
    case Bound::Weight:
    case Bound::InputSums: break;
  }
  ENSURE(false, "neither weights nor sums of inputs are session memory");
}

}  // namespace smelt
