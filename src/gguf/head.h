// The part of a GGUF file before its tensor data, for those who write one: header, metadata and tensor table.
#pragma once

#include <string>
#include <vector>

#include "gguf/gguf.h"

namespace smelt {

// Metadata in the order in which it is added.
class NewMetadata {
 public:
  void number(const std::string& key, uint32_t value);
  void real(const std::string& key, float value);
  void flag(const std::string& key, bool value);
  void text(const std::string& key, const std::string& value);
  void texts(const std::string& key, const std::vector<std::string>& values);
  void numbers(const std::string& key, const std::vector<int32_t>& values);
  void reals(const std::string& key, const std::vector<float>& values);
  void copy(const GgufValue& value);

  uint64_t count() const { return count_; }
  const std::string& bytes() const { return bytes_; }

 private:
  void add(const std::string& key, GgufKind kind, const std::string& value);
  template <class T>
  void add_list(const std::string& key, GgufKind kind, const std::vector<T>& values);

  std::string bytes_;
  uint64_t count_ = 0;
};

struct NewTensor {
  std::string name;
  std::vector<uint64_t> dims;  // fastest first
  GgufType type = GgufType::F32;
  uint64_t bytes = 0;
};

// Padded to `alignment`, which is also that of the tensors: tensor i begins at bytes.size() + offsets[i], and the file
// has bytes.size() + data_bytes bytes.
struct NewHead {
  std::string bytes;
  std::vector<uint64_t> offsets;
  uint64_t data_bytes = 0;
};
NewHead new_head(const NewMetadata& metadata, const std::vector<NewTensor>& tensors, uint64_t alignment);

}  // namespace smelt
