// Gated delta net: in place of a cache a layer keeps one matrix for each head, which every token of a sequence changes
// (Yang, Kautz and Hatamizadeh, arXiv 2412.06464; with the rule of Schlag, Irie and Schmidhuber, arXiv 2102.11174).
//
//   u = silu(convolution of the last `taps` rows of x Wqkv)          each column for itself
//   q, k, v = heads of u; q, k of length 1, q / sqrt(width)
//   S = decay S + k (beta (v - decay S' k))'                          decay = exp(a softplus(x Wa + b)), beta = sigmoid
//   out = (rms norm(S' q) * silu(x Wz)) Wo
//
// Value head j goes with key head j % key_heads, or, where value heads are grouped, with the key head of its group. A
// sequence has two states in a layer: S of all heads, and the rows of x Wqkv that the convolution of its next token
// reads.
#pragma once

#include "model/attention.h"

namespace smelt {

struct DeltaNetParameters {
  int64_t key_heads = 0;
  int64_t value_heads = 0;  // a multiple of key_heads
  int64_t width = 0;        // of the heads of keys and of values
  int64_t taps = 0;         // rows that the convolution reads, the token's own included
  // Value heads of one key head are neighbours. Then their rows of beta and alpha are one matrix, ssm_ba: of each key
  // head first those of beta.
  bool is_grouped = false;
  // In older files so are Wqkv and Wz, ssm_in: of each key head its query, its key, its values and their rows of z.
  bool has_joint_input = false;

  int64_t mixed_width() const { return (2 * key_heads + value_heads) * width; }
  int64_t inner() const { return value_heads * width; }
  int64_t values_per_key() const { return value_heads / key_heads; }
};

// Layer 0 is one.
DeltaNetParameters read_delta_net(Keys& keys, bool is_grouped);
void write_delta_net(KeyWriter& out, const DeltaNetParameters& net);

std::vector<TensorShape> delta_net_tensors(const DeltaNetParameters& net, int64_t hidden);
std::vector<StatePart> delta_net_states(const DeltaNetParameters& net);

// normed [T, D]. Tokens of a prompt are parts of sequences that differ, in whole groups, some at the end of a part for
// padding. Of a group that goes on with the part of the group before, StatesIn is -1. Other tokens are of sequences
// that differ, or also of such parts, without groups, see rows_follow: then each leaves its own state. What it leaves
// behind are states in place of a cache.
Attended delta_net(Block& b, const DeltaNetParameters& net, Tensor normed);

}  // namespace smelt
