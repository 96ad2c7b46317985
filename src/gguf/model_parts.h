// A model whose parts were put together from elsewhere: what GgufFile::from_parts() takes.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "gguf/head.h"

namespace smelt {

struct ModelParts {
  struct File {
    std::string path;
    MappedFile map;
  };
  struct Tensor {
    std::string name;
    std::vector<uint64_t> dims;  // fastest first
    GgufType type = GgufType::F32;
    std::span<const std::byte> data = {};  // in a file; or
    size_t file = 0;                       // which one
    std::string own = {};                  // of its own
  };

  std::string path;  // of the model, in errors
  NewMetadata metadata = {};
  std::vector<File> files = {};
  std::vector<Tensor> tensors = {};
};

}  // namespace smelt
