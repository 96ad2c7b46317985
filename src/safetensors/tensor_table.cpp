#include "safetensors/tensor_table.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/printable.h"
#include "gguf/limits.h"

namespace smelt {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMostTableBytes = 100 << 20;  // as the format has it
constexpr size_t kMostAxes = 4;

std::optional<GgufType> type_of(const std::string& dtype) {
  if (dtype == "F32") return GgufType::F32;
  if (dtype == "F16") return GgufType::F16;
  if (dtype == "BF16") return GgufType::BF16;
  if (dtype == "U8") return GgufType::I8;  // packed values and their scales
  return std::nullopt;
}

// Numbers of an array; nothing where it is none, or has others than whole numbers from 0 on.
std::optional<std::vector<uint64_t>> numbers_of(const Json& entry, const char* key) {
  const auto list = entry.find(key);
  if (list == entry.end() || !list->is_array()) return std::nullopt;
  std::vector<uint64_t> numbers;
  for (const Json& number : *list) {
    if (!number.is_number_unsigned()) return std::nullopt;
    numbers.push_back(number.get<uint64_t>());
  }
  return numbers;
}

Result<StoredTensor> read_entry(const std::string& name, const Json& entry, std::span<const std::byte> data) {
  const auto dtype = entry.is_object() ? entry.find("dtype") : entry.end();
  if (!entry.is_object() || dtype == entry.end() || !dtype->is_string())
    return safetensors_error(name, "it has no dtype; the file is damaged, fetch it again");
  const auto type = type_of(*dtype);
  if (!type)
    return safetensors_error(
        name, "dtype " + printable(dtype->get<std::string>()) + " is not supported; F32, F16 and BF16 are");
  const auto shape = numbers_of(entry, "shape"), offsets = numbers_of(entry, "data_offsets");
  if (!shape || !offsets || offsets->size() != 2 || shape->empty() || shape->size() > kMostAxes)
    return safetensors_error(name, "its shape or data_offsets are none; the file is damaged, fetch it again");
  uint64_t bytes = info_of(*type).bytes;
  for (uint64_t size : *shape)
    if (size == 0 || __builtin_mul_overflow(bytes, size, &bytes))
      return safetensors_error(name, "its shape is empty or too large; the file is damaged, fetch it again");
  const uint64_t begin = (*offsets)[0], end = (*offsets)[1];
  if (begin > end || end > data.size() || end - begin != bytes)
    return safetensors_error(name, "its bytes " + std::to_string(begin) + " to " + std::to_string(end) +
                                       " do not go with its shape or the file; fetch the file again");
  return StoredTensor{name, *type, {shape->rbegin(), shape->rend()}, data.subspan(begin, bytes)};
}

}  // namespace

Error safetensors_error(const std::string& where, const std::string& what) {
  return Error{"[safetensors] " + printable(where) + ": " + what};
}

Result<std::vector<StoredTensor>> read_tensor_table(std::span<const std::byte> file, const std::string& path) {
  uint64_t bytes = 0;
  if (file.size() >= sizeof bytes) std::memcpy(&bytes, file.data(), sizeof bytes);
  if (bytes == 0 || bytes > kMostTableBytes || bytes > file.size() - sizeof bytes)
    return safetensors_error(path, "it is no safetensors file, or only a part of one; fetch it again");
  const std::span<const std::byte> table = file.subspan(sizeof bytes, bytes), data = file.subspan(sizeof bytes + bytes);
  const auto* text = reinterpret_cast<const char*>(table.data());
  const Json json = Json::parse(text, text + table.size(), nullptr, false);
  if (!json.is_object()) return safetensors_error(path, "its table of tensors is no JSON object; fetch it again");
  if (json.size() > gguf_limits::kTensors) return safetensors_error(path, "too many tensors");
  std::vector<StoredTensor> tensors;
  for (const auto& [name, entry] : json.items()) {
    if (name == "__metadata__") continue;
    SMELT_TRY(tensor, read_entry(name, entry, data));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace smelt
