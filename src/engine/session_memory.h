// The memory of one session: everything that the plans read and write besides the weights.
//
// The cache is addressed through a page table. A single sequence uses its pages in order; one page more, at the end,
// takes the rows of padding tokens.
#pragma once

#include <vector>

#include "base/result.h"
#include "engine/plan.h"
#include "runtime/memory.h"

namespace smelt {

struct SessionLayout {
  int64_t context = 0;  // tokens the user may have
  int64_t positions =
      0;  // rows of the rope tables, cache rows: context in whole chunks, and the padding page
  int64_t page_entries = 0;
  int64_t prefill_tokens = 0;  // most tokens of one run, a multiple of 8
  int64_t logit_rows = 0;      // most rows of logits of one run

  static SessionLayout make(int64_t context, int64_t prefill_tokens);
  int64_t first_padding_position() const { return positions - kPageSize; }
};

class SessionMemory {
 public:
  static Result<SessionMemory> allocate(const Hyperparameters& model, const SessionLayout& layout,
                                        DType cache_type, int64_t arena_bytes);

  // Bytes that allocate() will ask for.
  static int64_t bytes(const Hyperparameters& model, const SessionLayout& layout, DType cache_type,
                       int64_t arena_bytes);

  // Memory of a slot of layer `layer`'s segment (any layer for embed and head). `flipped`: the two hidden buffers have
  // changed roles. REQUIRES: slot.kind is not Weight.
  void* resolve(const SlotBinding& slot, int64_t layer, bool flipped) const;

  int32_t* tokens() const { return tokens_; }
  int32_t* positions() const { return positions_; }
  int32_t* rows() const { return rows_; }
  float* logits() const { return logits_; }
  void* arena() const { return work_; }
  int64_t bytes() const { return static_cast<int64_t>(buffer_.size()); }

 private:
  Buffer buffer_;
  int32_t *tokens_ = nullptr, *positions_ = nullptr, *rows_ = nullptr, *tables_ = nullptr,
          *pages_ = nullptr;
  float *cos_ = nullptr, *sin_ = nullptr, *hidden_[2] = {}, *logits_ = nullptr;
  std::byte *cache_ = nullptr, *work_ = nullptr;
  int64_t layer_cache_bytes_ = 0;
  int64_t values_at_ = 0, scales_at_ = 0, key_scales_at_ = 0;  // in these
};

// Bytes that a position takes in the caches of all layers.
int64_t cache_row_bytes(const Hyperparameters& model, DType cache_type);

}  // namespace smelt
