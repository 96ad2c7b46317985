#include "app/sources.h"

#include <filesystem>
#include <system_error>

#include "safetensors/folder.h"

namespace smelt {

std::vector<std::string> files_of(const GgufFile& model) {
  std::vector<std::string> files;
  for (const GgufFile::Shard& shard : model.shards()) files.push_back(shard.path);
  if (is_model_folder(model.path()))
    for (const char* name : {"config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"})
      files.push_back(model.path() + "/" + name);
  return files;
}

Status check_is_no_source(const std::string& where, const std::string& output,
                          const std::vector<std::string>& sources) {
  for (const std::string& source : sources) {
    std::error_code missing;  // one of both: they differ
    if (std::filesystem::equivalent(output, source, missing))
      return Error{"[" + where + "] " + output + ": this file" + (output == source ? "" : ", also " + source + ",") +
                   " is read; name another one to write"};
  }
  return {};
}

}  // namespace smelt
