#include "runtime/kernel_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <ctime>
#include <vector>

#include "base/dirs.h"
#include "base/file.h"
#include "base/hex.h"

namespace smelt {
namespace {

constexpr char kMagic[8] = {'s', 'm', 'e', 'l', 't', 'k', 'r', 'n'};
constexpr uint32_t kFormat = 1;
constexpr std::string_view kSuffix = ".kernel";
constexpr uint64_t kLargestEntry = 64 << 20;  // no kernel is that large; a file that is, is not ours
constexpr time_t kAbandonedSeconds = 3600;    // a temporary file of that age has no writer any more
constexpr time_t kTouchSeconds = 3600;        // how exactly "used last" is known

// The front of an entry. The checksum covers the file but for itself, header included.
struct Header {
  char magic[8];
  uint32_t format;
  uint32_t identity_bytes;
  uint64_t object_bytes;
  uint64_t key_low, key_high;
  uint64_t checksum_low, checksum_high;
};
static_assert(sizeof(Header) == 56);
static_assert(offsetof(Header, checksum_low) == 40);

XXH128_hash_t checksum(const Header& header, std::string_view body) {
  XXH128_hash_t front = XXH3_128bits(&header, offsetof(Header, checksum_low));
  return XXH3_128bits_withSeed(body.data(), body.size(), front.low64 ^ front.high64);
}

// One after the other with their lengths, so that no two lists of fields give the same text.
void append_field(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append("[").append(std::to_string(value.size())).append("]=").append(value).append("\n");
}

bool is_ours_alone(const struct stat& info) {
  return info.st_uid == ::geteuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// A descriptor that closes itself.
class File {
 public:
  explicit File(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

std::optional<std::string> read_exactly(int fd, size_t bytes) {
  std::string contents(bytes, '\0');
  for (size_t at = 0; at < bytes;) {
    ssize_t got = ::read(fd, contents.data() + at, bytes - at);
    if (got <= 0) return std::nullopt;
    at += static_cast<size_t>(got);
  }
  return contents;
}

struct Listed {
  std::string name;
  uint64_t bytes;
  time_t used;
};

bool is_entry(std::string_view name) { return name.ends_with(kSuffix); }
bool is_temporary(std::string_view name) { return name.find(std::string(kSuffix) + ".tmp-") != name.npos; }

// The files of the cache in a folder, those used longest ago first. Other files there are none of
// its business.
std::vector<Listed> list(const std::string& directory) {
  std::vector<Listed> files;
  DIR* folder = ::opendir(directory.c_str());
  if (!folder) return files;
  while (const dirent* item = ::readdir(folder)) {
    struct stat info;
    if (!is_entry(item->d_name) && !is_temporary(item->d_name)) continue;
    if (::fstatat(::dirfd(folder), item->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) continue;
    files.push_back({item->d_name, static_cast<uint64_t>(info.st_size), info.st_mtime});
  }
  ::closedir(folder);
  std::sort(files.begin(), files.end(),
            [](const Listed& a, const Listed& b) { return a.used != b.used ? a.used < b.used : a.name < b.name; });
  return files;
}

}  // namespace

std::string KernelKey::hex() const { return smelt::hex(high) + smelt::hex(low); }

KernelKey make_key(const KernelIdentity& identity) {
  KernelKey key;
  append_field(key.identity, "entry", identity.entry);
  append_field(key.identity, "triple", identity.triple);
  append_field(key.identity, "cpu", identity.cpu);
  append_field(key.identity, "features", identity.features);
  append_field(key.identity, "compiler", identity.compiler);
  append_field(key.identity, "pipeline", identity.pipeline);
  append_field(key.identity, "version", identity.version);
  append_field(key.identity, "text_bytes", std::to_string(identity.text.size()));
  std::string all = key.identity;
  all.append(identity.text);
  XXH128_hash_t hash = XXH3_128bits(all.data(), all.size());
  key.low = hash.low64;
  key.high = hash.high64;
  return key;
}

std::string format_key(const KernelKey& key) { return key.hex() + key.identity; }

std::optional<KernelKey> parse_key(std::string_view text) {
  constexpr size_t kDigits = 16;
  KernelKey key;
  if (text.size() < 2 * kDigits) return std::nullopt;
  for (uint64_t* half : {&key.high, &key.low}) {
    const char* end = text.data() + kDigits;
    const auto [p, error] = std::from_chars(text.data(), end, *half, 16);
    if (error != std::errc() || p != end) return std::nullopt;
    text.remove_prefix(kDigits);
  }
  key.identity = text;
  return key;
}

std::string format_entry(const KernelKey& key, std::string_view object) {
  std::string body = key.identity;
  body.append(object);
  Header header{.format = kFormat,
                .identity_bytes = static_cast<uint32_t>(key.identity.size()),
                .object_bytes = object.size(),
                .key_low = key.low,
                .key_high = key.high};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  XXH128_hash_t sum = checksum(header, body);
  header.checksum_low = sum.low64;
  header.checksum_high = sum.high64;
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + body;
}

std::optional<std::string_view> parse_entry(std::string_view file, const KernelKey& key) {
  Header header;
  if (file.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, file.data(), sizeof header);
  std::string_view body = file.substr(sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.format != kFormat) return std::nullopt;
  if (header.identity_bytes > body.size() || header.object_bytes != body.size() - header.identity_bytes)
    return std::nullopt;
  if (header.key_low != key.low || header.key_high != key.high) return std::nullopt;
  XXH128_hash_t sum = checksum(header, body);
  if (header.checksum_low != sum.low64 || header.checksum_high != sum.high64) return std::nullopt;
  if (body.substr(0, header.identity_bytes) != key.identity) return std::nullopt;
  return body.substr(header.identity_bytes);
}

KernelCache::KernelCache(std::string directory, uint64_t byte_limit)
    : directory_(std::move(directory)), byte_limit_(byte_limit) {
  if (directory_.empty() || !make_folders(directory_)) return;
  struct stat info;
  usable_ = ::stat(directory_.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && is_ours_alone(info);
  if (!usable_) return;
  for (const Listed& file : list(directory_)) bytes_ += file.bytes;
}

std::string KernelCache::path_of(const KernelKey& key) const {
  return directory_ + "/" + key.hex() + std::string(kSuffix);
}

std::optional<std::string> KernelCache::load(const KernelKey& key) {
  if (!usable_) return std::nullopt;
  File file(path_of(key));
  struct stat info;
  if (!file || ::fstat(file.fd(), &info) != 0 || !S_ISREG(info.st_mode) || !is_ours_alone(info)) return std::nullopt;
  if (static_cast<uint64_t>(info.st_size) > kLargestEntry) return std::nullopt;
  std::optional<std::string> contents = read_exactly(file.fd(), static_cast<size_t>(info.st_size));
  if (!contents) return std::nullopt;
  std::optional<std::string_view> object = parse_entry(*contents, key);
  if (!object) return std::nullopt;
  if (::time(nullptr) - info.st_mtime > kTouchSeconds) ::futimens(file.fd(), nullptr);
  return std::string(*object);
}

void KernelCache::store(const KernelKey& key, std::string_view object) {
  if (!usable_) return;
  std::string contents = format_entry(key, object);
  if (contents.size() > std::min(kLargestEntry, byte_limit_)) return;
  if (!publish_file(path_of(key), contents)) return;  // a full disk, say: the next start compiles again
  if (bytes_.fetch_add(contents.size()) + contents.size() > byte_limit_) shrink(byte_limit_ / 10 * 9);
}

void KernelCache::shrink(uint64_t bytes) {
  if (!usable_) return;
  std::lock_guard lock(shrink_mutex_);
  std::vector<Listed> files = list(directory_);
  uint64_t total = 0;
  for (const Listed& file : files) total += file.bytes;
  const time_t now = ::time(nullptr);
  for (const Listed& file : files) {
    bool goes = is_entry(file.name) ? total > bytes : now - file.used > kAbandonedSeconds;
    if (!goes) continue;
    if (::unlink((directory_ + "/" + file.name).c_str()) == 0) total -= file.bytes;
  }
  bytes_ = total;
}

OpenedKernelCache open_kernel_cache(std::string folder, bool use_cache) {
  OpenedKernelCache out;
  if (use_cache && folder.empty()) {
    const Result<std::string> found = cache_folder();
    if (!found) out.problem = found.error().message;
    if (found && !found->empty()) folder = *found + "/kernels";
  }
  out.kernels = std::make_unique<KernelCache>(use_cache ? folder : "");
  if (use_cache && !folder.empty() && !out.kernels->usable())
    out.problem = "[cache] " + folder +
                  ": not a folder that belongs to you and to nobody else; kernels are compiled anew each time";
  return out;
}

}  // namespace smelt
