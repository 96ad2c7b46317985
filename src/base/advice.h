// Advice to the system about mapped memory, with names for the kinds that headers of older systems lack.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <span>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif

namespace smelt {

// Advice (MADV_...) about the whole pages around some bytes. False if the system refuses: then nothing has changed.
bool advise(std::span<const std::byte> bytes, int advice);

}  // namespace smelt
