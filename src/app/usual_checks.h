// What is looked at before and after every command: the switches of the environment and the cache folder.
#pragma once

#include <string>

#include "base/result.h"

namespace smelt {

// DUMP must be a folder that can be written: better one sentence now than one for each kernel.
Status check_switches();

// Says so if DEBUG_KERNEL matched no kernel.
void note_idle_switches();

// Says once that kernels are not kept, and why, where the cache folder cannot be used.
void note_unusable_cache();

// "gguf.version: ..." of "[gguf] gguf.version: ...": which part of the program speaks means nothing to users.
std::string without_tag(const std::string& message);

}  // namespace smelt
