#include "runtime/cuda/staging.h"

#include <algorithm>
#include <cstring>

namespace smelt {

Result<std::unique_ptr<CudaStaging>> CudaStaging::make(const CudaContext& context) {
  std::unique_ptr<CudaStaging> staging(new CudaStaging(context));
  for (Piece& piece : staging->pieces_) SMELT_CHECK(staging->prepare(piece));
  return staging;
}

// The event is recorded at once, so that there always is something to wait for.
Status CudaStaging::prepare(Piece& piece) {
  const CudaDriver& driver = context_.driver();
  SMELT_CHECK(context_.check(driver.allocate_pinned(&piece.memory, kPieceBytes, 0), "pinning memory for copies"));
  SMELT_CHECK(context_.check(driver.event_create(&piece.done, 0), "making an event"));
  return context_.check(driver.event_record(piece.done, context_.stream()), "recording an event");
}

CudaStaging::~CudaStaging() {
  for (const Piece& piece : pieces_) {
    if (piece.done) context_.driver().event_destroy(piece.done);
    if (piece.memory) context_.driver().release_pinned(piece.memory);
  }
}

Status CudaStaging::copy_in(CuAddress to, std::span<const std::byte> from) {
  const CudaDriver& driver = context_.driver();
  const std::string doing = "uploading " + std::to_string(from.size()) + " bytes";
  while (!from.empty()) {
    Piece& piece = pieces_[next_++ % 2];
    const size_t bytes = std::min(from.size(), kPieceBytes);
    SMELT_CHECK(context_.check(driver.event_wait(piece.done), doing));
    std::memcpy(piece.memory, from.data(), bytes);
    SMELT_CHECK(context_.check(driver.copy_in(to, piece.memory, bytes, context_.stream()), doing));
    SMELT_CHECK(context_.check(driver.event_record(piece.done, context_.stream()), doing));
    from = from.subspan(bytes);
    to += bytes;
  }
  return {};
}

Status CudaStaging::copy_out(std::span<std::byte> to, CuAddress from) {
  const std::string doing = "reading back " + std::to_string(to.size()) + " bytes";
  while (!to.empty()) {
    const size_t bytes = std::min(to.size(), kPieceBytes);
    SMELT_CHECK(context_.check(context_.driver().copy_out(pieces_[0].memory, from, bytes, context_.stream()), doing));
    SMELT_CHECK(context_.wait(doing));
    std::memcpy(to.data(), pieces_[0].memory, bytes);
    to = to.subspan(bytes);
    from += bytes;
  }
  return {};
}

}  // namespace smelt
