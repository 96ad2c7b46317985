// AccessLog: which threads of a block have read and written which bytes since they last waited for each other. Two of
// them must not meet at a byte that one of them writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace smelt {

class AccessLog {
 public:
  static constexpr int kAll = -1;  // every thread

  // `who`: what the numbers are of, for people.
  explicit AccessLog(std::string who = "thread") : who_(std::move(who)) {}

  void barrier() { ++epoch_; }

  // Note an access to the bytes [at, at + size) of a memory, and say with which other thread it collides; empty: none.
  std::string read(size_t memory, size_t at, size_t size, int thread);
  std::string write(size_t memory, size_t at, size_t size, int thread);
  // All have waited for what was written to these bytes, and for nothing else.
  void show(size_t memory, size_t at, size_t size);

 private:
  // Who, in this epoch. Of readers the first, and whether there was another one.
  struct Byte {
    uint32_t written = 0, read = 0;  // epochs; 0: never
    int writer = 0, reader = 0;
  };

  std::vector<Byte>& bytes(size_t memory, size_t end);
  std::string name_of(int thread) const;
  std::string collision(size_t at, int thread, const std::string& does, int other, const std::string& did) const;

  std::string who_;
  uint32_t epoch_ = 1;
  std::vector<std::vector<Byte>> memories_;
};

}  // namespace smelt
