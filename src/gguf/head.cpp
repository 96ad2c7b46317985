#include "gguf/head.h"

#include <cstring>

namespace smelt {
namespace {

constexpr uint32_t kVersion = 3;

uint64_t aligned(uint64_t bytes, uint64_t alignment) { return (bytes + alignment - 1) / alignment * alignment; }

template <class T>
std::string raw(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

std::string raw(const std::string& text) { return raw<uint64_t>(text.size()) + text; }

}  // namespace

void NewMetadata::number(const std::string& key, uint32_t value) { add(key, GgufKind::U32, raw(value)); }
void NewMetadata::real(const std::string& key, float value) { add(key, GgufKind::F32, raw(value)); }
void NewMetadata::flag(const std::string& key, bool value) {
  add(key, GgufKind::Bool, raw(static_cast<uint8_t>(value)));
}
void NewMetadata::text(const std::string& key, const std::string& value) { add(key, GgufKind::String, raw(value)); }

void NewMetadata::texts(const std::string& key, const std::vector<std::string>& values) {
  add_list(key, GgufKind::String, values);
}
void NewMetadata::numbers(const std::string& key, const std::vector<int32_t>& values) {
  add_list(key, GgufKind::I32, values);
}
void NewMetadata::reals(const std::string& key, const std::vector<float>& values) {
  add_list(key, GgufKind::F32, values);
}

void NewMetadata::copy(const GgufValue& value) {
  const std::string bytes(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size());
  if (!value.is_array) return add(std::string(value.key), value.kind, bytes);
  add(std::string(value.key), GgufKind::Array, raw(static_cast<uint32_t>(value.kind)) + raw(value.count) + bytes);
}

template <class T>
void NewMetadata::add_list(const std::string& key, GgufKind kind, const std::vector<T>& values) {
  std::string bytes = raw(static_cast<uint32_t>(kind)) + raw<uint64_t>(values.size());
  for (const T& value : values) bytes += raw(value);
  add(key, GgufKind::Array, bytes);
}

void NewMetadata::add(const std::string& key, GgufKind kind, const std::string& value) {
  bytes_ += raw(key) + raw(static_cast<uint32_t>(kind)) + value;
  ++count_;
}

NewHead new_head(const NewMetadata& metadata, const std::vector<NewTensor>& tensors, uint64_t alignment) {
  NewHead head;
  head.bytes = "GGUF" + raw(kVersion) + raw<uint64_t>(tensors.size()) + raw(metadata.count()) + metadata.bytes();
  for (const NewTensor& t : tensors) {
    head.offsets.push_back(head.data_bytes);
    head.bytes += raw(t.name) + raw(static_cast<uint32_t>(t.dims.size()));
    for (uint64_t dim : t.dims) head.bytes += raw(dim);
    head.bytes += raw(static_cast<uint32_t>(t.type)) + raw(head.data_bytes);
    head.data_bytes = aligned(head.data_bytes + t.bytes, alignment);
  }
  head.bytes.resize(aligned(head.bytes.size(), alignment));
  return head;
}

}  // namespace smelt
