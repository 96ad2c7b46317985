// What folders of one model_type differ in: which architecture they are, which parts config.json describes, and how
// names, rows and values of their tensors differ from those of GGUF files.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace smelt {

// Of a layer's tensor: in the folder, in the GGUF file.
using TensorNamePair = std::pair<std::string_view, std::string_view>;

// Parts of config.json, each of them read by one function of config.cpp.
enum class ConfigPart {
  Heads,           // of grouped-query attention, and what of them rotates
  Latents,         // of latent attention
  Network,         // one for a layer
  SoftmaxExperts,  // of Qwen
  RoutedExperts,   // of DeepSeek and GLM: behind dense layers, in groups perhaps, with shared ones
  LocalExperts,    // of gpt-oss and Granite
  DeltaNets,       // of layers between those with attention
  Multipliers,     // of Granite: embeddings, scores, what layers add, logits
  Temperature,     // of Ministral's queries, by position
  Windows,         // of layers between those that see everything
  OwnWindow,       // of all layers, if there is one
  NoWindows,       // refused where they are in use
};

struct HubFamily {
  std::string_view model_type;
  std::string_view architecture;  // as GGUF files name it
  std::vector<ConfigPart> parts;
  std::span<const TensorNamePair> names = {};  // before those that all have
  // GGUF files have the two values of a pair that rotates side by side; the folder a half of a head apart.
  bool swaps_pairs = false;
  bool adds_one = false;  // the weights of norms are 1 greater in GGUF files, but not those of delta nets
  // Delta nets: value heads that share a key head are neighbours, in GGUF files they take turns with those of others.
  bool has_neighbours = false;
  bool has_long_factors = false;  // rope_scaling may be a list of factors for short contexts and one for long ones
  bool has_windows_by_default = false;  // a window without use_sliding_window is in use
  std::string_view defaults = "{}";     // of keys that config.json may lack: JSON
};

const std::vector<HubFamily>& hub_families();

}  // namespace smelt
