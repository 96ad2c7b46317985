// The head for multi-token prediction (MTP) that some models have behind their last layer: it guesses the token after
// the next one. DeepSeek V3's scheme, with GGUF's names ("nextn"):
//
//   x_t = eh_proj [enorm(embedding of token t + 1), hnorm(output_norm(h_t))]      h_t: what the last layer gives
//   y_t = one more block of the model, with a cache of its own, at position t
//   logits of token t + 2 = output(shared_head_norm(y_t))
//
// Further tokens are guessed with y_t in place of h_t + 1. The block is the model's own, of layer number `layers`.
#pragma once

#include "model/model.h"

namespace smelt {

// Whether the model has such a head, of shapes and types that we compute with; else an Error says what is missing.
Status check_mtp(const GgufFile& file, const Model& model);

// Many tokens read HiddenIn row by row. A few tokens T name their rows (Rows, i32 [T]) of the ModelShape::hidden_rows
// of HiddenIn.
Segment mtp_input(const GgufFile& file, const Model& model, const ModelShape& shape);

// Logits [1, vocabulary] of the first of T tokens.
Segment mtp_head(const GgufFile& file, const Model& model, const ModelShape& shape);

}  // namespace smelt
