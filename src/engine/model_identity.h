// Which model a file is, whatever its name and place: for what is kept on disk beside it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "gguf/gguf.h"

namespace smelt {

// Of the metadata and the table of tensors of a shard.
uint64_t header_hash(const GgufFile::Shard& shard);

// Of pages all over a file: one that has the size and the metadata of another differs in its weights.
uint64_t sample_hash(std::span<const std::byte> file);

// Of both and the sizes, of all shards, in hexadecimal digits.
std::string model_identity(const GgufFile& file);

}  // namespace smelt
