// What smelt uses of Apple's header of this name, written from Apple's documentation.
#pragma once

#include <cstddef>

extern "C" int sysctlbyname(const char* name, void* old, size_t* old_size, void* fresh, size_t fresh_size);
