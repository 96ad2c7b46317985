// The architectures that smelt knows. A new one is a file beside llama.cpp, a declaration here and a line in the table.
#pragma once

#include <string_view>
#include <vector>

#include "model/model.h"

namespace smelt {

struct Architecture {
  std::string_view name;  // general.architecture
  std::string_view models;
  Result<std::shared_ptr<const Model>> (*read)(const GgufFile& file, const std::string& name);
};

const std::vector<Architecture>& architectures();

Result<std::shared_ptr<const Model>> read_deepseek2_model(const GgufFile& file, const std::string& name);
Result<std::shared_ptr<const Model>> read_glm4(const GgufFile& file, const std::string& name);
Result<std::shared_ptr<const Model>> read_gpt_oss(const GgufFile& file, const std::string& name);
Result<std::shared_ptr<const Model>> read_gemma3(const GgufFile& file, const std::string& name);
Result<std::shared_ptr<const Model>> read_glm4moe(const GgufFile& file, const std::string& name);
Result<std::shared_ptr<const Model>> read_granite(const GgufFile& file, const std::string& name);
Result<std::shared_ptr<const Model>> read_llama(const GgufFile& file, const std::string& name);
Result<std::shared_ptr<const Model>> read_mistral3(const GgufFile& file, const std::string& name);
Result<std::shared_ptr<const Model>> read_olmo2(const GgufFile& file, const std::string& name);
Result<std::shared_ptr<const Model>> read_phi3(const GgufFile& file, const std::string& name);
Result<std::shared_ptr<const Model>> read_qwen2(const GgufFile& file, const std::string& name);
Result<std::shared_ptr<const Model>> read_qwen3(const GgufFile& file, const std::string& name);
Result<std::shared_ptr<const Model>> read_qwen3next(const GgufFile& file, const std::string& name);
Result<std::shared_ptr<const Model>> read_qwen35(const GgufFile& file, const std::string& name);

}  // namespace smelt
