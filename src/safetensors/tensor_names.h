// What tensors of a Hugging Face model are called in a GGUF file.
#pragma once

#include <optional>
#include <string>

namespace smelt {

// "model.layers.3.mlp.up_proj.weight" is "blk.3.ffn_up.weight". Nothing for names that are not known.
std::optional<std::string> gguf_name(const std::string& name);

}  // namespace smelt
