// What every Unix has, but each under a name of its own: one call on Linux (linux/system_calls.cpp), others on Apple's
// systems (apple/system_calls.cpp).
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>

namespace smelt {

// As socket(). Programs that this one starts do not get it.
int open_socket(int family, int type, int protocol);

// Whether the other side of a connection is gone, or will send no more. Takes nothing of what it has sent; on Apple's
// systems an end behind bytes that were not taken is not seen.
bool has_hung_up(int socket);

// An empty file in memory that has no name; -1, and errno, where the system refuses. The caller closes it.
int open_memory_file();

// Takes room on the disk for the first bytes of a file, so that writing them later does not fail for want of it.
// An errno; 0 also where the file system has no such thing.
int take_room(int file, uint64_t bytes);

timespec modified_at(const struct stat& file);

// Sleeps while `word` is `seen`: until somebody who has changed it calls wake_all(), or for `most`. It may return
// earlier, so who calls it looks again. Unlike std::atomic::wait() it does not call sched_yield() first.
constexpr auto kForever = std::chrono::nanoseconds::max();
void sleep_while(const std::atomic<uint32_t>& word, uint32_t seen, std::chrono::nanoseconds most = kForever);
void wake_all(std::atomic<uint32_t>& word);

// For a child of fork(): its process ends when the one that has started it does, at once or within a second.
void end_with_parent();

}  // namespace smelt
