#include "app/synthetic_file.h"

#include <cstring>

#include "gguf/gguf.h"

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

class Metadata : public KeyWriter {
 public:
  // Keys from here on begin with this.
  void begin(const std::string& prefix) { prefix_ = prefix; }

  void number(const std::string& key, int64_t value) override {
    add(key, GgufKind::U32, raw(static_cast<uint32_t>(value)));
  }
  void real(const std::string& key, double value) override { add(key, GgufKind::F32, raw(static_cast<float>(value))); }
  void flag(const std::string& key, bool value) override { add(key, GgufKind::Bool, raw(static_cast<uint8_t>(value))); }
  void text(const std::string& key, const std::string& value) override { add(key, GgufKind::String, raw(value)); }
  uint64_t count() const { return count_; }
  const std::string& bytes() const { return bytes_; }

 private:
  void add(const std::string& key, GgufKind kind, const std::string& value) {
    bytes_ += raw(prefix_ + key) + raw(static_cast<uint32_t>(kind)) + value;
    ++count_;
  }
  std::string prefix_, bytes_;
  uint64_t count_ = 0;
};

Metadata metadata_of(const SyntheticSpec& spec, uint64_t alignment) {
  const std::string& architecture = spec.model->numbers().architecture;
  Metadata out;
  out.text("general.architecture", architecture);
  out.text("general.name", spec.name + " (random weights)");
  out.number("general.alignment", static_cast<int64_t>(alignment));
  out.begin(architecture + ".");
  spec.model->write_keys(out);
  return out;
}

}  // namespace

SyntheticFile synthetic_file(const SyntheticSpec& spec, const std::vector<SyntheticTensor>& tensors,
                             uint64_t alignment) {
  const Metadata metadata = metadata_of(spec, alignment);
  SyntheticFile file;
  file.head = "GGUF" + raw(kVersion) + raw<uint64_t>(tensors.size()) + raw(metadata.count()) + metadata.bytes();
  for (const SyntheticTensor& t : tensors) {
    file.offsets.push_back(file.data_bytes);
    file.head += raw(t.name) + raw(static_cast<uint32_t>(t.dims.size()));
    for (uint64_t dim : t.dims) file.head += raw(dim);
    file.head += raw(static_cast<uint32_t>(t.type)) + raw(file.data_bytes);
    file.data_bytes = aligned(file.data_bytes + t.bytes, alignment);
  }
  file.head.resize(aligned(file.head.size(), alignment));
  return file;
}

}  // namespace smelt
