#include "hub/pull.h"

#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "base/options.h"
#include "hub/http.h"

namespace smelt {
namespace {

using Json = nlohmann::json;

std::string server() {
  std::string url = options().hf_endpoint;
  while (url.ends_with('/')) url.pop_back();
  return url;
}

constexpr size_t kLongestListing = 32 << 20;

bool is_hex(const std::string& text, size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::string text_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

uint64_t size_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

// Large files are kept by their SHA-256, small ones by git's hash.
std::optional<RepoFile> file_of(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  RepoFile file{.path = text_at(json, "rfilename"), .size = size_at(json, "size")};
  if (!is_safe_path(file.path)) return std::nullopt;
  if (const auto large = json.find("lfs"); large != json.end() && large->is_object()) {
    file.sha256 = text_at(*large, "sha256");
    if (const uint64_t size = size_at(*large, "size"); size > 0) file.size = size;
    if (!is_hex(file.sha256, 64)) return std::nullopt;
  }
  file.blob = file.sha256.empty() ? text_at(json, "blobId") : file.sha256;
  return is_hex(file.blob, 64) || is_hex(file.blob, 40) ? std::optional(file) : std::nullopt;
}

DownloadEvents events_of(const PullOptions& options, const std::string& file) {
  return options.events ? options.events(file) : DownloadEvents{};
}

Download download_of(const PullOptions& options) {
  return {.connections = options.connections,
          .patience = options.patience,
          .first_pause = options.first_pause,
          .cancel = options.cancel};
}

bool is_there(const std::string& path, uint64_t size) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && static_cast<uint64_t>(info.st_size) == size;
}

Status pull_file(const RepoFolder& folder, const std::string& repo, const std::string& commit, const RepoFile& file,
                 const PullOptions& options) {
  const std::string blob = folder.blob(file.blob);
  if (!is_there(blob, file.size)) {
    Download d = download_of(options);
    d.url = server() + "/" + repo + "/resolve/" + commit + "/" + file.path;
    d.token = hub_token();
    d.path = blob;
    d.lock = folder.lock(file.blob);
    d.size = file.size;
    d.sha256 = file.sha256;
    SMELT_CHECK(fetch(d, events_of(options, file.path)));
  }
  return folder.link(commit, file.path, file.blob);
}

Result<PulledModel> pull_url(const std::string& url, const PullOptions& options) {
  Download d = download_of(options);
  SMELT_TRY(path, url_path(url));
  d.url = url;
  d.path = path;
  d.lock = path + ".lock";
  SMELT_CHECK(fetch(d, events_of(options, path.substr(path.rfind('/') + 1))));
  SMELT_TRY(found, find_pulled(url));
  if (!found) return Error{"[hub] " + path + ": it is gone again"};
  return *found;
}

}  // namespace

Result<RepoListing> parse_listing(const std::string& repo, const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  const auto wrong = [&] {
    return Error{"[hub] " + repo + ": the server's list of files makes no sense; is " + options().hf_endpoint +
                 " a hub of models?"};
  };
  if (!json.is_object()) return wrong();
  RepoListing listing{.commit = text_at(json, "sha")};
  const auto files = json.find("siblings");
  if (!is_hex(listing.commit, 40) || files == json.end() || !files->is_array()) return wrong();
  for (const Json& item : *files)
    if (const auto file = file_of(item)) listing.files.push_back(*file);
  return listing;
}

Result<RepoListing> list_repo(const std::string& repo, const std::atomic<bool>* cancel) {
  const std::string url = server() + "/api/models/" + repo + "/revision/main?blobs=true";
  SMELT_TRY(text, http_text(url, hub_token(), kLongestListing, cancel));
  return parse_listing(repo, text);
}

Result<PulledModel> pull(const std::string& text, const PullOptions& options) {
  SMELT_TRY(name, parse_model_name(text));
  if (!name.url.empty()) return pull_url(name.url, options);
  SMELT_TRY(hub, hub_folder());
  SMELT_TRY(listing, list_repo(name.repo, options.cancel));
  SMELT_TRY(files, choose_files(name, listing.files));
  const RepoFolder folder(hub, name.repo);
  for (const RepoFile& file : files) SMELT_CHECK(pull_file(folder, name.repo, listing.commit, file, options));
  SMELT_CHECK(folder.set_main(listing.commit));
  SMELT_TRY(found, find_pulled(text));
  if (!found) return Error{"[hub] " + text + ": its files are gone again"};
  return *found;
}

}  // namespace smelt
