// GgufFile: a model file, mapped and checked. First stage of the pipeline: bytes of a file -> typed
// metadata and tensors.
//
// Opening reads the metadata and the tensor table only, in time linear in their size; weights are
// touched by whoever computes with them. After open() every key, string, array and tensor is known
// to lie inside its file, so that nothing behind this class checks bounds again. Everything handed
// out (string_view, data pointers, spans) points into the mapping and lives as long as the
// GgufFile, which may be moved but not copied. Const access is thread-safe.
//
// Errors name the key or tensor and the value:  [gguf] blk.3.ffn_up.weight: type 36 was removed
// from the format; ...
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/types.h"

namespace smelt {

// Types of metadata values; the numbers are those of the file.
enum class GgufKind : uint32_t { U8, I8, U16, I16, U32, I32, F32, Bool, String, Array, U64, I64, F64 };
std::string_view name_of(GgufKind kind);  // "u32", "string"

// One metadata entry. A scalar has count 1; an array has the kind of its elements.
struct GgufValue {
  std::string_view key;
  GgufKind kind;
  bool is_array = false;
  uint64_t count = 1;
  std::span<const std::byte> bytes;  // as in the file: 8 bytes of length before each String
};

struct GgufTensor {
  std::string_view name;
  GgufType type = GgufType::F32;
  int rank = 0;
  std::array<uint64_t, 4> dims = {1, 1, 1, 1};  // fastest first: {in, out, experts}; missing ones are 1
  const std::byte* data = nullptr;              // `bytes` bytes inside the mapping
  uint64_t bytes = 0;
  uint64_t offset = 0;  // of data, from the start of the shard's file
  uint32_t shard = 0;

  uint64_t elements() const { return dims[0] * dims[1] * dims[2] * dims[3]; }  // checked at open: does not wrap
  uint64_t rows() const { return dims[1] * dims[2] * dims[3]; }
  uint64_t row_bytes() const { return bytes / rows(); }
};

// Inclusive bounds for a number of the metadata.
struct GgufRange {
  uint64_t min = 0;
  uint64_t max = UINT64_MAX;
};

// "[gguf] WHERE: WHAT". WHERE (a key, tensor or file) is shortened and its control characters are
// escaped.
Error gguf_error(std::string_view where, std::string_view what);

struct ModelParts;  // gguf/model_parts.h

class GgufFile {
 public:
  // Opens the file and, where its name ends in -0000I-of-0000N.gguf, the other shards (any of them
  // may be given).
  static Result<GgufFile> open(const std::string& path);

  // Reads a file that is in memory already (the embedded model, tests, fuzzing). `bytes` must
  // outlive the result. `name` stands for the path in errors.
  static Result<GgufFile> open_memory(std::span<const std::byte> bytes, std::string name = "memory");

  // A model that is no GGUF file, as if it were one: its files are the shards, and one more has what tensors bring with
  // them. What is wrong with keys and shapes is an Error, as in a file.
  static Result<GgufFile> from_parts(ModelParts parts);

  GgufFile(GgufFile&&) noexcept;
  GgufFile& operator=(GgufFile&&) noexcept;
  ~GgufFile();

  // --- the file
  struct Shard {
    std::string path;
    std::span<const std::byte> bytes;
    uint64_t data_offset = 0;  // where tensor data starts
    uint32_t alignment = 32;
    uint64_t tensors = 0;
    bool is_mapped = false;  // `bytes` is a mapping of the file at `path`, else somebody's memory
  };
  const std::string& path() const;  // as given to open
  uint32_t version() const;
  std::span<const Shard> shards() const;
  uint64_t file_bytes() const;  // of all shards together

  // --- metadata (of the first shard)
  std::span<const GgufValue> metadata() const;         // in the order of the file
  const GgufValue* value(std::string_view key) const;  // null where the key is missing
  bool has(std::string_view key) const { return value(key) != nullptr; }

  // A required value. Integers may have any integer kind that holds them; floats may be f32 or f64
  // and must be finite.
  Result<uint64_t> u64(std::string_view key, GgufRange range = {}) const;
  Result<int64_t> i64(std::string_view key) const;
  Result<double> f64(std::string_view key) const;
  Result<bool> boolean(std::string_view key) const;
  Result<std::string_view> string(std::string_view key) const;

  // The same with a value for a missing key. A key that is there with the wrong kind or range is
  // still an error.
  Result<uint64_t> u64_or(std::string_view key, uint64_t fallback, GgufRange range = {}) const;
  Result<double> f64_or(std::string_view key, double fallback) const;
  Result<bool> boolean_or(std::string_view key, bool fallback) const;
  Result<std::string_view> string_or(std::string_view key, std::string_view fallback) const;

  // Required arrays. Use has() first for optional ones.
  Result<std::vector<std::string_view>> strings(std::string_view key) const;
  Result<std::vector<int64_t>> integers(std::string_view key) const;
  Result<std::vector<double>> floats(std::string_view key) const;

  // --- tensors (of all shards)
  std::span<const GgufTensor> tensors() const;          // in the order of the files
  const GgufTensor* find(std::string_view name) const;  // null where there is none
  // The tensor, of a type that smelt computes with; otherwise an error that names it.
  Result<const GgufTensor*> require(std::string_view name) const;

 private:
  struct State;
  explicit GgufFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace smelt
