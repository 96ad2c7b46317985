// Models in the form in which their makers publish them, a folder of the Hugging Face hub: config.json, tokenizer.json
// and *.safetensors. It is read as the GGUF file that it would become: the same keys, names and orders, so that nothing
// behind it knows. Matrices stay in the mapped files, but for those whose rows come in another order.
#pragma once

#include <string>

#include "gguf/gguf.h"

namespace smelt {

// A folder with a config.json, or a GGUF file.
Result<GgufFile> open_model_files(const std::string& path);

bool is_model_folder(const std::string& path);

}  // namespace smelt
