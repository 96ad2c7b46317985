// Fetches a model by name into the folder of pulled models (hub/hub_folder.h).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "hub/download.h"
#include "hub/hub_folder.h"
#include "hub/model_name.h"

namespace smelt {

// What the server has of a repository.
struct RepoListing {
  std::string commit;
  std::vector<RepoFile> files;
};

// Of a revision's description, as the server gives it.
Result<RepoListing> parse_listing(const std::string& repo, const std::string& text);
Result<RepoListing> list_repo(const std::string& repo, const std::atomic<bool>* cancel);

struct PullOptions {
  int connections = 4;
  int patience = 6;
  double first_pause = 0.5;
  const std::atomic<bool>* cancel = nullptr;
  // For each file that is fetched: what to tell of it.
  std::function<DownloadEvents(const std::string& file)> events;
};

// All files of the model, fetched where they are missing.
Result<PulledModel> pull(const std::string& name, const PullOptions& options);

}  // namespace smelt
