#include "hub/download.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/progress.h"
#include "base/thread.h"
#include "hub/http.h"
#include "hub/piece_journal.h"
#include "hub/sha256.h"

namespace smelt {
namespace {

constexpr uint64_t kPiecesOfARequest = 64;  // each request costs a redirect to the server that has the bytes
constexpr double kLongestPause = 30;
constexpr auto kLook = std::chrono::milliseconds(50);
constexpr uint64_t kSpare = 64 << 20;  // of disk that stays free

using Seconds = std::chrono::duration<double>;

Error system_error(const std::string& path, const char* doing) {
  return Error{"[hub] " + path + ": cannot " + doing + ": " + std::strerror(errno)};
}

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

bool is_cancelled(const Download& d) { return d.cancel && *d.cancel; }

// False when cancelled meanwhile.
bool pause(const Download& d, double seconds) {
  const auto end = std::chrono::steady_clock::now() + Seconds(seconds);
  while (std::chrono::steady_clock::now() < end) {
    if (is_cancelled(d)) return false;
    std::this_thread::sleep_for(std::min<Seconds>(kLook, Seconds(seconds)));
  }
  return !is_cancelled(d);
}

// Held until destroyed; the death of a process releases it, too.
Result<Descriptor> take_lock(const Download& d, const DownloadEvents& events) {
  SMELT_CHECK(make_folders(folder_of(d.lock)));
  Descriptor lock(::open(d.lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (lock.get() < 0) return system_error(d.lock, "open the lock");
  for (bool said = false; ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0;) {
    if (!std::exchange(said, true) && events.note)
      events.note("another process fetches " + d.path.substr(d.path.rfind('/') + 1) + "; waiting for it");
    if (!pause(d, 0.2)) return Error{"[hub] interrupted"};
  }
  return lock;
}

struct ContentRange {
  uint64_t begin = 0, end = 0, size = 0;
};

// "bytes 0-99/1234"
std::optional<ContentRange> parse_content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  if (!text.starts_with(kUnit)) return std::nullopt;
  text.remove_prefix(kUnit.size());
  ContentRange r;
  const auto take = [&](uint64_t& value, char after) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc()) return false;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (after == '\0') return text.empty();
    if (text.empty() || text[0] != after) return false;
    text.remove_prefix(1);
    return true;
  };
  if (!take(r.begin, '-') || !take(r.end, '/') || !take(r.size, '\0') || r.end < r.begin || r.end >= r.size)
    return std::nullopt;
  ++r.end;
  return r;
}

// What the server says about the file at the first answer; later ones must say the same.
struct Remote {
  uint64_t size = 0;
  bool has_ranges = false;
  std::string etag;  // strong ones alone
};

std::string strong_etag(const HttpAnswer& answer) {
  const std::string etag = answer.header("etag");
  return etag.starts_with("W/") || etag.find('\n') != std::string::npos ? "" : etag;
}

// Why an answer that is no success will not become one; empty: trying again may help.
std::string lasting_problem(int status) {
  if (status == 401 || status == 403)
    return "the server wants to know who asks (" + std::to_string(status) +
           "); accept the model's terms on its page, and set HF_TOKEN";
  if (status == 404 || status == 410) return "the server has no such file; check the name";
  return status >= 400 && status < 500 && status != 408 && status != 416 && status != 429
             ? "the server answers " + std::to_string(status)
             : "";
}

class Transfer {
 public:
  Transfer(const Download& d, const DownloadEvents& events) : d_(d), events_(events) {}

  Status run() {
    SMELT_TRY(remote, ask());
    remote_ = remote;
    SMELT_CHECK(open_part());
    SMELT_TRY(journal, PieceJournal::open(d_.path + ".smelt-journal", remote_.size, identity()));
    journal_.emplace(std::move(journal));
    for (bool again = false;; again = true) {
      if (events_.begin) events_.begin(remote_.size, journal_->done_bytes());
      SMELT_CHECK(fetch_pieces());
      auto wrong = verify();
      if (!wrong) return wrong.error();
      if (wrong->empty()) return publish();
      SMELT_CHECK(journal_->forget_all());
      // Bytes of an earlier try may have been lost when the power went; those of a second one have not.
      if (again) return Error{"[hub] " + d_.url + ": " + *wrong + "; nothing was kept"};
    }
  }

