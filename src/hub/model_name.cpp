#include "hub/model_name.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "base/options.h"
#include "base/printable.h"

namespace smelt {
namespace {

struct Known {
  std::string_view name, repo;
};

constexpr Known kKnown[] = {
#define KNOWN(name, repo) {name, repo},
#include "hub/known_models.def"
#undef KNOWN
};

constexpr size_t kLongestName = 200;
constexpr std::string_view kUsual[] = {"Q4_K_M", "Q4_K_S", "Q4_0", "Q4_K_XL", "UD-Q4_K_XL", "Q8_0"};  // the first found
constexpr std::string_view kExtension = ".gguf";

bool is_word_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-'; }

bool is_plain_word(std::string_view word) {
  return !word.empty() && word.size() <= kLongestName && word[0] != '.' && word[0] != '-' &&
         std::all_of(word.begin(), word.end(), is_word_char);
}

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool is_url(std::string_view text) { return text.starts_with("http://") || text.starts_with("https://"); }

Error bad_name(std::string_view text, const char* why) { return Error{"[hub] '" + printable(text) + "': " + why}; }

// "-00002-of-00005" at the end of a name without extension.
struct Shard {
  std::string_view stem;  // before it
  int number = 1, count = 1;
};

Shard shard_of(std::string_view path) {
  constexpr size_t kLength = sizeof("-00001-of-00001") - 1;
  std::string_view stem = path.substr(0, path.size() - std::min(path.size(), kExtension.size()));
  if (stem.size() <= kLength) return {stem};
  const std::string_view tail = stem.substr(stem.size() - kLength);
  const auto digits = [&](size_t at) {
    int value = 0;
    for (size_t i = at; i < at + 5; ++i) {
      if (!std::isdigit(static_cast<unsigned char>(tail[i]))) return -1;
      value = value * 10 + (tail[i] - '0');
    }
    return value;
  };
  const int number = digits(1), count = digits(10);
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || number < 1 || count < number) return {stem};
  return {stem.substr(0, stem.size() - kLength), number, count};
}

bool is_quant_word(std::string_view word) {
  for (std::string_view exact : {"F16", "BF16", "F32"})
    if (word == exact) return true;
  for (std::string_view start : {"Q", "IQ", "TQ", "MXFP"})
    if (word.starts_with(start) && word.size() > start.size() &&
        std::isdigit(static_cast<unsigned char>(word[start.size()])))
      return true;
  return false;
}

// "glm-4.7:flash-q4_k_m" -> the repository, and "Q4_K_M".
std::optional<ModelName> parse_known(std::string_view text) {
  std::string name = lower(text);
  std::replace(name.begin(), name.end(), ':', '-');
  for (const Known& known : kKnown) {
    if (name == known.name) return ModelName{.repo = std::string(known.repo)};
    if (!name.starts_with(known.name) || name[known.name.size()] != '-') continue;
    const std::string rest = upper(name.substr(known.name.size() + 1));
    if (rest == "LATEST") return ModelName{.repo = std::string(known.repo)};
    if (is_quant_word(rest.starts_with("UD-") ? std::string_view(rest).substr(3) : rest))
      return ModelName{.repo = std::string(known.repo), .quant = rest};
  }
  return std::nullopt;
}

// .../user/repo/resolve/REVISION/file of the server of models.
std::optional<ModelName> parse_server_url(std::string_view url) {
  for (const std::string& server : {options().hf_endpoint + "/", std::string("https://huggingface.co/")}) {
    if (!url.starts_with(server)) continue;
    const std::string_view path = url.substr(server.size(), url.find('?') - server.size());
    for (std::string_view marker : {"/resolve/main/", "/blob/main/"}) {
      const size_t at = path.find(marker);
      if (at == std::string_view::npos) continue;
      ModelName name{.repo = std::string(path.substr(0, at)), .file = std::string(path.substr(at + marker.size()))};
      if (is_repo(name.repo) && is_safe_path(name.file)) return name;
    }
  }
  return std::nullopt;
}

Result<ModelName> parse_url(std::string_view url) {
  if (auto name = parse_server_url(url)) return *name;
  const size_t host = url.find("//") + 2, slash = url.find('/', host);
  if (std::any_of(url.begin(), url.end(), [](char c) { return c <= ' ' || c == '\\' || c == 0x7F; }))
    return bad_name(url, "spaces, backslashes and control characters do not belong in a URL");
  if (url.substr(host, slash - host).find('@') != std::string_view::npos)
    return bad_name(url, "a URL with a user name or password is not fetched");
  if (slash == std::string_view::npos || slash == host) return bad_name(url, "this URL names no file");
  const std::string_view path = url.substr(slash + 1, url.find_first_of("?#") - slash - 1);
  if (!is_safe_path(path) || !path.ends_with(kExtension)) return bad_name(url, "this URL names no .gguf file");
  return ModelName{.url = std::string(url)};
}

Result<ModelName> parse_repo(std::string_view text) {
  for (std::string_view host : {"hf.co/", "huggingface.co/"})
    if (text.starts_with(host)) text.remove_prefix(host.size());
  const size_t colon = text.find(':'), first = text.find('/'), second = text.find('/', first + 1);
  ModelName name;
  if (second != std::string_view::npos) {
    name = {.repo = std::string(text.substr(0, second)), .file = std::string(text.substr(second + 1))};
    if (!is_safe_path(name.file) || !name.file.ends_with(kExtension))
      return bad_name(text, "what follows the repository is no path of a .gguf file");
  } else {
    name.repo = std::string(text.substr(0, colon));
    if (colon != std::string_view::npos) name.quant = upper(text.substr(colon + 1));
    if (name.quant == "LATEST") name.quant.clear();
    if (colon != std::string_view::npos && !name.quant.empty() && !is_plain_word(name.quant))
      return bad_name(text, "what follows ':' is no quantisation, such as Q4_K_M");
  }
  if (!is_repo(name.repo)) return bad_name(text, "not a repository; write it as user/repo");
  return name;
}

std::string quants_text(std::span<const RepoFile> files) {
  std::map<std::string, bool> found;
  for (const RepoFile& f : files)
    if (f.path.ends_with(kExtension) && !quant_of(f.path).empty()) found[quant_of(f.path)] = true;
  std::string text;
  for (const auto& [quant, _] : found) text += (text.empty() ? "" : ", ") + quant;
  return text;
}

// Companions of a model: projectors of images, importance matrices.
bool is_model_file(const RepoFile& file) {
  const std::string name = lower(file.path.substr(file.path.rfind('/') + 1));
  return name.ends_with(kExtension) && is_safe_path(file.path) && !name.starts_with("mmproj") &&
         name.find("imatrix") == std::string::npos;
}

// Those of one model: the same name but for the shard's number.
Result<std::vector<RepoFile>> with_all_shards(const RepoFile& first, std::span<const RepoFile> files) {
  const Shard shard = shard_of(first.path);
  std::vector<RepoFile> out(static_cast<size_t>(shard.count));
  std::vector<bool> found(out.size());
  for (const RepoFile& f : files) {
    const Shard s = shard_of(f.path);
    if (s.stem != shard.stem || s.count != shard.count || !f.path.ends_with(kExtension)) continue;
    out[static_cast<size_t>(s.number - 1)] = f;
    found[static_cast<size_t>(s.number - 1)] = true;
  }
  for (size_t i = 0; i < out.size(); ++i)
    if (!found[i])
      return Error{"[hub] " + first.path + ": shard " + std::to_string(i + 1) + " of " + std::to_string(out.size()) +
                   " is missing"};
  return out;
}

}  // namespace

