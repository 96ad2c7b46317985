// The packed weights of a model on disk, so that its next start maps them instead of packing (`--pack-cache`).
//
// One file for each model, layout and processor width: FOLDER/NAME-KEY.pack, as large as the packed weights.
//   magic "smeltpck" | u32 format | u32 identity bytes | u64 offset, bytes of the weights | u64 checksum of the front
//   identity text | u64 checksum of each 4 MB of the weights | zeros | weights, from a multiple of 2 MB
// The identity is what the weights depend on: sizes, times of change and headers of the model's files, and where each
// tensor lies in which layout. A pack is used if the front and every piece have their checksums (xxh3; the pieces have
// to be brought into memory anyway) and the identity is that of the model now. It appears by a rename, so whole or not
// at all, and only one that belongs to this user, writable by nobody else, is believed.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/file.h"
#include "base/result.h"
#include "engine/load_options.h"
#include "engine/pack_plan.h"

namespace smelt {

class PackCache {
 public:
  // `folder` is made where it is missing. An Error for a model that is not a file (the embedded one).
  static Result<PackCache> open(const GgufFile& file, const PackPlan& plan, const std::string& folder);

  const std::string& path() const { return path_; }

  struct Mapped {
    MappedFile file;
    std::span<const std::byte> weights;  // of the plan, in the mapping
  };
  // Nothing where there is no pack, or when cancelled. One that is damaged or belongs to an older file is removed, and
  // `problem` becomes a sentence that says so.
  std::optional<Mapped> load(const LoadOptions& options, std::string& problem) const;

  // Writes `weights` and removes what nobody will read again: packs of models that have changed or are gone, and what
  // killed processes have left. When this fails, or is cancelled, no file is left.
  Status store(std::span<const std::byte> weights, const LoadOptions& options) const;

 private:
  std::string folder_, path_, identity_;
  int64_t bytes_ = 0;
};

}  // namespace smelt
