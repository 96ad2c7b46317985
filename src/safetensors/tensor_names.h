// What tensors of a Hugging Face model are called in a GGUF file.
#pragma once

#include <optional>
#include <string>

#include "safetensors/family.h"

namespace smelt {

struct NewTensorName {
  std::string name;
  std::optional<uint32_t> piece = {};  // where several tensors of the folder become one: of experts, its number
};

// "model.layers.3.mlp.up_proj.weight" is "blk.3.ffn_up.weight". Nothing for names that are not known.
std::optional<NewTensorName> gguf_name(const std::string& name, const HubFamily& family);

// Tensors of other parts than the one that writes (those that see, and Qwen's that predict further ahead), and those
// that follow from config.json.
bool is_left_out(const std::string& name);

// Of tensors that are stored in 4 bits: pieces 0 and 1 of the one that becomes of them.
constexpr uint32_t kBlocksPiece = 0, kScalesPiece = 1;

}  // namespace smelt