 private:
  std::string identity() const {
    if (!d_.sha256.empty()) return "sha256:" + d_.sha256;
    return "etag:" + sha256_of(d_.url + "\n" + remote_.etag);
  }

  // The first byte tells the size, and whether the server knows ranges.
  Result<Remote> ask() {
    std::string problem;
    for (int attempt = 0; attempt <= d_.patience; ++attempt) {
      if (attempt > 0 && !pause(d_, pause_before(attempt))) break;
      Remote remote;
      HttpRequest request{.url = d_.url, .token = d_.token, .range = HttpRange{0, 1}, .cancel = d_.cancel};
      request.on_head = [&](const HttpAnswer& answer) {
        problem = read_first(answer, remote);
        return false;
      };
      problem.clear();
      HttpAnswer answer;
      const auto failed = http_get(request, answer);
      if (is_cancelled(d_)) break;
      if (failed && !failed->was_stopped) {
        problem = failed->message;
        if (!failed->is_passing) return error(problem);
        continue;
      }
      if (const std::string lasting = lasting_problem(answer.status); !lasting.empty()) return error(lasting);
      if (problem.empty() && remote.size > 0) return remote;
      if (problem.empty()) problem = "the server answers " + std::to_string(answer.status);
    }
    return is_cancelled(d_) ? Error{"[hub] interrupted"} : error(problem);
  }

  std::string read_first(const HttpAnswer& answer, Remote& remote) const {
    remote.etag = strong_etag(answer);
    const std::string coding = answer.header("content-encoding");
    if (!coding.empty() && coding != "identity")
      return "the server sends it as " + coding + ", which was not asked for";
    if (answer.status == 206) {
      const auto range = parse_content_range(answer.header("content-range"));
      if (!range || range->begin != 0) return "the server sends another part of the file than it was asked for";
      remote.size = range->size;
      remote.has_ranges = true;
    } else if (answer.status == 200) {
      const std::string length = answer.header("content-length");
      std::from_chars(length.data(), length.data() + length.size(), remote.size);
      if (remote.size == 0) return "the server does not say how long the file is";
    } else {
      return "the server answers " + std::to_string(answer.status);
    }
    if (d_.size > 0 && remote.size != d_.size)
      return "the server has " + std::to_string(remote.size) + " bytes, " + std::to_string(d_.size) + " are expected";
    return {};
  }

  Status open_part() {
    const std::string path = d_.path + ".smelt-part";
    part_ = Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (part_.get() < 0) return system_error(path, "create it");
    struct stat info;
    struct statvfs disk;
    if (::fstat(part_.get(), &info) != 0 || ::fstatvfs(part_.get(), &disk) != 0)
      return system_error(path, "examine it");
    const uint64_t there = static_cast<uint64_t>(info.st_blocks) * 512;
    const uint64_t free = uint64_t{disk.f_bavail} * disk.f_frsize;
    const uint64_t needed = remote_.size - std::min(remote_.size, there) + kSpare;
    if (needed > free) {
      if (there == 0) ::unlink(path.c_str());
      return Error{"[hub] " + d_.path + ": " + bytes_text(needed) + " are needed, " + bytes_text(free) +
                   " are free on this disk; free some, or set HF_HOME to another"};
    }
    if (::ftruncate(part_.get(), static_cast<off_t>(remote_.size)) != 0)
      return system_error(path, "make it long enough");
    return {};
  }

  // --- pieces

