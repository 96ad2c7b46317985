// The parts of a transformer block: which of them a launch works for, and what they have to move and to compute.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/cache_reads.h"
#include "engine/profile.h"
#include "gguf/gguf.h"
#include "model/model.h"

namespace smelt {

// In the order in which a token meets them.
enum class BlockPart { Attention, Router, Experts, SharedExpert, DenseNetwork };
const char* name_of(BlockPart part);  // "shared expert"

// Of the time of one launch. A launch that reads weights of several parts is divided among them.
using PartShares = std::map<BlockPart, double>;

struct BlockLaunch {
  int64_t layer = -1;  // -1: of no block
  PartShares shares;   // they add up to 1
};

// For a run that computes `tokens` tokens at once. One token is divided by the bytes of the weights, which it waits
// for; many tokens by multiply-adds. Launches without weights (of the cache: attention) belong to the part before
// them.
std::vector<BlockLaunch> parts_of(const std::vector<PlanLaunch>& launches, const GgufFile& file, const Model& model,
                                  int64_t tokens);

// What a part has to do at least, however it is computed.
struct PartWork {
  double bytes = 0;          // of weights, and of cache rows that attention reads
  double multiply_adds = 0;  // with weights
};

// Of a layer, with what it reads of the cache, while `tokens` tokens at once follow after `position` others. A few
// tokens do not reach all experts: it counts as many as they reach on average when each chooses at random.
std::map<BlockPart, PartWork> work_of(int64_t layer, const GgufFile& file, const Model& model, int64_t tokens,
                                      int64_t position, const CacheReads& reads);

// Layers that are alike: the same kind of network, and the same types of all tensors.
struct BlockKind {
  std::string name;  // "dense block", "MoE block", "MoE block, ffn_down_exps Q6_K"
  std::vector<int64_t> layers;
};
std::vector<BlockKind> block_kinds(const GgufFile& file, const Model& model);

}  // namespace smelt
