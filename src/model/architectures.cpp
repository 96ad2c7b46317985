#include "model/architectures.h"

namespace smelt {

const std::vector<Architecture>& architectures() {
  static const std::vector<Architecture> list = {
      {"deepseek2", "DeepSeek V2 and V3, GLM-4.7-Flash, Kimi K2, Moonlight", read_deepseek2_model},
      {"glm4moelite", "GLM-4.7-Flash as ollama writes it", read_deepseek2_model},
      {"llama", "Llama 2 and 3, Mistral, and what shares their shape", read_llama_model},
  };
  return list;
}

Result<std::shared_ptr<const Model>> read_model(const GgufFile& file) {
  SMELT_TRY(name, file.string("general.architecture"));
  std::string known;
  for (const Architecture& a : architectures()) {
    if (a.name == name) return a.read(file, std::string(name));
    known += (known.empty() ? "" : ", ") + std::string(a.name) + " (" + std::string(a.models) + ")";
  }
  return model_error("general.architecture", quoted(name) + " is not supported; smelt runs " + known);
}

}  // namespace smelt