  Status fetch_pieces() {
    next_ = 0;
    problem_.reset();
    std::vector<Thread> others;
    const uint64_t missing = remote_.size - journal_->done_bytes();
    const uint64_t requests = missing / (kPiecesOfARequest * kPieceBytes) + 1;
    const int count = remote_.has_ranges ? static_cast<int>(std::min<uint64_t>(d_.connections, requests)) : 1;
    try {
      for (int i = 1; i < count; ++i) others.emplace_back([this] { work(); });
    } catch (const std::system_error&) {  // the system refuses a thread: those that are there do the work
    }
    work();
    for (Thread& t : others) t.join();
    if (is_cancelled(d_)) return Error{"[hub] interrupted"};
    return problem_ ? Status(error(*problem_)) : Status();
  }

  struct Span {
    size_t first = 0, end = 0;  // pieces
  };

  // Missing pieces in a row that nobody has taken yet; an empty one: none are left.
  Span take_span() {
    std::lock_guard lock(mutex_);
    if (!remote_.has_ranges) {  // from the beginning, or not at all
      const Span all{0, next_ == 0 && journal_->done_bytes() < remote_.size ? journal_->pieces() : 0};
      next_ = journal_->pieces();
      return all;
    }
    while (next_ < journal_->pieces() && journal_->is_done(next_)) ++next_;
    Span span{next_, next_};
    while (span.end < journal_->pieces() && span.end - span.first < kPiecesOfARequest && !journal_->is_done(span.end))
      ++span.end;
    next_ = span.end;
    return span;
  }

  bool is_given_up() {
    std::lock_guard lock(mutex_);
    return problem_.has_value() || is_cancelled(d_);
  }

  void give_up(const std::string& problem) {
    std::lock_guard lock(mutex_);
    if (!problem_) problem_ = problem;
  }

  void work() {
    for (Span span = take_span(); span.first < span.end && !is_given_up(); span = take_span()) {
      uint64_t at = journal_->begin(span.first);
      const uint64_t end = journal_->end(span.end - 1);
      for (int failures = 0; at < end && !is_given_up();) {
        const uint64_t before = at;
        const std::string problem = fetch_range(at, end);
        if (at == end) break;
        failures = at > before ? 1 : failures + 1;
        if (failures > d_.patience) return give_up(problem);
        if (!pause(d_, pause_before(failures))) return;
        if (!remote_.has_ranges) {
          take_back(at);
          at = 0;
        }
      }
    }
  }

  // What was counted of a file that is sent from its beginning again.
  void take_back(uint64_t bytes) {
    if (events_.received && bytes > 0) events_.received(0 - bytes);
  }

  double pause_before(int attempt) const {
    return std::min(kLongestPause, d_.first_pause * static_cast<double>(uint64_t{1} << std::min(attempt - 1, 10)));
  }

  // Moves `at` to where the bytes on the disk end; what went wrong, if that is before `end`.
  std::string fetch_range(uint64_t& at, uint64_t end) {
    std::string problem;
    HttpRequest request{.url = d_.url, .token = d_.token, .cancel = d_.cancel};
    if (remote_.has_ranges) {
      request.range = HttpRange{at, end};
      request.if_range = remote_.etag;
    }
    bool lasting = false;
    request.on_head = [&](const HttpAnswer& answer) {
      problem = check_head(answer, at, end, lasting);
      return problem.empty();
    };
    request.on_body = [&](std::string_view data) {
      if (data.size() > end - at) {
        problem = "the server sends more than it was asked for";
        data = data.substr(0, end - at);
      }
      if (const std::string failed = put(data, at); !failed.empty()) {
        problem = failed;
        lasting = true;
      }
      return problem.empty() && !is_given_up();
    };
    HttpAnswer answer;
    const auto failed = http_get(request, answer);
    if (problem.empty() && failed && !failed->was_stopped) problem = failed->message, lasting = !failed->is_passing;
    if (problem.empty() && at < end)
      problem = answer.status == 200 || answer.status == 206 ? "the connection was cut"
                                                             : "the server answers " + std::to_string(answer.status);
    if (const std::string why = lasting_problem(answer.status); !why.empty()) problem = why, lasting = true;
    if (lasting) give_up(problem);
    return problem;
  }

