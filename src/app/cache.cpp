// `smelt cache`: what smelt keeps on the disk, and clearing it.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>

#include "app/command.h"
#include "base/dirs.h"
#include "base/progress.h"

namespace smelt {
namespace {

namespace fs = std::filesystem;

struct Part {
  const char* name;
  const char* what;
  bool (*is_of)(const fs::path& below);  // of a path below the cache folder
};

bool is_pack(const fs::path& p) { return p.extension() == ".pack" || *p.begin() == "packs"; }
bool is_tuned(const fs::path& p) { return p.filename().string().starts_with("tuned"); }
bool is_download(const fs::path& p) { return *p.begin() == "downloads"; }
bool is_machine(const fs::path& p) { return p.filename().string().starts_with("machine-"); }
bool is_kernel(const fs::path& p) { return !is_pack(p) && !is_tuned(p) && !is_download(p) && !is_machine(p); }

constexpr Part kParts[] = {
    {"kernels", "compiled kernels, made again when they are missing", is_kernel},
    {"packs", "weights in the layout of the kernels (--pack-cache)", is_pack},
    {"tuned", "options found by `smelt tune`", is_tuned},
    {"machine", "what was measured of this processor (smelt devices)", is_machine},
};

struct Total {
  uint64_t files = 0, bytes = 0;
};

void for_each_file(const std::string& root, const Part& part, const std::function<void(const fs::path&)>& visit) {
  std::error_code error;
  std::vector<fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(root, error))
    if (entry.is_regular_file(error) && part.is_of(entry.path().lexically_relative(root)))
      found.push_back(entry.path());
  for (const fs::path& path : found) visit(path);
}

Total total_of(const std::string& root, const Part& part) {
  Total total;
  for_each_file(root, part, [&](const fs::path& path) {
    std::error_code error;
    ++total.files;
    total.bytes += fs::file_size(path, error);
  });
  return total;
}

struct CacheFlags {
  std::vector<std::string> clear;
};

Result<int> run(const CacheFlags& flags) {
  SMELT_TRY(root, cache_folder());
  if (root.empty()) return Error{"[cache] SMELT_CACHE: off, so nothing is kept"};
  if (flags.clear.empty()) std::printf("%s\n", root.c_str());
  for (const Part& part : kParts) {
    const Total total = total_of(root, part);
    const bool clears = std::find_if(flags.clear.begin(), flags.clear.end(), [&](const std::string& name) {
                          return name == part.name || name == "all";
                        }) != flags.clear.end();
    std::error_code error;
    if (clears) for_each_file(root, part, [&](const fs::path& path) { fs::remove(path, error); });
    if (clears || flags.clear.empty())
      std::printf("  %-8s %6llu %s  %9s  %s\n", part.name, static_cast<unsigned long long>(total.files),
                  total.files == 1 ? "file " : "files", bytes_text(total.bytes).c_str(),
                  clears ? (error ? "not all could be removed" : "removed") : part.what);
  }
  return 0;
}

std::string check_part(const std::string& name) {
  std::string known = "all";
  for (const Part& part : kParts) {
    if (name == part.name || name == "all") return {};
    known += std::string(", ") + part.name;
  }
  return "'" + name + "' is unknown; choose from: " + known;
}

}  // namespace

Action declare_cache(CLI::App& app) {
  const auto flags = std::make_shared<CacheFlags>();
  app.add_option("--clear", flags->clear, "remove these: kernels, packs, tuned, machine, all")
      ->type_name("PART,...")
      ->delimiter(',')
      ->check(check_part);
  app.footer("Models are no part of it: see `smelt list` and `smelt rm`.\n");
  return [flags] { return run(*flags); };
}

}  // namespace smelt
