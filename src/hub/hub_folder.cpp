#include "hub/hub_folder.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/dirs.h"
#include "base/file.h"
#include "base/options.h"

namespace smelt {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "models--";
constexpr std::string_view kPart = ".smelt-part";

std::string home_of_hub() {
  const Options& o = options();
  if (!o.hf_home.empty()) return o.hf_home;
  if (!o.xdg_cache_home.empty() && o.xdg_cache_home[0] == '/') return o.xdg_cache_home + "/huggingface";
  return o.home.empty() ? "" : o.home + "/.cache/huggingface";
}

bool is_commit(const std::string& text) {
  return text.size() == 40 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::string without_space(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  return text;
}

std::string folder_name(std::string repo) {
  repo.replace(repo.find('/'), 1, "--");
  return std::string(kPrefix) + repo;
}

// "models--user--repo" -> "user/repo"; empty for other folders.
std::string repo_of(const std::string& folder) {
  if (!folder.starts_with(kPrefix)) return "";
  std::string repo = folder.substr(kPrefix.size());
  const size_t dashes = repo.find("--");
  if (dashes == std::string::npos) return "";
  repo.replace(dashes, 2, "/");
  return is_repo(repo) ? repo : "";
}

PulledModel model_of(const std::string& name, const std::string& folder, const std::vector<RepoFile>& files) {
  PulledModel model{.name = name};
  for (const RepoFile& f : files) {
    model.paths.push_back(folder + "/" + f.path);
    model.bytes += f.size;
  }
  return model;
}

void add_models_of(const RepoFolder& folder, const std::string& repo, std::vector<PulledModel>& models) {
  const std::string commit = folder.commit();
  const std::vector<RepoFile> files = folder.files(commit);
  std::map<std::string, bool> seen;
  for (const RepoFile& f : files) {
    const std::string quant = quant_of(f.path);
    const ModelName name =
        quant.empty() ? ModelName{.repo = repo, .file = f.path} : ModelName{.repo = repo, .quant = quant};
    const auto chosen = choose_files(name, files);
    if (!chosen || std::exchange(seen[chosen->front().path], true)) continue;
    models.push_back(model_of(repo + (quant.empty() ? "/" + f.path : ":" + quant), folder.snapshot(commit), *chosen));
  }
}

void add_url_models(std::vector<PulledModel>& models) {
  const auto cache = cache_folder();
  if (!cache || cache->empty()) return;
  const fs::path root = fs::path(*cache) / "downloads";
  std::error_code ignored;
  for (const auto& entry : fs::recursive_directory_iterator(root, ignored))
    if (entry.path().extension() == ".gguf" && entry.is_regular_file(ignored))
      models.push_back({"https://" + entry.path().lexically_relative(root).string(),
                        {entry.path().string()},
                        entry.file_size(ignored)});
}

// Another snapshot of the repository may link to the same blob.
bool is_linked(const std::string& repo_folder, const fs::path& blob) {
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(repo_folder + "/snapshots", error))
    if (entry.is_symlink(error) && fs::weakly_canonical(entry.path(), error) == blob) return true;
  return false;
}

}  // namespace

Result<std::string> hub_folder() {
  if (!options().hf_hub_cache.empty()) return options().hf_hub_cache;
  const std::string home = home_of_hub();
  if (home.empty()) return Error{"[hub] HOME: not set, so there is no folder for models; set HF_HOME to one"};
  return home + "/hub";
}

std::string hub_token() {
  if (!options().hf_token.empty()) return options().hf_token;
  const auto text = read_file(home_of_hub() + "/token", 4096);
  return text ? without_space(*text) : "";
}

Result<std::string> url_path(const std::string& url) {
  SMELT_TRY(cache, cache_folder());
  if (cache.empty()) return Error{"[hub] SMELT_CACHE: off, so there is no place for files of URLs; set it to a folder"};
  const size_t host = url.find("//") + 2;
  std::string path = url.substr(host, url.find_first_of("?#") - host);
  std::replace(path.begin(), path.end(), ':', '_');  // of a port
  if (!is_safe_path(path)) return Error{"[hub] " + url + ": its path cannot be the name of a file here"};
  return cache + "/downloads/" + path;
}

RepoFolder::RepoFolder(std::string hub, std::string repo)
    : hub_(std::move(hub)), repo_(std::move(repo)), path_(hub_ + "/" + folder_name(repo_)) {}