  std::string check_head(const HttpAnswer& answer, uint64_t at, uint64_t end, bool& lasting) const {
    if (answer.status != 200 && answer.status != 206) return "the server answers " + std::to_string(answer.status);
    const std::string coding = answer.header("content-encoding");
    if (!coding.empty() && coding != "identity")
      return "the server sends it as " + coding + ", which was not asked for";
    const std::string etag = strong_etag(answer);
    if (!remote_.etag.empty() && !etag.empty() && etag != remote_.etag) {
      lasting = true;
      return "the file has changed on the server meanwhile; fetch it again";
    }
    if (!remote_.has_ranges) {
      if (answer.status == 200 && answer.header("content-length") == std::to_string(remote_.size)) return {};
      return "the server sends another part of the file than it was asked for";
    }
    if (answer.status == 200) return "the server sends the whole file in place of a part";
    const auto range = parse_content_range(answer.header("content-range"));
    if (!range || range->begin != at || range->end > end || range->size != remote_.size)
      return "the server sends another part of the file than it was asked for";
    return {};
  }

  // Writes at `at`, moves it, and marks the pieces that are whole now.
  std::string put(std::string_view data, uint64_t& at) {
    while (!data.empty()) {
      const size_t piece = static_cast<size_t>(at / kPieceBytes);
      const uint64_t size = std::min<uint64_t>(data.size(), journal_->end(piece) - at);
      for (uint64_t done = 0; done < size;) {
        const ssize_t n = ::pwrite(part_.get(), data.data() + done, size - done, static_cast<off_t>(at + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return std::string("the disk takes no more: ") + std::strerror(errno);
        done += static_cast<uint64_t>(n);
      }
      at += size;
      data.remove_prefix(size);
      if (events_.received) events_.received(size);
      if (at != journal_->end(piece)) continue;
      std::lock_guard lock(mutex_);
      if (const Status marked = journal_->mark_done(piece); !marked) return marked.error().message;
    }
    return {};
  }

  // --- the end

  // What is wrong with the content; empty: nothing. An Error when it cannot be read.
  Result<std::string> verify() {
    if (d_.sha256.empty()) return std::string();
    if (events_.verifying) events_.verifying();
    SMELT_TRY(found, sha256_of_file(part_.get(), events_.received, d_.cancel));
    if (found == d_.sha256) return std::string();
    return "its SHA-256 is " + found + ", not " + d_.sha256;
  }

  Status publish() {
    const std::string part = d_.path + ".smelt-part";
    if (::fsync(part_.get()) != 0) return system_error(part, "sync it");
    if (::rename(part.c_str(), d_.path.c_str()) != 0) return system_error(d_.path, "rename the download to it");
    const Descriptor folder(::open(folder_of(d_.path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder.get() < 0 || ::fsync(folder.get()) != 0) return system_error(folder_of(d_.path), "sync the folder");
    ::unlink((d_.path + ".smelt-journal").c_str());
    return {};
  }

  Error error(const std::string& problem) const { return Error{"[hub] " + d_.url + ": " + problem}; }

  const Download& d_;
  const DownloadEvents& events_;
  Remote remote_;
  Descriptor part_;
  std::optional<PieceJournal> journal_;
  std::mutex mutex_;  // of the journal and these
  size_t next_ = 0;
  std::optional<std::string> problem_;
};

}  // namespace

Status fetch(const Download& download, const DownloadEvents& events) {
  SMELT_CHECK(make_folders(folder_of(download.path)));
  SMELT_TRY(lock, take_lock(download, events));
  struct stat info;
  if (::stat(download.path.c_str(), &info) == 0 && S_ISREG(info.st_mode)) return {};  // somebody else was faster
  return Transfer(download, events).run();
}

}  // namespace smelt
