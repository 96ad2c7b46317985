// GgufWriter: builds GGUF files in memory, good ones and bad ones.
//
//   GgufWriter w = GgufWriter::copy_of(model);  // or GgufWriter(): an empty version 3 file
//   w.u32("deepseek2.expert_count", 0).remove("tokenizer.ggml.merges");
//   auto bytes = w.bytes();  // keep alive as long as the GgufFile
//   auto file = GgufFile::open_memory(bytes);
//
// Setting a key again replaces its value in place; add_raw appends whatever it is given.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/gguf.h"

namespace smelt::test {

class GgufWriter {
 public:
  // The raw bytes of numbers, as the file has them.
  template <class T>
  static std::string le(T value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  }
  static std::string text(std::string_view s) { return le<uint64_t>(s.size()) + std::string(s); }

  struct Entry {
    std::string key;
    uint32_t kind;
    std::string value;  // for an array: element kind, count, elements
  };

  struct Tensor {
    std::string name;
    std::vector<uint64_t> dims;
    uint32_t type = 0;
    std::string data;
    std::optional<uint64_t> offset;  // instead of the right one
    std::optional<uint32_t> rank;    // instead of dims.size()
  };

  // What the header says, where it should not be the truth.
  std::string magic = "GGUF";
  uint32_t version = 3;
  std::optional<uint64_t> tensor_count;
  std::optional<uint64_t> entry_count;
  uint64_t alignment = 32;  // that is used; the key general.alignment is set apart
  bool pad_end = true;

  std::vector<Entry> entries;
  std::vector<Tensor> tensors;

  static GgufWriter copy_of(const GgufFile& file) {
    GgufWriter w;
    w.version = file.version();
    w.alignment = file.shards()[0].alignment;
    for (const GgufValue& v : file.metadata()) {
      const std::string bytes(reinterpret_cast<const char*>(v.bytes.data()), v.bytes.size());
      const uint32_t kind = static_cast<uint32_t>(v.kind);
      if (v.is_array) {
        w.entries.push_back({std::string(v.key), 9, le(kind) + le(v.count) + bytes});
      } else {
        w.entries.push_back({std::string(v.key), kind, bytes});
      }
    }
    for (const GgufTensor& t : file.tensors()) {
      w.tensors.push_back({std::string(t.name),
                           std::vector<uint64_t>(t.dims.begin(), t.dims.begin() + t.rank),
                           static_cast<uint32_t>(t.type),
                           std::string(reinterpret_cast<const char*>(t.data), t.bytes),
                           {},
                           {}});
    }
    return w;
  }

  // --- metadata
  GgufWriter& u8(std::string_view key, uint8_t v) { return set(key, GgufKind::U8, le(v)); }
  GgufWriter& i8(std::string_view key, int8_t v) { return set(key, GgufKind::I8, le(v)); }
  GgufWriter& u16(std::string_view key, uint16_t v) { return set(key, GgufKind::U16, le(v)); }
  GgufWriter& i16(std::string_view key, int16_t v) { return set(key, GgufKind::I16, le(v)); }
  GgufWriter& u32(std::string_view key, uint32_t v) { return set(key, GgufKind::U32, le(v)); }
  GgufWriter& i32(std::string_view key, int32_t v) { return set(key, GgufKind::I32, le(v)); }
  GgufWriter& u64(std::string_view key, uint64_t v) { return set(key, GgufKind::U64, le(v)); }
  GgufWriter& i64(std::string_view key, int64_t v) { return set(key, GgufKind::I64, le(v)); }
  GgufWriter& f32(std::string_view key, float v) { return set(key, GgufKind::F32, le(v)); }
  GgufWriter& f64(std::string_view key, double v) { return set(key, GgufKind::F64, le(v)); }
  GgufWriter& boolean(std::string_view key, bool v) { return set(key, GgufKind::Bool, le<uint8_t>(v)); }
  GgufWriter& string(std::string_view key, std::string_view v) { return set(key, GgufKind::String, text(v)); }

  GgufWriter& strings(std::string_view key, const std::vector<std::string>& v) {
    std::string elements;
    for (const std::string& s : v) elements += text(s);
    return array(key, GgufKind::String, v.size(), elements);
  }
  GgufWriter& i32s(std::string_view key, const std::vector<int32_t>& v) { return numbers(key, GgufKind::I32, v); }
  GgufWriter& u32s(std::string_view key, const std::vector<uint32_t>& v) { return numbers(key, GgufKind::U32, v); }
  GgufWriter& f32s(std::string_view key, const std::vector<float>& v) { return numbers(key, GgufKind::F32, v); }

