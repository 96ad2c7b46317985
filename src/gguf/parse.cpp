#include "gguf/parse.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/checked.h"
#include "base/hex.h"
#include "base/printable.h"
#include "gguf/limits.h"
#include "gguf/reader.h"

namespace smelt {
namespace {

using namespace gguf_limits;

constexpr std::string_view kMagic = "GGUF";
constexpr uint32_t kDefaultAlignment = 32;
constexpr std::string_view kAlignmentKey = "general.alignment";
constexpr std::string_view kDamaged = "; the file is damaged, download or convert it again";

// The fewest bytes that an entry can take: they bound what a false count can make us reserve.
constexpr uint64_t kLeastKeyValueBytes = 8 + 4 + 1;
constexpr uint64_t kLeastTensorBytes = 8 + 4 + 8 + 4 + 8;

bool was_removed(uint32_t id) { return id == 4 || id == 5 || (id >= 31 && id <= 33) || (id >= 36 && id <= 38); }

std::string dims_text(const GgufTensor& tensor) {
  std::string text = "{";
  for (int i = 0; i < tensor.rank; ++i) text += (i ? ", " : "") + std::to_string(tensor.dims[static_cast<size_t>(i)]);
  return text + "}";
}

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, const std::string& path) : in_(bytes), bytes_(bytes), path_(path) {}

  Result<ParsedGguf> run() {
    SMELT_CHECK(read_header());
    SMELT_CHECK(read_metadata());
    SMELT_CHECK(read_alignment());
    SMELT_CHECK(read_tensors());
    SMELT_CHECK(place_tensors());
    SMELT_CHECK(check_overlaps());
    return std::move(out_);
  }

 private:
  Error damaged(std::string_view where, const std::string& what) const {
    return gguf_error(where, what + std::string(kDamaged));
  }
  Error ends_in(std::string_view where, const std::string& what) const {
    return damaged(where, "the file ends after " + std::to_string(bytes_.size()) + " bytes, inside " + what);
  }

  // --- header

  Status read_header() {
    const auto magic = in_.take_bytes(kMagic.size());
    if (!magic)
      return gguf_error(path_,
                        "a file of " + std::to_string(bytes_.size()) + " bytes is no GGUF file; give a GGUF file");
    if (as_text(*magic) != kMagic) return not_gguf(*magic);
    const auto version = in_.take<uint32_t>();
    if (!version) return ends_in(path_, "the version");
    SMELT_CHECK(check_version(*version));
    const auto tensors = in_.take<uint64_t>();
    const auto entries = in_.take<uint64_t>();
    if (!tensors || !entries) return ends_in(path_, "the header");
    if (*tensors > kTensors) return too_many(path_, "tensor count", *tensors, kTensors);
    if (*entries > kKeyValues) return too_many(path_, "metadata count", *entries, kKeyValues);
    tensor_count_ = *tensors;
    entry_count_ = *entries;
    return {};
  }

  Error not_gguf(std::span<const std::byte> magic) const {
    if (as_text(magic) == "vers") {
      return gguf_error(path_, "this is a Git LFS pointer, not the model; fetch the file itself with `git lfs pull`");
    }
    return gguf_error(path_, "starts with the bytes " + hex(magic) + " instead of 'GGUF'; give a GGUF file");
  }

  Status check_version(uint32_t version) {
    out_.version = version;
    if (version == 2 || version == 3) return {};
    if ((version & 0xFFFF) == 0) {
      return gguf_error(path_, "the file has big-endian byte order; convert the model for little-endian machines");
    }
    return gguf_error(path_, "GGUF version " + std::to_string(version) + " is not 2 or 3; convert the model again");
  }

  Error too_many(std::string_view where, const std::string& what, uint64_t count, uint64_t limit) const {
    return damaged(where, what + " " + std::to_string(count) + " is over the limit of " + std::to_string(limit));
  }

  // --- names

  // How an entry is named in errors until its own key or name has been read.
  struct Place {
    const char* table;
    uint64_t index;
    uint64_t count;
    std::string_view before;  // the name of the entry before it

    std::string text() const {
      const std::string text = std::string(table) + " " + std::to_string(index + 1) + " of " + std::to_string(count);
      return before.empty() ? text : text + " (after " + std::string(before) + ")";
    }
  };

  Result<std::string_view> read_name(const Place& place, const char* what, uint64_t limit) {
    const auto size = in_.take<uint64_t>();
    if (!size) return ends_in(place.text(), "the length of its " + std::string(what));
    if (*size == 0) return damaged(place.text(), "its " + std::string(what) + " is empty");
    if (*size > limit) return too_many(place.text(), std::string(what) + " length", *size, limit);
    const auto bytes = in_.take_bytes(*size);
    if (!bytes) return ends_in(place.text(), "its " + std::string(what));
    return as_text(*bytes);
  }