bool is_safe_path(std::string_view path) {
  if (path.empty() || path.size() > 1024) return false;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    if (!is_plain_word(path.substr(begin, end - begin))) return false;
    begin = end + 1;
  }
  return true;
}

bool is_repo(std::string_view repo) {
  const size_t slash = repo.find('/');
  return slash != std::string_view::npos && is_plain_word(repo.substr(0, slash)) &&
         is_plain_word(repo.substr(slash + 1)) && repo.find("--") == std::string_view::npos &&
         repo.find("..") == std::string_view::npos;
}

Result<ModelName> parse_model_name(std::string_view text) {
  if (is_url(text)) return parse_url(text);
  if (auto known = parse_known(text)) return *known;
  if (text.find('/') == std::string_view::npos)
    return bad_name(text, "not a known model; `smelt pull --help` lists them, and user/repo:QUANT names any other");
  return parse_repo(text);
}

bool is_model_name(std::string_view text) { return parse_model_name(text).ok(); }

std::string known_models_text() {
  std::string text;
  for (const Known& known : kKnown) {
    std::string line = "  " + std::string(known.name);
    line.resize(std::max<size_t>(line.size() + 1, 22), ' ');
    text += line + std::string(known.repo) + "\n";
  }
  return text;
}

std::string quant_of(std::string_view file) {
  const std::string stem = upper(shard_of(file.substr(file.rfind('/') + 1)).stem);
  const size_t last = stem.find_last_of("-.");
  const std::string word = stem.substr(last == std::string::npos ? 0 : last + 1);
  if (!is_quant_word(word)) return "";
  return last != std::string::npos && stem.substr(0, last).ends_with("-UD") ? "UD-" + word : word;
}

Result<std::vector<RepoFile>> choose_files(const ModelName& name, std::span<const RepoFile> files) {
  const auto find = [&](const auto& fits) -> const RepoFile* {
    for (const RepoFile& f : files)
      if (is_model_file(f) && shard_of(f.path).number == 1 && fits(f)) return &f;
    return nullptr;
  };
  const auto of_quant = [&](std::string_view quant) {
    return find([&](const RepoFile& f) { return quant_of(f.path) == quant; });
  };
  const RepoFile* file = nullptr;
  if (!name.file.empty()) {
    file = find([&](const RepoFile& f) { return f.path == name.file; });
    if (!file) return Error{"[hub] " + name.repo + ": has no file " + name.file + "; there are: " + quants_text(files)};
  } else if (!name.quant.empty()) {
    file = of_quant(name.quant);
    if (!file) file = of_quant("UD-" + name.quant);
    if (!file) return Error{"[hub] " + name.repo + ": has no " + name.quant + "; there are: " + quants_text(files)};
  } else {
    for (const std::string_view quant : kUsual)
      if (!file) file = of_quant(quant);
    if (!file) file = find([](const RepoFile&) { return true; });
    if (!file) return Error{"[hub] " + name.repo + ": has no .gguf file; choose a repository of GGUF files"};
  }
  return with_all_shards(*file, files);
}

}  // namespace smelt
