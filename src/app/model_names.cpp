#include "app/model_names.h"

#include <sys/stat.h>

#include "app/pull.h"
#include "hub/hub_folder.h"
#include "hub/model_name.h"
#include "safetensors/folder.h"

namespace smelt {
namespace {

// Or a folder that is one.
bool is_file(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && (!S_ISDIR(info.st_mode) || is_model_folder(path));
}

// It is fetched if it is not there.
Result<std::string> fetched_model_path(const std::string& name) {
  SMELT_TRY(found, find_pulled(name));
  if (found) return found->file();
  SMELT_TRY(model, pull_with_progress(name, {}));
  return model.file();
}

}  // namespace

bool names_a_model(const std::string& word) {
  if (word.find_first_of(" \n\t") != std::string::npos && !is_file(word)) return false;
  if (is_file(word) || word.ends_with(".gguf")) return true;
  if (!is_model_name(word)) return false;
  // "and/or" has the form of a repository, too: it counts if it is here, or says more than that.
  const auto found = find_pulled(word);
  return (found && *found) || word.find('/') == std::string::npos || word.find(':') != std::string::npos;
}

Result<std::string> model_path(const std::string& name) {
  if (name.starts_with(kFetch)) return fetched_model_path(name.substr(std::string_view(kFetch).size()));
  if (is_file(name)) return name;
  const auto found = find_pulled(name);
  if (!found) return name;  // no name either: opening it says what is wrong with the path
  if (*found) return (*found)->file();
  if (name[0] == '/' || name[0] == '.' || (name.ends_with(".gguf") && name.find("://") == std::string::npos))
    return name;
  return Error{"[hub] " + name +
               ": there is no such file, and this model is not on this machine; fetch it with `smelt pull " + name +
               "`"};
}

}  // namespace smelt
