#include "hub/piece_journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/file.h"

namespace smelt {
namespace {

constexpr char kDone = 'x', kMissing = '.';

size_t pieces_of(uint64_t bytes) { return static_cast<size_t>((bytes + kPieceBytes - 1) / kPieceBytes); }

std::string head_of(uint64_t bytes, std::string_view what) {
  return "smelt download 1\nbytes " + std::to_string(bytes) + " pieces " + std::to_string(pieces_of(bytes)) + " of " +
         std::to_string(kPieceBytes) + "\nwhat " + std::string(what) + "\n";
}

Error journal_error(const char* doing) {
  return Error{std::string("[hub] the journal of a download cannot be ") + doing + ": " + std::strerror(errno)};
}

}  // namespace

std::vector<bool> PieceJournal::parse(std::string_view text, uint64_t bytes, std::string_view what) {
  const std::string head = head_of(bytes, what);
  const size_t pieces = pieces_of(bytes);
  if (!text.starts_with(head) || text.size() != head.size() + pieces) return {};
  std::vector<bool> done(pieces);
  for (size_t i = 0; i < pieces; ++i) {
    const char c = text[head.size() + i];
    if (c != kDone && c != kMissing) return {};
    done[i] = c == kDone;
  }
  return done;
}

Result<PieceJournal> PieceJournal::open(const std::string& path, uint64_t bytes, const std::string& what) {
  const std::string head = head_of(bytes, what);
  const auto old = read_file(path, head.size() + pieces_of(bytes) + 1);
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return journal_error("opened");
  PieceJournal journal(fd, bytes, head.size());
  if (old) journal.done_ = parse(*old, bytes, what);
  if (journal.done_.size() == pieces_of(bytes)) return journal;
  journal.done_.assign(pieces_of(bytes), false);
  const std::string text = head + std::string(journal.done_.size(), kMissing);
  if (::ftruncate(fd, 0) != 0 || write_all(fd, text) != 0) return journal_error("written");
  return journal;
}

PieceJournal::PieceJournal(PieceJournal&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), bytes_(other.bytes_), head_(other.head_), done_(std::move(other.done_)) {}

PieceJournal::~PieceJournal() {
  if (fd_ >= 0) ::close(fd_);
}

uint64_t PieceJournal::end(size_t piece) const { return std::min(bytes_, (piece + 1) * kPieceBytes); }

uint64_t PieceJournal::done_bytes() const {
  uint64_t bytes = 0;
  for (size_t i = 0; i < done_.size(); ++i)
    if (done_[i]) bytes += end(i) - begin(i);
  return bytes;
}

Status PieceJournal::mark_done(size_t piece) {
  if (::pwrite(fd_, &kDone, 1, static_cast<off_t>(head_ + piece)) != 1) return journal_error("written");
  done_[piece] = true;
  return {};
}

Status PieceJournal::forget_all() {
  const std::string missing(done_.size(), kMissing);
  if (::pwrite(fd_, missing.data(), missing.size(), static_cast<off_t>(head_)) != static_cast<ssize_t>(missing.size()))
    return journal_error("written");
  done_.assign(done_.size(), false);
  return {};
}

}  // namespace smelt
