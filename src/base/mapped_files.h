// Which file lies at an address: for a program whose file became shorter under it.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace smelt {

// Thread-safe, both. Of many files at once some may go unnoted.
void note_mapping(std::span<const std::byte> bytes, std::string_view path);
void forget_mapping(const std::byte* begin);

// The path of the file that is mapped there; empty if none is. Neither allocates nor locks, so that a signal handler
// may ask.
std::string_view mapped_path(const void* address);

// From that address on, zeros take the place of the file that is mapped there, and lost_file() names it. False: none
// is. For a signal handler, too.
bool lose_file(const void* address);
std::string_view lost_file();  // the path of the first one; empty: no file was lost

}  // namespace smelt
