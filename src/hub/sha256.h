// SHA-256 of files, by OpenSSL.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace smelt {

// 64 digits. `progress` sees bytes as they are done; an Error when cancelled.
Result<std::string> sha256_of_file(int fd, const std::function<void(uint64_t)>& progress,
                                   const std::atomic<bool>* cancel);
std::string sha256_of(std::string_view bytes);

}  // namespace smelt
