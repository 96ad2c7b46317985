#include "runtime/cache_flush.h"

#include <cstring>
#include <vector>

#include "runtime/target.h"

namespace smelt {
namespace {

constexpr int64_t kLine = 64;

// buffers[0]: memory to read, buffers[1]: a line for each part, which takes what keeps the reads from being left out;
// symbols[0]: bytes.
void read_lines(const void* const* buffers, const int64_t* symbols, int64_t part, int64_t parts, std::byte*, int64_t) {
  const auto* bytes = static_cast<const unsigned char*>(buffers[0]);
  const int64_t lines = symbols[0] / kLine;
  unsigned sum = 0;
  for (int64_t i = lines * part / parts, end = lines * (part + 1) / parts; i < end; ++i) sum += bytes[i * kLine];
  static_cast<unsigned char*>(const_cast<void*>(buffers[1]))[part * kLine] = static_cast<unsigned char>(sum);
}

}  // namespace

Result<std::unique_ptr<CacheFlush>> CacheFlush::make(int threads) {
  const CpuTarget& target = host_target();
  const int64_t caches = target.l3_bytes + target.l2_bytes * threads;
  std::unique_ptr<CacheFlush> flush(new CacheFlush(threads, caches));
  SMELT_TRY(buffer, Buffer::allocate(static_cast<size_t>(kTimes * caches)));
  flush->buffer_ = std::move(buffer);
  std::memset(flush->buffer_.data(), 1, flush->buffer_.size());  // pages of its own
  return flush;
}

void CacheFlush::run() {
  std::vector<unsigned char> sums(static_cast<size_t>(workers_.count() * kLine));
  const void* buffers[] = {buffer_.data(), sums.data()};
  const int64_t symbols[] = {static_cast<int64_t>(buffer_.size())};
  const CpuLaunch launches[] = {{read_lines, buffers}};
  workers_.run(launches, symbols);
}

}  // namespace smelt
