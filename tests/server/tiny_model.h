// The small model, as tests of the server have it.
#pragma once

#include "gguf/gguf.h"
#include "text/tokenizer.h"

namespace smelt::test {

inline const GgufFile& tiny_file() {
  static const GgufFile file = GgufFile::open(SMELT_SOURCE_DIR "/models/tiny-glm-Q4_K_M.gguf").take();
  return file;
}

inline const Tokenizer& tiny_tokenizer() {
  static const Tokenizer tokenizer = Tokenizer::from_gguf(tiny_file()).take();
  return tokenizer;
}

}  // namespace smelt::test
