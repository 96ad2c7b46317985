// Names of split model files: "model-00002-of-00003.gguf" is the second of three.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace smelt {

struct ShardName {
  std::string stem;     // "model", with its folder
  uint32_t number = 0;  // from 1
  uint32_t count = 0;

  std::string path_of(uint32_t shard) const;  // from 1
};

// Nothing where the name has another form.
std::optional<ShardName> parse_shard_name(std::string_view path);

}  // namespace smelt
