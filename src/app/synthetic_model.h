// A model of random weights in memory, which the rest of the program reads like a file.
//
// It takes hardly any memory of its own. Matrices in block formats are copied into another layout when a session
// opens, so here they are only addresses: a few megabytes of random blocks for each type and size of values, mapped
// again and again. What sessions read in place (F32, F16, BF16) has bytes of its own.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "app/synthetic_shapes.h"
#include "base/result.h"
#include "gguf/gguf.h"

namespace smelt {

// What somebody wants of the weights.
enum class SyntheticUse {
  repacked,  // a session that copies them into another layout
  in_place,  // a session that reads them where they are: each has bytes of its own
  copied,    // their bytes, one after the other
};

constexpr SyntheticUse use_of_weights(bool no_repack) {
  return no_repack ? SyntheticUse::in_place : SyntheticUse::repacked;
}

class SyntheticModel {
 public:
  // An Error if the machine has not enough memory for a session with this model; it names the bytes needed and
  // available, and the number of layers that would fit.
  static Result<std::unique_ptr<SyntheticModel>> make(const SyntheticSpec& spec,
                                                      SyntheticUse use = SyntheticUse::repacked);
  // The same without weights: addresses that take no memory, for whoever prints kernels and runs none.
  static Result<std::unique_ptr<SyntheticModel>> without_weights(const SyntheticSpec& spec);
  ~SyntheticModel();
  SyntheticModel(const SyntheticModel&) = delete;
  SyntheticModel& operator=(const SyntheticModel&) = delete;

  const GgufFile& file() const { return *file_; }

  // Lets go of the pages that were read so far. They come back when they are touched; until then the system does not
  // count them as this process's memory, once for each place where they are mapped.
  void release_pages() const;

 private:
  explicit SyntheticModel(std::span<std::byte> mapping) : mapping_(mapping) {}

  std::span<std::byte> mapping_;
  std::unique_ptr<GgufFile> file_;
};

}  // namespace smelt
