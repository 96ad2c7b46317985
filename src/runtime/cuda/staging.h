// CudaStaging: copies between host and device at the speed of the link. The driver reads memory of the host directly
// only where it is pinned, so copies go through two pinned pieces: one is filled while the other travels.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/result.h"
#include "runtime/cuda/context.h"

namespace smelt {

class CudaStaging {
 public:
  // REQUIRES: the calling thread has entered the context, here and in what follows; the context outlives this.
  static Result<std::unique_ptr<CudaStaging>> make(const CudaContext& context);
  ~CudaStaging();
  CudaStaging(const CudaStaging&) = delete;
  CudaStaging& operator=(const CudaStaging&) = delete;

  // Returns when all is on its way: behind what was begun on the stream before.
  Status copy_in(CuAddress to, std::span<const std::byte> from);
  // Returns when all is there.
  Status copy_out(std::span<std::byte> to, CuAddress from);

 private:
  static constexpr size_t kPieceBytes = size_t{8} << 20;
  struct Piece {
    void* memory = nullptr;
    CuEvent done = nullptr;  // what was begun with it
  };

  explicit CudaStaging(const CudaContext& context) : context_(context) {}
  Status prepare(Piece& piece);

  const CudaContext& context_;
  Piece pieces_[2];
  size_t next_ = 0;  // of the pieces, the one that was begun with longer ago
};

}  // namespace smelt