  // --- metadata

  Status read_metadata() {
    std::vector<GgufValue> values;
    values.reserve(std::min(entry_count_, in_.left() / kLeastKeyValueBytes));
    for (uint64_t i = 0; i < entry_count_; ++i) {
      const std::string_view before = values.empty() ? std::string_view() : values.back().key;
      SMELT_TRY(value, read_entry(i, before));
      values.push_back(value);
    }
    SMELT_TRY(metadata, GgufMetadata::make(std::move(values)));
    out_.metadata = std::move(metadata);
    return {};
  }

  Result<GgufValue> read_entry(uint64_t i, std::string_view before) {
    const Place place = {"metadata entry", i, entry_count_, before};
    SMELT_TRY(key, read_name(place, "key", kKeyBytes));
    return read_value(key);
  }

  Result<GgufKind> read_kind(std::string_view key, const char* what) {
    const auto id = in_.take<uint32_t>();
    if (!id) return ends_in(key, what);
    if (*id > static_cast<uint32_t>(GgufKind::F64))
      return damaged(key, "value type " + std::to_string(*id) + " is unknown");
    return static_cast<GgufKind>(*id);
  }

  Result<GgufValue> read_value(std::string_view key) {
    GgufValue value = {.key = key, .kind = GgufKind::U8};
    SMELT_TRY(kind, read_kind(key, "the type of its value"));
    value.kind = kind;
    if (kind == GgufKind::Array) SMELT_CHECK(read_array_head(value));
    const uint64_t start = in_.position();
    SMELT_CHECK(read_elements(value));
    value.bytes = in_.since(start);
    return value;
  }

  Status read_array_head(GgufValue& value) {
    SMELT_TRY(kind, read_kind(value.key, "the element type of its array"));
    if (kind == GgufKind::Array) return damaged(value.key, "arrays of arrays are not supported");
    const auto count = in_.take<uint64_t>();
    if (!count) return ends_in(value.key, "the length of its array");
    if (*count > kArrayElements) return too_many(value.key, "array length", *count, kArrayElements);
    value.kind = kind;
    value.is_array = true;
    value.count = *count;
    return {};
  }

  Status read_elements(const GgufValue& value) {
    if (value.kind == GgufKind::String) return read_strings(value);
    const Checked size = Checked(value.count) * size_of(value.kind);
    const auto bytes = size.ok() ? in_.take_bytes(size.value()) : std::nullopt;
    if (!bytes) return ends_in(value.key, "its value");
    if (value.kind == GgufKind::Bool) return check_bools(value.key, *bytes);
    return {};
  }

  Status read_strings(const GgufValue& value) {
    for (uint64_t i = 0; i < value.count; ++i) {
      const auto size = in_.take<uint64_t>();
      if (!size) return ends_in(value.key, "its value");
      if (*size > kStringBytes) return too_many(value.key, "string length", *size, kStringBytes);
      if (!in_.take_bytes(*size)) return ends_in(value.key, "its value");
    }
    return {};
  }

  Status check_bools(std::string_view key, std::span<const std::byte> bytes) {
    for (std::byte b : bytes) {
      if (std::to_integer<int>(b) > 1) {
        return damaged(key, "bool value " + std::to_string(std::to_integer<int>(b)) + " is not 0 or 1");
      }
    }
    return {};
  }

  Status read_alignment() {
    out_.alignment = kDefaultAlignment;
    const GgufValue* value = out_.metadata.find(kAlignmentKey);
    if (!value) return {};
    if (value->is_array || value->kind != GgufKind::U32) {
      return damaged(kAlignmentKey,
                     "is of type " + std::string(value->is_array ? "array" : name_of(value->kind)) + ", not u32");
    }
    out_.alignment = load_number<uint32_t>(value->bytes.data());
    if (!std::has_single_bit(out_.alignment) || out_.alignment < kAlignmentMin || out_.alignment > kAlignmentMax) {
      return damaged(kAlignmentKey, "value " + std::to_string(out_.alignment) + " is not a power of two from " +
                                        std::to_string(kAlignmentMin) + " to " + std::to_string(kAlignmentMax));
    }
    return {};
  }

  // --- tensors

  Status read_tensors() {
    out_.tensors.reserve(std::min(tensor_count_, in_.left() / kLeastTensorBytes));
    for (uint64_t i = 0; i < tensor_count_; ++i) {
      const std::string_view before = out_.tensors.empty() ? std::string_view() : out_.tensors.back().name;
      SMELT_TRY(tensor, read_tensor(i, before));
      out_.tensors.push_back(tensor);
    }
    return {};
  }

