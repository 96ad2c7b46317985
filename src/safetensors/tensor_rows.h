// Tensors of a folder in the form that GGUF files have them: other orders of rows, other numbers, several as one.
#pragma once

#include <string>
#include <vector>

#include "safetensors/tensor_table.h"

namespace smelt {

// A tensor with bytes of its own. `name` is that of the GGUF file.
struct MadeTensor {
  std::string name;
  std::vector<uint64_t> dims;  // fastest first
  GgufType type = GgufType::F32;
  std::string bytes;
};

// In each head: row i of the first half, row i of the second, and so on, in place of one half behind the other.
// REQUIRES: heads * 2 divides the rows.
std::string with_pairs(const StoredTensor& tensor, int64_t heads);

// As floats of 32 bits, each with `offset` added.
std::string as_f32(const StoredTensor& tensor, float offset);

// One matrix behind the other, as they come. An Error where one is missing (without data) or they differ.
Result<MadeTensor> stacked(const std::string& name, const std::vector<StoredTensor>& pieces);

// The matrix of all heads that makes keys and values of latents, its rows those of a head's key, then of its value:
// "attn_kv_b" as "attn_k_b", of each head and transposed, and "attn_v_b".
Result<std::vector<MadeTensor>> keys_and_values(const std::string& name, const StoredTensor& both, int64_t heads,
                                                int64_t key_rows, int64_t value_rows);

// Values of 4 bits, two neighbours in a byte, with a scale for 32 of them: blocks of MXFP4.
// blocks [experts, rows, groups, 16], scales [experts, rows, groups]
Result<MadeTensor> mxfp4_blocks(const std::string& name, const StoredTensor& blocks, const StoredTensor& scales);

// Heads of a delta net.
struct NetHeads {
  uint64_t keys = 0, values = 0, width = 0;  // keys divides values
};

// A tensor of delta nets, named as in GGUF files, with value heads by turns, one of each key head, in place of those of
// one key head as neighbours. Others stay as they are. An Error where its size is not that of the heads.
Status take_turns(MadeTensor& tensor, const NetHeads& heads);

// Decay rates of delta nets, which folders have as logarithms: minus their exponentials, as floats of 32 bits.
std::string decay_rates(const StoredTensor& logarithms);

// Stacks "ffn_gate_up_exps" whose matrices have the rows of a gate and then those of what it opens, as two stacks.
Result<std::vector<MadeTensor>> gate_then_up(const std::string& name, const StoredTensor& both);

// Rows of "ffn_gate_up_exps" that are of a gate and of what it opens by turns, as two tensors of half as many.
Result<std::vector<MadeTensor>> gate_and_up(const MadeTensor& both);

}  // namespace smelt
