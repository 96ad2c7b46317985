#include "model/architectures.h"

namespace smelt {

const std::vector<Architecture>& architectures() {
  static const std::vector<Architecture> list = {
      {"deepseek2", "DeepSeek V2 and V3, GLM-4.7-Flash, Kimi K2, Moonlight", read_deepseek2_model},
      {"glm4moelite", "GLM-4.7-Flash as ollama writes it", read_deepseek2_model},
      {"gemma3", "Gemma 3", read_gemma3},
      {"glm4", "GLM-4 of April 2025, GLM-Z1", read_glm4},
      {"glm4moe", "GLM-4.5 and 4.6", read_glm4moe},
      {"gpt-oss", "gpt-oss", read_gpt_oss},
      {"granite", "Granite 3 and 4", read_granite},
      {"granitemoe", "Granite 3 with experts", read_granite},
      {"llama", "Llama 2 and 3, Mistral, Mixtral, and what shares their shape", read_llama},
      {"mistral3", "Ministral 3", read_mistral3},
      {"olmo2", "OLMo 2 and 3", read_olmo2},
      {"phi3", "Phi 3, 3.5 and 4", read_phi3},
      {"qwen2", "Qwen 2 and 2.5", read_qwen2},
      {"qwen3", "Qwen 3", read_qwen3},
      {"qwen35", "Qwen 3.5", read_qwen35},
      {"qwen35moe", "Qwen 3.5 with experts", read_qwen35},
      {"qwen3moe", "Qwen 3 with experts", read_qwen3},
      {"qwen3next", "Qwen 3 Next", read_qwen3next},
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
  return model_error("general.architecture", in_quotes(name) + " is not supported; smelt runs " + known);
}

}  // namespace smelt
