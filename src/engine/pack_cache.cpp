#include "engine/pack_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/advice.h"
#include "base/dirs.h"
#include "base/hex.h"
#include "base/new_file.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "base/system_calls.h"
#include "engine/model_identity.h"
#include "model/packed_block.h"

namespace smelt {
namespace {

constexpr char kMagic[8] = {'s', 'm', 'e', 'l', 't', 'p', 'c', 'k'};
constexpr uint32_t kFormat = 1;
constexpr std::string_view kSuffix = ".pack";
constexpr uint64_t kPiece = 4 << 20;
constexpr uint64_t kHugePage = 2 << 20;  // the weights begin on one, so that the page cache can have them in such
constexpr uint64_t kWriteBehind = 64;    // pieces that may wait for the disk
constexpr size_t kLongestName = 80;

struct Header {
  char magic[8];
  uint32_t format;
  uint32_t identity_bytes;
  uint64_t weights_offset;
  uint64_t weights_bytes;
  uint64_t checksum;  // of the fields above, the identity and the checksums of the pieces
};
static_assert(sizeof(Header) == 40);

uint64_t pieces_of(uint64_t bytes) { return (bytes + kPiece - 1) / kPiece; }

std::string absolute(const std::string& path) {
  char resolved[PATH_MAX];
  return ::realpath(path.c_str(), resolved) ? resolved : path;
}

// "PATH|BYTES|SECONDS.NANOSECONDS": changes whenever the file does.
std::optional<std::string> state_of(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  const timespec modified = modified_at(info);
  return path + "|" + std::to_string(info.st_size) + "|" + std::to_string(modified.tv_sec) + "." +
         std::to_string(modified.tv_nsec);
}

// Where the bytes of a field lie: everything that interleave_rows() asks for.
std::string place_text(const PackedField& p) {
  std::string text;
  for (int x :
       {p.field.offset, p.piece, p.sections, p.begin, p.stride, p.pairs, p.pairs_at, int{p.is_second}, p.rest_at})
    text += (text.empty() ? " " : "/") + std::to_string(x);
  return text;
}

// Everything that decides which bytes are packed where.
std::string layout_text(const PackPlan& plan) {
  std::string text;
  for (const PackedTensor& t : plan.tensors) {
    text += std::string(t.tensor->name) + " " + std::string(name_of(t.tensor->type)) + " " +
            std::to_string(t.tensor->rows()) + "x" + std::to_string(t.tensor->row_bytes()) + " at " +
            std::to_string(t.offset);
    const auto& [interleave, order, split, piece] = t.layout;  // a new field of WeightLayout belongs into this text
    text += " interleave " + std::to_string(interleave);
    if (split) text += " split " + std::to_string(split);
    if (t.layout.is_packed())
      for (const PackedField& p : packed_fields(t.tensor->type, order, piece)) text += place_text(p);
    text += "\n";
  }
  return text;
}

// The front of a pack. `table`: the checksums of the pieces.
uint64_t checksum_of(const Header& header, std::string_view identity, std::span<const uint64_t> table) {
  const uint64_t front = XXH3_64bits(&header, offsetof(Header, checksum));
  const uint64_t text = XXH3_64bits_withSeed(identity.data(), identity.size(), front);
  return XXH3_64bits_withSeed(table.data(), table.size_bytes(), text);
}

struct Front {
  Header header;
  std::string_view identity;
  std::vector<uint64_t> table;
};

// Nothing if these bytes are not the front of an intact pack of their size.
std::optional<Front> parse_front(std::span<const std::byte> file) {
  Front front;
  if (file.size() < sizeof(Header)) return std::nullopt;
  std::memcpy(&front.header, file.data(), sizeof(Header));
  const Header& h = front.header;
  if (std::memcmp(h.magic, kMagic, sizeof kMagic) != 0 || h.format != kFormat) return std::nullopt;
  if (h.weights_offset > file.size() || h.weights_bytes != file.size() - h.weights_offset) return std::nullopt;
  const uint64_t table_bytes = pieces_of(h.weights_bytes) * sizeof(uint64_t);
  if (sizeof(Header) + h.identity_bytes + table_bytes > h.weights_offset) return std::nullopt;
  front.identity = {reinterpret_cast<const char*>(file.data()) + sizeof(Header), h.identity_bytes};
  front.table.resize(pieces_of(h.weights_bytes));
  std::memcpy(front.table.data(), front.identity.data() + h.identity_bytes, table_bytes);
  if (checksum_of(h, front.identity, front.table) != h.checksum) return std::nullopt;
  return front;
}

std::string front_bytes(const std::string& identity, std::span<const uint64_t> table, uint64_t weights_offset,
                        uint64_t weights_bytes) {
  Header header{.format = kFormat,
                .identity_bytes = static_cast<uint32_t>(identity.size()),
                .weights_offset = weights_offset,
                .weights_bytes = weights_bytes};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.checksum = checksum_of(header, identity, table);
  std::string front(reinterpret_cast<const char*>(&header), sizeof header);
  front += identity;
  return front.append(reinterpret_cast<const char*>(table.data()), table.size_bytes());
}

// Brings every piece into memory; false if one has not its checksum.
bool is_intact(std::span<const std::byte> weights, std::span<const uint64_t> table, const LoadOptions& options) {
  advise(weights, Advice::HugePages);
  std::atomic<bool> intact = true;
  std::atomic<uint64_t> done = 0;
  for_each_in_parallel(table.size(), options.threads, [&](size_t i, int worker) {
    if (options.cancelled() || !intact) return;
    const uint64_t at = i * kPiece, size = std::min(kPiece, weights.size() - at);
    advise(weights.subspan(at, size), Advice::PopulateRead);
    if (XXH3_64bits(weights.data() + at, size) != table[i]) intact = false;
    done += size;
    if (worker == 0) options.report(static_cast<int64_t>(done), static_cast<int64_t>(weights.size()));
  });
  return intact;
}

int write_at(int fd, const void* data, uint64_t size, uint64_t at) {
  for (const char* from = static_cast<const char*>(data); size > 0;) {
    const ssize_t written = ::pwrite(fd, from, size, static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    from += written, at += static_cast<uint64_t>(written), size -= static_cast<uint64_t>(written);
  }
  return 0;
}

// Starts writing a piece to the disk, and waits for one long before it, so that progress is that of the disk.
void write_back(int fd, uint64_t offset, uint64_t piece) {
  const auto sync = [&](uint64_t which, unsigned flags) {
    ::sync_file_range(fd, static_cast<off_t>(offset + which * kPiece), kPiece, flags);
  };
  sync(piece, SYNC_FILE_RANGE_WRITE);
  if (piece >= kWriteBehind)
    sync(piece - kWriteBehind, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
}

Error cannot_write(const std::string& path, int error) {
  return Error{"[pack cache] " + path + ": cannot be written: " + std::strerror(error)};
}

Status check_space(const std::string& folder, const std::string& path, uint64_t needed) {
  struct statvfs info;
  if (::statvfs(folder.c_str(), &info) != 0) return {};
  const uint64_t free = uint64_t{info.f_bavail} * info.f_frsize;
  if (needed <= free) return {};
  return Error{"[pack cache] " + path + ": " + bytes_text(needed) + " are needed, " + bytes_text(free) +
               " are free on this disk; free some, or set SMELT_CACHE to another"};
}

// Writes the weights; `table` becomes the checksums of the pieces. An errno, or 0.
int write_pieces(const NewFile& file, uint64_t offset, std::span<const std::byte> weights, std::span<uint64_t> table,
                 const LoadOptions& options) {
  std::atomic<int> error = 0;
  std::atomic<uint64_t> done = 0;
  for_each_in_parallel(table.size(), options.threads, [&](size_t i, int worker) {
    if (options.cancelled() || error != 0) return;
    const auto piece = weights.subspan(i * kPiece, std::min(kPiece, weights.size() - i * kPiece));
    table[i] = XXH3_64bits(piece.data(), piece.size());
    if (int e = write_at(file.fd(), piece.data(), piece.size(), offset + i * kPiece)) error = e;
    write_back(file.fd(), offset, i);
    done += piece.size();
    if (worker == 0) options.report(static_cast<int64_t>(done), static_cast<int64_t>(weights.size()));
  });
  return error;
}

// Whether a file may lie on a disk that is not mounted now: then its folder is not there, or it is the empty place
// where that disk is mounted.
bool may_be_unmounted(const std::string& path) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return !std::filesystem::exists(folder, error) || std::filesystem::is_empty(folder, error) || error;
}

// The state_of() lines of an identity, as they are now. False if one is not as it was, or its file is gone for good.
bool is_current(std::string_view identity) {
  constexpr std::string_view kFile = "file ";
  for (size_t begin = 0; begin < identity.size();) {
    const size_t end = std::min(identity.find('\n', begin), identity.size());
    const std::string_view line = identity.substr(begin, end - begin);
    begin = end + 1;
    if (!line.starts_with(kFile)) continue;
    const std::string was(line.substr(kFile.size()));
    const std::string path = was.substr(0, was.rfind('|', was.rfind('|') - 1));
    const auto is = state_of(path);
    if (is ? *is != was : !may_be_unmounted(path)) return false;
  }
  return true;
}

bool is_outdated(const std::string& path) {
  const auto file = MappedFile::open(path);
  if (!file) return false;
  const auto front = parse_front(file->bytes());
  return !front || !is_current(front->identity);
}

void remove_outdated(const std::string& folder) {
  DIR* listing = ::opendir(folder.c_str());
  if (!listing) return;
  while (const dirent* item = ::readdir(listing)) {
    const std::string path = folder + "/" + item->d_name;
    if (path.ends_with(kSuffix) && is_outdated(path)) ::unlink(path.c_str());
  }
  ::closedir(listing);
}

// The model's own name, for people who look into the folder.
std::string stem_of(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  if (name.ends_with(".gguf")) name.resize(name.size() - 5);
  return name.substr(0, kLongestName);
}

}  // namespace

Result<PackCache> PackCache::open(const GgufFile& file, const PackPlan& plan, const std::string& folder) {
  PackCache cache;
  SMELT_CHECK(make_folders(folder));
  SMELT_CHECK(check_own_folder(folder, "[pack cache] "));
  cache.folder_ = folder;
  cache.bytes_ = plan.bytes;
  const std::string layout = layout_text(plan);
  for (const GgufFile::Shard& shard : file.shards()) {
    const auto state = shard.is_mapped ? state_of(absolute(shard.path)) : std::nullopt;
    if (!state) return Error{"[pack cache] " + file.path() + ": not a file, so nothing is kept"};
    cache.identity_ += "file " + *state + "\nheader " + hex(header_hash(shard)) + "\n";
    cache.identity_ += "sample " + hex(sample_hash(shard.bytes)) + "\n";
  }
  cache.identity_ += "layout " + hex(XXH3_64bits(layout.data(), layout.size())) + "\n";
  const std::string key = absolute(file.path()) + "\n" + layout;
  cache.path_ = folder + "/" + stem_of(absolute(file.path())) + "-" + hex(XXH3_64bits(key.data(), key.size())) +
                std::string(kSuffix);
  return cache;
}

std::optional<PackCache::Mapped> PackCache::load(const LoadOptions& options, std::string& problem) const {
  if (::access(path_.c_str(), F_OK) != 0) return std::nullopt;
  const auto drop = [&](const char* why) {
    ::unlink(path_.c_str());
    problem = "[pack cache] " + path_ + ": " + why + "; the model is packed anew";
    return std::nullopt;
  };
  auto mapped = MappedFile::open_own(path_);
  if (!mapped) return drop("cannot be read, or others could have written it");
  const auto front = parse_front(mapped->bytes());
  if (!front) return drop("damaged");
  if (front->identity != identity_ || front->header.weights_bytes != static_cast<uint64_t>(bytes_))
    return drop("made from an older model file");
  const auto weights = mapped->bytes().subspan(front->header.weights_offset);
  const bool intact = is_intact(weights, front->table, options);
  if (options.cancelled()) return std::nullopt;
  if (!intact) return drop("damaged");
  return Mapped{mapped.take(), weights};
}

Status PackCache::store(std::span<const std::byte> weights, const LoadOptions& options) const {
  remove_abandoned_files(folder_, kSuffix);
  remove_outdated(folder_);
  const size_t pieces = pieces_of(weights.size());
  const uint64_t front_size = sizeof(Header) + identity_.size() + pieces * sizeof(uint64_t);
  const uint64_t offset = (front_size + kHugePage - 1) / kHugePage * kHugePage;
  SMELT_CHECK(check_space(folder_, path_, offset + weights.size()));
  std::vector<uint64_t> table(pieces);
  SMELT_TRY(file, NewFile::create(path_));
  int error = take_room(file.fd(), offset + weights.size());  // before the work
  if (error == 0) error = write_pieces(file, offset, weights, table, options);
  if (options.cancelled()) return Error{"[pack cache] interrupted"};
  const std::string front = front_bytes(identity_, table, offset, weights.size());
  if (error == 0) error = write_at(file.fd(), front.data(), front.size(), 0);
  if (error != 0) return cannot_write(path_, error);
  return file.publish();
}

}  // namespace smelt
