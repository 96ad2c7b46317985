// How much memory this process may still have.
#pragma once

#include <cstdint>
#include <string>

namespace smelt {

// Bytes that the machine can hand out without swapping, page cache that it would give up included, and that the control
// groups (containers) and the limit of address space of this process allow. UINT64_MAX where the system does not say.
// `root` stands for "/" in tests, on Linux (linux/available_memory.cpp, apple/available_memory.cpp).
uint64_t available_memory(const std::string& root = {});

}  // namespace smelt
