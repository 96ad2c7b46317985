#include "base/access_log.h"

namespace smelt {
namespace {

constexpr int kMany = -2;  // readers

}  // namespace

std::string AccessLog::name_of(int thread) const {
  return thread == kAll ? "every " + who_ : thread == kMany ? "others" : who_ + " " + std::to_string(thread);
}

std::string AccessLog::collision(size_t at, int thread, const std::string& does, int other,
                                 const std::string& did) const {
  return name_of(thread) + " " + does + " byte " + std::to_string(at) + ", which " + name_of(other) + " " + did +
         ", with no barrier between";
}

std::vector<AccessLog::Byte>& AccessLog::bytes(size_t memory, size_t end) {
  if (memories_.size() <= memory) memories_.resize(memory + 1);
  if (memories_[memory].size() < end) memories_[memory].resize(end);
  return memories_[memory];
}

std::string AccessLog::read(size_t memory, size_t at, size_t size, int thread) {
  std::vector<Byte>& all = bytes(memory, at + size);
  for (size_t i = at; i < at + size; ++i) {
    Byte& byte = all[i];
    if (byte.written == epoch_ && byte.writer != thread) return collision(i, thread, "reads", byte.writer, "writes");
    byte.reader = byte.read == epoch_ && byte.reader != thread ? kMany : thread;
    byte.read = epoch_;
  }
  return "";
}

std::string AccessLog::write(size_t memory, size_t at, size_t size, int thread) {
  std::vector<Byte>& all = bytes(memory, at + size);
  for (size_t i = at; i < at + size; ++i) {
    Byte& byte = all[i];
    if (byte.written == epoch_ && byte.writer != thread) return collision(i, thread, "writes", byte.writer, "writes");
    if (byte.read == epoch_ && byte.reader != thread) return collision(i, thread, "writes", byte.reader, "reads");
    byte.writer = thread;
    byte.written = epoch_;
  }
  return "";
}

void AccessLog::show(size_t memory, size_t at, size_t size) {
  std::vector<Byte>& all = bytes(memory, at + size);
  for (size_t i = at; i < at + size; ++i) all[i].written = 0;
}

}  // namespace smelt
