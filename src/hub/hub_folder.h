// The folder of pulled models, as the Hugging Face hub's own tools lay it out, so that they share files with smelt:
//
//   hub/models--user--repo/blobs/SHA256              the bytes
//                         /snapshots/COMMIT/file     a link to them
//                         /refs/main                 "COMMIT"
//   hub/.locks/models--user--repo/SHA256.lock        held while a file is fetched
//
// Files of plain URLs lie in smelt's own cache folder, under downloads/HOST/PATH.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "hub/model_name.h"

namespace smelt {

// HF_HUB_CACHE, HF_HOME/hub, or ~/.cache/huggingface/hub. Not made.
Result<std::string> hub_folder();

// The user's token for the server: HF_TOKEN, or the file where the hub's tools keep it. Empty: none.
std::string hub_token();

// Where a file of a plain URL lies, or will.
Result<std::string> url_path(const std::string& url);

class RepoFolder {
 public:
  // REQUIRES: is_repo(repo).
  RepoFolder(std::string hub, std::string repo);

  const std::string& path() const { return path_; }
  std::string blob(const std::string& name) const { return path_ + "/blobs/" + name; }
  std::string lock(const std::string& blob) const;
  std::string snapshot(const std::string& commit) const { return path_ + "/snapshots/" + commit; }

  // The commit that refs/main names; else of a snapshot that is there. Empty: none is.
  std::string commit() const;
  // What is there of a snapshot, whole files alone.
  std::vector<RepoFile> files(const std::string& commit) const;

  // Links a blob into a snapshot. REQUIRES: is_safe_path(file).
  Status link(const std::string& commit, const std::string& file, const std::string& blob) const;
  Status set_main(const std::string& commit) const;

 private:
  std::string hub_, repo_, path_;
};

// A model on this machine: one file or all of its shards.
struct PulledModel {
  std::string name;  // as -m takes it: "user/repo:Q4_K_M"
  std::vector<std::string> paths;
  uint64_t bytes = 0;
  std::string file() const { return paths.front(); }
};

std::vector<PulledModel> pulled_models();

// Nothing if it is not there, or not all of it. An Error: this is no name.
Result<std::optional<PulledModel>> find_pulled(const std::string& name);

// Removes its files, and what they link to if no other file does. Bytes that this frees.
Result<uint64_t> remove_pulled(const PulledModel& model);

}  // namespace smelt
