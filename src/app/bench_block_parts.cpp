#include "app/bench_block_parts.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace smelt {
namespace {

constexpr double kLeastShare = 0.03;  // below, a part is a guest in another one's kernel: a norm, say

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

std::optional<BlockPart> part_of(const std::string& tensor, bool is_moe) {
  if (tensor.starts_with("attn_") || tensor.starts_with("cache")) return BlockPart::Attention;
  if (contains(tensor, "_shexp")) return BlockPart::SharedExpert;
  if (contains(tensor, "_exps")) return BlockPart::Experts;
  if (tensor.starts_with("ffn_gate_inp") || tensor.starts_with("exp_probs")) return BlockPart::Router;
  if (tensor.starts_with("ffn_norm")) return is_moe ? BlockPart::Router : BlockPart::DenseNetwork;
  if (tensor.starts_with("ffn_")) return BlockPart::DenseNetwork;
  return std::nullopt;
}

// The part of a weight that is read by some tokens together, each of which reads `share` of it.
double reached(double share, int64_t tokens) { return 1 - std::pow(1 - share, static_cast<double>(tokens)); }

PartWork work_of_weight(const GgufTensor& tensor, double share, int64_t tokens) {
  return {static_cast<double>(tensor.bytes) * reached(share, tokens),
          static_cast<double>(tensor.elements()) * share * static_cast<double>(tokens)};
}

double sum_of(const PartShares& shares) {
  double sum = 0;
  for (const auto& [part, share] : shares) sum += share;
  return sum;
}

// Drops what hardly counts and makes the rest add up to 1.
PartShares normalised(PartShares shares) {
  if (sum_of(shares) == 0)  // no weights: of equal importance
    for (auto& [part, share] : shares) share = 1;
  const double least = kLeastShare * sum_of(shares);
  std::erase_if(shares, [&](const auto& s) { return s.second < least; });
  const double sum = sum_of(shares);
  for (auto& [part, share] : shares) share /= sum;
  return shares;
}

BlockPart greatest(const PartShares& shares) {
  return std::max_element(shares.begin(), shares.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

// Of one layer's weights, by name.
std::map<std::string, double> shares_of_read(const Model& model, int64_t layer) {
  std::map<std::string, double> shares;
  for (const TensorShape& t : model.layer_tensors(layer)) shares[t.name] = t.share_of_read;
  return shares;
}

// "name type" of the largest tensor whose type is not the same in all of some layers.
std::string largest_difference(const GgufFile& file, const Model& model, int64_t layer,
                               const std::vector<int64_t>& among) {
  std::string text;
  uint64_t most = 0;
  for (const TensorShape& t : model.layer_tensors(layer)) {
    const GgufTensor& mine = *file.find(layer_prefix(layer) + t.name);
    const bool differs = std::any_of(among.begin(), among.end(), [&](int64_t other) {
      return file.find(layer_prefix(other) + t.name)->type != mine.type;
    });
    if (!differs || mine.bytes < most) continue;
    most = mine.bytes;
    text = ", " + t.name.substr(0, t.name.find('.')) + " " + std::string(name_of(mine.type));
  }
  return text;
}

}  // namespace

const char* name_of(BlockPart part) {
  switch (part) {
    case BlockPart::Attention: return "attention";
    case BlockPart::Router: return "router";
    case BlockPart::Experts: return "experts";
    case BlockPart::SharedExpert: return "shared expert";
    case BlockPart::DenseNetwork: return "dense network";
  }
  return "";
}

std::vector<BlockLaunch> parts_of(const std::vector<PlanLaunch>& launches, const GgufFile& file, const Model& model,
                                  int64_t tokens) {
  std::vector<BlockLaunch> out;
  std::map<std::string, double> shares;
  for (const PlanLaunch& launch : launches) {
    BlockLaunch& result = out.emplace_back(BlockLaunch{.layer = launch.layer});
    if (launch.layer < 0) continue;
    const bool is_first = out.size() == 1 || out[out.size() - 2].layer != launch.layer;
    if (is_first) shares = shares_of_read(model, launch.layer);
    for (const LaunchBuffer& buffer : launch.buffers) {
      const auto part = part_of(buffer.name, model.has_experts(launch.layer));
      if (!part) continue;
      double& share = result.shares[*part];
      const auto weight = shares.find(buffer.name);
      if (weight == shares.end()) continue;
      const GgufTensor* tensor = file.find(layer_prefix(launch.layer) + buffer.name);
      const PartWork work = work_of_weight(*tensor, weight->second, tokens);
      share += tokens == 1 ? work.bytes : work.multiply_adds;
    }
    if (result.shares.empty()) {
      const BlockPart before = is_first ? BlockPart::Attention : greatest(out[out.size() - 2].shares);
      result.shares[before] = 1;
    }
    result.shares = normalised(result.shares);
  }
  return out;
}

std::map<BlockPart, PartWork> work_of(int64_t layer, const GgufFile& file, const Model& model, int64_t tokens,
                                      int64_t position, const CacheReads& reads) {
  std::map<BlockPart, PartWork> out;
  for (const TensorShape& t : model.layer_tensors(layer)) {
    const PartWork work = work_of_weight(*file.find(layer_prefix(layer) + t.name), t.share_of_read, tokens);
    PartWork& part = out[*part_of(t.name, model.has_experts(layer))];
    part.bytes += work.bytes;
    part.multiply_adds += work.multiply_adds;
  }
  out[BlockPart::Attention].bytes += reads.together(position, position + tokens);
  return out;
}

std::vector<BlockKind> block_kinds(const GgufFile& file, const Model& model) {
  std::map<std::vector<GgufType>, size_t> kind_of;
  std::vector<BlockKind> kinds;
  for (int64_t layer = 0; layer < model.numbers().layers; ++layer) {
    std::vector<GgufType> types;
    for (const TensorShape& t : model.layer_tensors(layer))
      types.push_back(file.find(layer_prefix(layer) + t.name)->type);
    const auto [at, is_new] = kind_of.try_emplace(types, kinds.size());
    if (is_new) kinds.push_back({model.has_experts(layer) ? "MoE block" : "dense block"});
    kinds[at->second].layers.push_back(layer);
  }
  std::vector<std::string> names;
  for (const BlockKind& kind : kinds) {
    std::vector<int64_t> alike;
    for (const BlockKind& other : kinds)
      if (other.name == kind.name) alike.push_back(other.layers[0]);
    names.push_back(kind.name + largest_difference(file, model, kind.layers[0], alike));
  }
  for (size_t i = 0; i < kinds.size(); ++i) kinds[i].name = names[i];
  return kinds;
}

}  // namespace smelt