std::string RepoFolder::lock(const std::string& blob) const {
  return hub_ + "/.locks/" + folder_name(repo_) + "/" + blob + ".lock";
}

std::string RepoFolder::commit() const {
  const auto main = read_file(path_ + "/refs/main", 4096);
  if (main && is_commit(without_space(*main))) return without_space(*main);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path_ + "/snapshots", ignored))
    if (is_commit(entry.path().filename().string())) return entry.path().filename().string();
  return "";
}

std::vector<RepoFile> RepoFolder::files(const std::string& commit) const {
  std::vector<RepoFile> files;
  if (commit.empty()) return files;
  const fs::path root = snapshot(commit);
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(root, error)) {
    const std::string path = entry.path().lexically_relative(root).string();
    std::error_code missing;
    if (path.ends_with(".gguf") && is_safe_path(path) && fs::is_regular_file(entry.path(), missing))
      files.push_back({.path = path, .size = fs::file_size(entry.path(), missing)});
  }
  std::sort(files.begin(), files.end(), [](const RepoFile& a, const RepoFile& b) { return a.path < b.path; });
  return files;
}

Status RepoFolder::link(const std::string& commit, const std::string& file, const std::string& blob) const {
  const std::string path = snapshot(commit) + "/" + file;
  SMELT_CHECK(make_folders(path.substr(0, path.rfind('/'))));
  std::string target = "../../blobs/" + blob;
  for (size_t i = 0; i < static_cast<size_t>(std::count(file.begin(), file.end(), '/')); ++i) target = "../" + target;
  const std::string temporary = path + std::string(kPart) + std::to_string(::getpid());
  std::error_code error;
  fs::remove(temporary, error);
  fs::create_symlink(target, temporary, error);
  if (!error) fs::rename(temporary, path, error);
  if (error) return Error{"[hub] " + path + ": cannot be linked: " + error.message()};
  return {};
}

Status RepoFolder::set_main(const std::string& commit) const {
  SMELT_CHECK(make_folders(path_ + "/refs"));
  return publish_file(path_ + "/refs/main", commit);
}

std::vector<PulledModel> pulled_models() {
  std::vector<PulledModel> models;
  const auto hub = hub_folder();
  std::error_code ignored;
  if (hub) {
    for (const auto& entry : fs::directory_iterator(*hub, ignored))
      if (const std::string repo = repo_of(entry.path().filename().string()); !repo.empty())
        add_models_of(RepoFolder(*hub, repo), repo, models);
  }
  add_url_models(models);
  std::sort(models.begin(), models.end(), [](const PulledModel& a, const PulledModel& b) { return a.name < b.name; });
  return models;
}

Result<std::optional<PulledModel>> find_pulled(const std::string& text) {
  SMELT_TRY(name, parse_model_name(text));
  std::optional<PulledModel> none;
  if (!name.url.empty()) {
    SMELT_TRY(path, url_path(name.url));
    std::error_code missing;
    if (!fs::is_regular_file(path, missing)) return none;
    return std::optional(PulledModel{text, {path}, fs::file_size(path, missing)});
  }
  SMELT_TRY(hub, hub_folder());
  const RepoFolder folder(hub, name.repo);
  const std::string commit = folder.commit();
  const auto chosen = choose_files(name, folder.files(commit));
  if (!chosen) return none;
  return std::optional(model_of(text, folder.snapshot(commit), *chosen));
}

Result<uint64_t> remove_pulled(const PulledModel& model) {
  uint64_t freed = 0;
  for (const std::string& path : model.paths) {
    std::error_code error;
    const bool is_link = fs::is_symlink(path, error);
    const fs::path bytes = fs::canonical(path, error);
    const uint64_t size = fs::file_size(bytes, error);
    if (!fs::remove(path, error)) return Error{"[hub] " + path + ": cannot be removed: " + error.message()};
    const size_t snapshots = path.find("/snapshots/");
    if (is_link && snapshots != std::string::npos) {
      const std::string repo = path.substr(0, snapshots);
      const bool is_ours = bytes.parent_path() == fs::weakly_canonical(repo + "/blobs", error);
      if (!is_ours || is_linked(repo, bytes)) continue;
      if (!fs::remove(bytes, error))
        return Error{"[hub] " + bytes.string() + ": cannot be removed: " + error.message()};
    }
    freed += size;
  }
  return freed;
}

}  // namespace smelt
