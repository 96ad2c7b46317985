// libFuzzer target: any bytes as a .safetensors file, as config.json and as tokenizer.json.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "safetensors/config.h"
#include "safetensors/tensor_table.h"
#include "safetensors/tokenizer_json.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check_line(const smelt::Error& error) {
  require(!error.message.empty() && error.message.find('\n') == std::string::npos);
}

void check_table(std::span<const std::byte> file) {
  const auto table = smelt::read_tensor_table(file, "fuzz");
  if (!table) return check_line(table.error());
  for (const smelt::StoredTensor& tensor : *table) {
    require(!tensor.data.empty() && tensor.dims.size() >= 1 && tensor.dims.size() <= 4);
    require(tensor.data.data() >= file.data() && tensor.data.data() + tensor.data.size() <= file.data() + file.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  check_table({reinterpret_cast<const std::byte*>(data), size});
  const nlohmann::json json = nlohmann::json::parse(data, data + size, nullptr, false);
  if (json.is_discarded()) return 0;
  smelt::NewMetadata out;
  if (const auto config = smelt::read_config(json, out); !config) check_line(config.error());
  if (const auto status = smelt::read_tokenizer_json(json, json, 64, out); !status) check_line(status.error());
  return 0;
}
