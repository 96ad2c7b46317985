// Files of models that tests of the engine run. All but the first lie beside the repository, where they are there.
#pragma once

namespace smelt::test {

inline constexpr char kGlm[] = SMELT_SOURCE_DIR "/models/tiny-glm-Q4_K_M.gguf";
inline constexpr char kMtp[] = SMELT_SOURCE_DIR "/../shared/models/tiny-glm/tiny-glm-mtp-Q4_0.gguf";
inline constexpr char kLlama[] = SMELT_SOURCE_DIR "/../shared/models/zoo/llama/llama-Q4_K_M.gguf";
inline constexpr char kGemma[] = SMELT_SOURCE_DIR "/../shared/models/zoo/gemma3/gemma3-Q4_K_M.gguf";  // has windows
inline constexpr char kQwenMoe[] = SMELT_SOURCE_DIR "/../shared/models/zoo/qwen3moe/qwen3moe-Q4_K_M.gguf";
inline constexpr char kGptOss[] = SMELT_SOURCE_DIR "/../shared/models/zoo/gpt-oss/gpt-oss-MXFP4.gguf";  // has sinks
inline constexpr char kQwen35[] = SMELT_SOURCE_DIR "/../shared/models/zoo/qwen35moe/qwen35moe-Q4_K_M.gguf";  // states

}  // namespace smelt::test
