// Limits at limit - 1, limit and limit + 1, and the cost of large files.
#include "gguf/limits.h"

#include <doctest/doctest.h>

#include <cstring>

#include "gguf/gguf.h"
#include "support/cpu_time.h"
#include "support/gguf_writer.h"

using namespace smelt;
using smelt::test::GgufWriter;

namespace {

bool opens(const GgufWriter& w) {
  const auto bytes = w.bytes();
  return GgufFile::open_memory(bytes).ok();
}

// The same for a file that ends in `count` zeros.
bool opens_with_zeros(const GgufWriter& w, uint64_t count) {
  const std::string head = w.head();
  std::vector<std::byte> bytes(head.size() + count);
  std::memcpy(bytes.data(), head.data(), head.size());
  return GgufFile::open_memory(bytes).ok();
}

// Whether a file with the count `limit` - 1, `limit` and `limit` + 1 opens.
template <class Build>
void check_limit(uint64_t limit, Build build) {
  for (uint64_t count : {limit - 1, limit, limit + 1}) {
    CAPTURE(count);
    CHECK(opens(build(count)) == (count <= limit));
  }
}

// Of a file of as many keys and tensors, and ten times as many strings: the best of three.
double seconds_to_open(int count) {
  GgufWriter w;
  w.strings("tokens", std::vector<std::string>(static_cast<size_t>(count) * 10, "token"))
      .f32s("scores", std::vector<float>(static_cast<size_t>(count) * 10, 0.5f));
  for (int i = 0; i < count; ++i) {
    w.add_raw("key." + std::to_string(i * int64_t{7919} % count), 0, "\x01");
    w.tensor("blk." + std::to_string(i * int64_t{7919} % count) + ".weight", {1});
  }
  const auto bytes = w.bytes();
  double best = 1e9;
  for (int run = 0; run < 3; ++run)
    best = std::min(best, smelt::test::cpu_seconds_of([&] {
                      const auto file = GgufFile::open_memory(bytes);
                      REQUIRE_MESSAGE(file.ok(), file.error().message);
                    }));
  return best;
}

}  // namespace

TEST_CASE("the limit of key bytes holds") {
  check_limit(gguf_limits::kKeyBytes, [](uint64_t n) { return GgufWriter().u32(std::string(n, 'k'), 1); });
}

TEST_CASE("the limit of tensor name bytes holds") {
  check_limit(gguf_limits::kNameBytes, [](uint64_t n) { return GgufWriter().tensor(std::string(n, 'n'), {8}); });
}

// These values are large: they are appended to the file as zeros instead of being built and copied.
TEST_CASE("the limit of string bytes holds") {
  for (uint64_t n : {gguf_limits::kStringBytes - 1, gguf_limits::kStringBytes, gguf_limits::kStringBytes + 1}) {
    CAPTURE(n);
    CHECK(opens_with_zeros(GgufWriter().set("text", GgufKind::String, GgufWriter::le(n)), n) ==
          (n <= gguf_limits::kStringBytes));
  }
}

TEST_CASE("the limit of array elements holds") {
  for (uint64_t n : {gguf_limits::kArrayElements - 1, gguf_limits::kArrayElements, gguf_limits::kArrayElements + 1}) {
    CAPTURE(n);
    CHECK(opens_with_zeros(GgufWriter().array("array", GgufKind::U8, n, ""), n) == (n <= gguf_limits::kArrayElements));
  }
}

TEST_CASE("the limit of metadata entries holds") {
  check_limit(gguf_limits::kKeyValues, [](uint64_t n) {
    GgufWriter w;
    for (uint64_t i = 0; i < n; ++i) w.add_raw("key." + std::to_string(i), 0, "\x01");
    return w;
  });
}

TEST_CASE("the limit of tensors holds") {
  check_limit(gguf_limits::kTensors, [](uint64_t n) {
    GgufWriter w;
    for (uint64_t i = 0; i < n; ++i) w.tensor("t." + std::to_string(i), {1});
    return w;
  });
}

TEST_CASE("the limit of dimensions holds") {
  check_limit(gguf_limits::kDims, [](uint64_t n) { return GgufWriter().tensor("t", std::vector<uint64_t>(n, 1)); });
}

TEST_CASE("the limits of the alignment hold") {
  const auto aligned = [](uint32_t alignment) {
    GgufWriter w;
    w.alignment = alignment;
    w.u32("general.alignment", alignment).tensor("t", {1});
    return w;
  };
  CHECK(!opens(aligned(gguf_limits::kAlignmentMin / 2)));
  CHECK(!opens(aligned(gguf_limits::kAlignmentMin - 1)));
  CHECK(opens(aligned(gguf_limits::kAlignmentMin)));
  CHECK(!opens(aligned(gguf_limits::kAlignmentMin + 1)));
  CHECK(!opens(aligned(gguf_limits::kAlignmentMax - 1)));
  CHECK(opens(aligned(gguf_limits::kAlignmentMax)));
  CHECK(!opens(aligned(gguf_limits::kAlignmentMax + 1)));
  CHECK(!opens(aligned(gguf_limits::kAlignmentMax * 2)));
}

TEST_CASE("a million strings, 10^5 tensors and 10^5 keys open in linear time") {
  // 16 times the file: a quadratic step would make it 256 times the time.
  CHECK(seconds_to_open(100000) < 64 * seconds_to_open(6250));
}

TEST_CASE("a false count in a small file reserves no more than the file can hold") {
  // A file of a few bytes that announces the most of everything is refused at once; memory is
  // bounded by its size.
  GgufWriter w;
  w.tensor_count = gguf_limits::kTensors;
  w.entry_count = gguf_limits::kKeyValues;
  w.array("array", GgufKind::String, gguf_limits::kArrayElements, "");
  const auto bytes = w.bytes();
  CHECK(smelt::test::cpu_seconds_of([&] { CHECK(!GgufFile::open_memory(bytes).ok()); }) < 0.1);
}
