// Advice to the system about mapped memory, of which systems know different kinds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace smelt {

enum class Advice : uint8_t {
  Normal,
  Sequential,    // will be read once, from the front
  DontNeed,      // what a file still has may go
  PopulateRead,  // have it all, now
  PageOut,       // write it out, or let it go, now
  HugePages,
};

// Advice about the whole pages around some bytes. False if the system refuses or knows no such thing: then nothing has
// changed.
bool advise(std::span<const std::byte> bytes, Advice advice);

}  // namespace smelt
