#include "engine/session_memory.h"

#include <algorithm>

#include "base/ensure.h"

namespace smelt {
namespace {

constexpr int64_t kAlign = 64;

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

int64_t aligned(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

// What a position takes in each part of the cache of a layer. Bytes have values and scales of their own.
struct RowBytes {
  int64_t rows, values = 0, scale = 0;  // there are two scales
};

RowBytes row_bytes(const Hyperparameters& model, DType type) {
  RowBytes bytes{.rows = model.cache_width() * size_of(type)};
  if (type == DType::U8) {
    bytes.values = model.kv_lora;
    bytes.scale = static_cast<int64_t>(sizeof(float));
  }
  return bytes;
}

// Where the parts of the cache of a layer begin, and its size.
struct CacheParts {
  int64_t values, scales, key_scales, bytes;
};

CacheParts cache_parts(const Hyperparameters& model, const SessionLayout& layout, DType type) {
  const RowBytes row = row_bytes(model, type);
  const int64_t values = aligned(layout.positions * row.rows),
                scales = values + aligned(layout.positions * row.values),
                key_scales = scales + aligned(layout.positions * row.scale);
  return {values, scales, key_scales, key_scales + aligned(layout.positions * row.scale)};
}

}  // namespace

int64_t cache_row_bytes(const Hyperparameters& model, DType type) {
  const RowBytes row = row_bytes(model, type);
  return model.layers * (row.rows + row.values + 2 * row.scale);
}

SessionLayout SessionLayout::make(int64_t context, int64_t prefill_tokens) {
  SessionLayout l{.context = context};
  l.positions = (context + kChunkSize - 1) / kChunkSize * kChunkSize + kPageSize;
  l.page_entries = l.positions / kPageSize;
  l.prefill_tokens = std::max<int64_t>(8, (std::min(prefill_tokens, context) + 7) / 8 * 8);
  l.logit_rows = 8;
  return l;
}

int64_t SessionMemory::bytes(const Hyperparameters& model, const SessionLayout& l, DType cache_type,
                             int64_t arena_bytes) {
  Pieces pieces(nullptr);
  for (int i = 0; i < 3; ++i) pieces.take<int32_t>(l.prefill_tokens);
  pieces.take<int32_t>(1);
  pieces.take<int32_t>(l.page_entries);
  for (int i = 0; i < 2; ++i) pieces.take<float>(l.positions * model.rope / 2);
  for (int i = 0; i < 2; ++i) pieces.take<float>(l.prefill_tokens * model.hidden);
  pieces.take<float>(l.logit_rows * model.vocabulary);
  pieces.take<std::byte>(arena_bytes);
  pieces.take<std::byte>(model.layers * cache_parts(model, l, cache_type).bytes);
  return pieces.used();
}

Result<SessionMemory> SessionMemory::allocate(const Hyperparameters& model, const SessionLayout& l,
                                              DType cache_type, int64_t arena_bytes) {
  SessionMemory m;
  SMELT_TRY(buffer,
            Buffer::allocate(static_cast<size_t>(bytes(model, l, cache_type, arena_bytes))));
  m.buffer_ = std::move(buffer);
  Pieces pieces(m.buffer_.data());
  m.tokens_ = pieces.take<int32_t>(l.prefill_tokens);
  m.positions_ = pieces.take<int32_t>(l.prefill_tokens);
  m.rows_ = pieces.take<int32_t>(l.prefill_tokens);
  m.tables_ = pieces.take<int32_t>(1);
  m.pages_ = pieces.take<int32_t>(l.page_entries);
  m.cos_ = pieces.take<float>(l.positions * model.rope / 2);
  m.sin_ = pieces.take<float>(l.positions * model.rope / 2);
  for (float*& h : m.hidden_) h = pieces.take<float>(l.prefill_tokens * model.hidden);
  m.logits_ = pieces.take<float>(l.logit_rows * model.vocabulary);
  m.work_ = pieces.take<std::byte>(arena_bytes);
  const CacheParts parts = cache_parts(model, l, cache_type);
  m.layer_cache_bytes_ = parts.bytes;
  m.values_at_ = parts.values;
  m.scales_at_ = parts.scales;
  m.key_scales_at_ = parts.key_scales;
  m.cache_ = pieces.take<std::byte>(model.layers * m.layer_cache_bytes_);

  const RopeTables tables = rope_tables(model, l.positions);
  std::copy(tables.cos.begin(), tables.cos.end(), m.cos_);
  std::copy(tables.sin.begin(), tables.sin.end(), m.sin_);
  for (int64_t p = 0; p < l.page_entries; ++p) m.pages_[p] = static_cast<int32_t>(p);
  return m;
}

void* SessionMemory::resolve(const SlotBinding& slot, int64_t layer, bool flipped) const {
  switch (slot.kind) {
    case Bound::Tokens: return tokens_;
    case Bound::Positions: return positions_;
    case Bound::Tables: return tables_;
    case Bound::Pages: return pages_;
    case Bound::Cache: return cache_ + layer * layer_cache_bytes_;
    case Bound::CacheValues: return cache_ + layer * layer_cache_bytes_ + values_at_;
    case Bound::CacheScales: return cache_ + layer * layer_cache_bytes_ + scales_at_;
    case Bound::CacheKeyScales: return cache_ + layer * layer_cache_bytes_ + key_scales_at_;
    case Bound::RopeCos: return cos_;
    case Bound::RopeSin: return sin_;
    case Bound::HiddenIn: return hidden_[flipped ? 1 : 0];
    case Bound::HiddenOut: return hidden_[flipped ? 0 : 1];
    case Bound::Rows: return rows_;
    case Bound::Logits: return logits_;
    case Bound::Weight: break;
  }
  ENSURE(false, "a weight is not session memory");
}

}  // namespace smelt
