// GgufMetadata: the key/value entries of one file, with typed access. GgufFile shows the same
// functions; see gguf.h.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"

namespace smelt {

// Bytes of one value of this kind; 0 for String and Array, whose values differ in size.
uint64_t size_of(GgufKind kind);

class GgufMetadata {
 public:
  GgufMetadata() = default;

  // Fails where two entries have the same key.
  static Result<GgufMetadata> make(std::vector<GgufValue> values);

  std::span<const GgufValue> values() const { return values_; }
  const GgufValue* find(std::string_view key) const;

  Result<uint64_t> u64(std::string_view key, GgufRange range) const;
  Result<int64_t> i64(std::string_view key) const;
  Result<double> f64(std::string_view key) const;
  Result<bool> boolean(std::string_view key) const;
  Result<std::string_view> string(std::string_view key) const;
  Result<std::vector<std::string_view>> strings(std::string_view key) const;
  Result<std::vector<int64_t>> integers(std::string_view key) const;
  Result<std::vector<double>> floats(std::string_view key) const;

 private:
  Result<const GgufValue*> scalar(std::string_view key, std::string_view expected) const;
  Result<const GgufValue*> array(std::string_view key, std::string_view expected) const;

  std::vector<GgufValue> values_;
  std::vector<uint32_t> by_key_;  // indices into values_, sorted by key
};

}  // namespace smelt
