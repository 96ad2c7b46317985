// Which pieces of a download are on the disk: a text file beside it, one character a piece, changed in place.
//
//   smelt download 1
//   bytes 18471234 pieces 18 of 1048576
//   what sha256:6e3f...
//   ......xxxx..x.....
//
// A journal that does not fit the file that is wanted counts for nothing: the download starts again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace smelt {

constexpr uint64_t kPieceBytes = 1 << 20;

class PieceJournal {
 public:
  // Opens the journal at `path`, or begins one. `what`: identifies the content; it has no line break.
  static Result<PieceJournal> open(const std::string& path, uint64_t bytes, const std::string& what);
  PieceJournal(PieceJournal&& other) noexcept;
  PieceJournal& operator=(PieceJournal&&) = delete;
  ~PieceJournal();

  size_t pieces() const { return done_.size(); }
  bool is_done(size_t piece) const { return done_[piece]; }
  uint64_t done_bytes() const;
  uint64_t begin(size_t piece) const { return piece * kPieceBytes; }
  uint64_t end(size_t piece) const;

  Status mark_done(size_t piece);
  Status forget_all();

  // The pieces of a journal's text; nothing if it is not one of that file.
  static std::vector<bool> parse(std::string_view text, uint64_t bytes, std::string_view what);

 private:
  PieceJournal(int fd, uint64_t bytes, size_t head) : fd_(fd), bytes_(bytes), head_(head) {}
  int fd_;
  uint64_t bytes_;
  size_t head_;  // bytes before the pieces
  std::vector<bool> done_;
};

}  // namespace smelt
