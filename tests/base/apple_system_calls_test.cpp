// What stands in for Linux's calls on Apple's systems, run here: all but two of its calls are those of any Unix, so
// Linux has them, too. Of those two the names are given here: where a file's time is, and how room is taken, which
// Linux refuses as no file system does.
#if defined(__linux__)
#include <fcntl.h>
#include <sys/stat.h>

#define st_mtimespec st_mtim
#define F_ALLOCATEALL 4
#define F_PEOFPOSMODE 3
#define F_PREALLOCATE 0x7fff
struct fstore_t {
  unsigned fst_flags;
  int fst_posmode;
  off_t fst_offset, fst_length, fst_bytesalloc;
};

#define smelt smelt_of_apple
#define SYSTEM "Apple's system"
#include "base/apple/system_calls.cpp"
#include "base/system_calls_cases.h"
#endif
