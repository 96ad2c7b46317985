// The tokenizer of a model of random weights: byte-level BPE, as large as the model's vocabulary.
//
//   256 bytes, then " e", " t" ... "zz", then pairs of these, " eee" ... "zzzz", until three control tokens are left
#pragma once

#include <cstdint>

#include "gguf/head.h"

namespace smelt {

// Adds tokens, merges and a chat template. REQUIRES: 259 <= size <= 475,513.
void write_synthetic_vocabulary(int64_t size, NewMetadata& out);

}  // namespace smelt