  // An array whose count and elements need not agree.
  GgufWriter& array(std::string_view key, GgufKind kind, uint64_t count, const std::string& elements) {
    return set(key, GgufKind::Array, le(static_cast<uint32_t>(kind)) + le(count) + elements);
  }

  GgufWriter& set(std::string_view key, GgufKind kind, std::string value) {
    const auto found = std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.key == key; });
    if (found == entries.end()) return add_raw(key, static_cast<uint32_t>(kind), std::move(value));
    found->kind = static_cast<uint32_t>(kind);
    found->value = std::move(value);
    return *this;
  }
  GgufWriter& add_raw(std::string_view key, uint32_t kind, std::string value) {
    entries.push_back({std::string(key), kind, std::move(value)});
    return *this;
  }
  GgufWriter& remove(std::string_view key) {
    std::erase_if(entries, [&](const Entry& e) { return e.key == key; });
    return *this;
  }

  // --- tensors
  // Data that is not given is zeros of the right size.
  GgufWriter& tensor(std::string name, std::vector<uint64_t> dims, GgufType type = GgufType::F32,
                     std::string data = {}) {
    if (data.empty()) {
      uint64_t bytes = info_of(type).bytes;
      for (size_t i = 0; i < dims.size(); ++i) bytes *= i == 0 ? dims[0] / info_of(type).elements : dims[i];
      data.assign(bytes, '\0');
    }
    return add_tensor({std::move(name), std::move(dims), static_cast<uint32_t>(type), std::move(data), {}, {}});
  }
  GgufWriter& add_tensor(Tensor t) {
    tensors.push_back(std::move(t));
    return *this;
  }
  GgufWriter& remove_tensor(std::string_view name) {
    std::erase_if(tensors, [&](const Tensor& t) { return t.name == name; });
    return *this;
  }
  Tensor* find_tensor(std::string_view name) {
    const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const Tensor& t) { return t.name == name; });
    return found == tensors.end() ? nullptr : &*found;
  }

  // --- the file
  std::string file() const {
    std::string out = head();
    if (tensors.empty()) return out;
    pad(out);
    const size_t data = out.size();
    for (const Tensor& t : tensors) {
      pad_to(out, data);
      out += t.data;
    }
    if (pad_end) pad_to(out, data);
    return out;
  }
  std::vector<std::byte> bytes() const {
    const std::string out = file();
    std::vector<std::byte> result(out.size());
    std::memcpy(result.data(), out.data(), out.size());
    return result;
  }
  // False where the disk would not take it.
  bool save(const std::string& path) const {
    const std::string out = file();
    FILE* f = std::fopen(path.c_str(), "wb");
    if (!f) return false;
    const bool written = std::fwrite(out.data(), 1, out.size(), f) == out.size();
    return std::fclose(f) == 0 && written;
  }

  // Everything before the padding of the data part.
  std::string head() const {
    std::string out = magic + le(version) + le<uint64_t>(tensor_count.value_or(tensors.size())) +
                      le<uint64_t>(entry_count.value_or(entries.size()));
    for (const Entry& e : entries) out += text(e.key) + le(e.kind) + e.value;
    uint64_t offset = 0;
    for (const Tensor& t : tensors) {
      out += text(t.name) + le<uint32_t>(t.rank.value_or(static_cast<uint32_t>(t.dims.size())));
      for (uint64_t d : t.dims) out += le(d);
      out += le(t.type) + le<uint64_t>(t.offset.value_or(offset));
      offset = (offset + t.data.size() + alignment - 1) / alignment * alignment;
    }
    return out;
  }

 private:
  template <class T>
  GgufWriter& numbers(std::string_view key, GgufKind kind, const std::vector<T>& v) {
    return array(key, kind, v.size(), std::string(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(T)));
  }
  void pad(std::string& out) const { pad_to(out, 0); }
  void pad_to(std::string& out, size_t start) const {
    const size_t used = (out.size() - start) % alignment;
    if (used) out.append(alignment - used, '\0');
  }
};

}  // namespace smelt::test