  Result<GgufTensor> read_tensor(uint64_t i, std::string_view before) {
    const Place place = {"tensor", i, tensor_count_, before};
    SMELT_TRY(name, read_name(place, "name", kNameBytes));
    GgufTensor tensor = {.name = name};
    SMELT_CHECK(read_dims(tensor));
    SMELT_CHECK(read_type(tensor));
    SMELT_CHECK(compute_size(tensor));
    const auto offset = in_.take<uint64_t>();
    if (!offset) return ends_in(tensor.name, "its offset");
    tensor.offset = *offset;  // from the start of the data part, until place_tensors
    return tensor;
  }

  Status read_dims(GgufTensor& tensor) {
    const auto rank = in_.take<uint32_t>();
    if (!rank) return ends_in(tensor.name, "its number of dimensions");
    if (*rank == 0 || *rank > kDims) {
      return damaged(tensor.name,
                     "number of dimensions " + std::to_string(*rank) + " is not 1 to " + std::to_string(kDims));
    }
    tensor.rank = static_cast<int>(*rank);
    for (uint32_t i = 0; i < *rank; ++i) {
      const auto dim = in_.take<uint64_t>();
      if (!dim) return ends_in(tensor.name, "its dimensions");
      if (*dim == 0) return damaged(tensor.name, "dimension " + std::to_string(i) + " is 0");
      tensor.dims[i] = *dim;
    }
    return {};
  }

  Status read_type(GgufTensor& tensor) {
    const auto id = in_.take<uint32_t>();
    if (!id) return ends_in(tensor.name, "its type");
    if (!find_type(*id)) {
      const char* why = was_removed(*id) ? " was removed from the format" : " is unknown";
      return gguf_error(tensor.name, "type " + std::to_string(*id) + why +
                                         "; quantise the model again with another, such as Q4_0 or Q4_K");
    }
    tensor.type = static_cast<GgufType>(*id);
    return {};
  }

  Status compute_size(GgufTensor& tensor) {
    const GgufTypeInfo& info = info_of(tensor.type);
    const Checked rows = Checked(tensor.dims[1]) * tensor.dims[2] * tensor.dims[3];
    if (!(rows * tensor.dims[0]).within(INT64_MAX)) {
      return damaged(tensor.name, "dimensions " + dims_text(tensor) + " have more elements than 63 bits count");
    }
    const Checked blocks = Checked(tensor.dims[0]).divided_exactly_by(info.elements);
    if (!blocks.ok()) {
      return damaged(tensor.name, "a row of " + std::to_string(tensor.dims[0]) + " elements is not a multiple of the " +
                                      std::to_string(info.elements) + " of a " + std::string(info.name) + " block");
    }
    const Checked bytes = blocks * info.bytes * rows;
    if (!bytes.within(INT64_MAX)) {
      return damaged(tensor.name, "dimensions " + dims_text(tensor) + " take more bytes than 63 bits count");
    }
    tensor.bytes = bytes.value();
    return {};
  }

  // Turns offsets in the data part into offsets in the file and pointers.
  Status place_tensors() {
    const Checked data = Checked(in_.position()).aligned_to(out_.alignment);
    out_.data_offset = data.value();  // a position in a file cannot wrap
    for (GgufTensor& tensor : out_.tensors) {
      if (tensor.offset % out_.alignment != 0) {
        return damaged(tensor.name, "offset " + std::to_string(tensor.offset) + " is not a multiple of the alignment " +
                                        std::to_string(out_.alignment));
      }
      const Checked start = data + tensor.offset;
      if (!(start + tensor.bytes).within(bytes_.size())) return past_end(tensor);
      tensor.offset = start.value();
      tensor.data = bytes_.data() + tensor.offset;
    }
    return {};
  }

  Error past_end(const GgufTensor& tensor) const {
    return damaged(tensor.name, "its " + std::to_string(tensor.bytes) + " bytes at offset " +
                                    std::to_string(tensor.offset) +
                                    " of the data part reach past the end of the file (" +
                                    std::to_string(bytes_.size()) + " bytes)");
  }

  // Tensors that share bytes would let a small file stand for any amount of weights.
  Status check_overlaps() {
    std::vector<const GgufTensor*> order;
    order.reserve(out_.tensors.size());
    for (const GgufTensor& tensor : out_.tensors) order.push_back(&tensor);
    std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->offset < b->offset; });
    for (size_t i = 1; i < order.size(); ++i) {
      if (order[i]->data < order[i - 1]->data + order[i - 1]->bytes) {
        return damaged(order[i]->name, "its data overlaps that of " + printable(order[i - 1]->name));
      }
    }
    return {};
  }

  Reader in_;
  std::span<const std::byte> bytes_;
  const std::string& path_;
  uint64_t tensor_count_ = 0;
  uint64_t entry_count_ = 0;
  ParsedGguf out_;
};

}  // namespace

Result<ParsedGguf> parse_gguf(std::span<const std::byte> bytes, const std::string& path) {
  return Parser(bytes, path).run();
}

}  // namespace smelt
