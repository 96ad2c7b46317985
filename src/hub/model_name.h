// Names of models as people type them, and the files of a repository that a name means.
//
//   user/repo                        the repository's 4-bit file
//   user/repo:Q6_K                   its file of this quantisation
//   user/repo/folder/file.gguf       this file
//   hf.co/user/repo:Q6_K             as above
//   glm-4.7-flash, glm-4.7:flash-q4_k_m, glm-4.7-flash:q4_K_M    a known name (known_models.def)
//   https://host/path/file.gguf      this file, from there
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace smelt {

struct ModelName {
  std::string repo;   // "user/repo"; empty: a plain URL
  std::string quant;  // "Q4_K_M"; empty: the usual one
  std::string file;   // in the repository, if the name says so
  std::string url;    // in place of all these
};

// An Error says why `text` is no name. Nothing of a result can lead out of a folder that it is joined to.
Result<ModelName> parse_model_name(std::string_view text);

// Whether `text` has the form of a name at all: "user/repo", a known name, a URL.
bool is_model_name(std::string_view text);

// The known names and what they stand for, a line each.
std::string known_models_text();

// A path below a folder, such as "Q8_0/model-00001-of-00003.gguf": no "..", nothing absolute, nothing hidden.
bool is_safe_path(std::string_view path);
// "user/repo" of letters, digits, '.', '_' and '-'.
bool is_repo(std::string_view repo);

// "Q4_K_M" of "folder/GLM-4.7-Flash-Q4_K_M-00001-of-00002.gguf", "UD-Q4_K_XL" where that is its name. Upper case; empty
// if the name does not say.
std::string quant_of(std::string_view file);

struct RepoFile {
  std::string path;
  uint64_t size = 0;
  std::string sha256;  // empty: the server does not say
  std::string blob;    // name of its content in a cache: the sha256, or a hash by git
};

// The files of the model that `name` means: one, or all shards in order. An Error lists what there is.
Result<std::vector<RepoFile>> choose_files(const ModelName& name, std::span<const RepoFile> files);

}  // namespace smelt
