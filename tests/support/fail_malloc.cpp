// To be preloaded: the allocation of number FAIL_MALLOC of a program fails, counted from 0; or how many there were is
// written to the file COUNT_MALLOC at its end. glibc's own allocator does the others.
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* at, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
}

namespace {

std::atomic<long> done = 0;
long failing = -1;

__attribute__((constructor)) void begin() {
  if (const char* number = std::getenv("FAIL_MALLOC")) failing = std::atol(number);
}

__attribute__((destructor)) void end() {
  const char* path = std::getenv("COUNT_MALLOC");
  std::FILE* file = path ? std::fopen(path, "w") : nullptr;
  if (!file) return;
  std::fprintf(file, "%ld\n", done.load());
  std::fclose(file);
}

bool fails() {
  if (done++ != failing) return false;
  errno = ENOMEM;
  return true;
}

}  // namespace

extern "C" {

void* malloc(size_t bytes) noexcept { return fails() ? nullptr : __libc_malloc(bytes); }
void* calloc(size_t count, size_t bytes) noexcept { return fails() ? nullptr : __libc_calloc(count, bytes); }
void* realloc(void* at, size_t bytes) noexcept { return fails() ? nullptr : __libc_realloc(at, bytes); }
void* memalign(size_t alignment, size_t bytes) noexcept {
  return fails() ? nullptr : __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) noexcept { return memalign(alignment, bytes); }
int posix_memalign(void** out, size_t alignment, size_t bytes) noexcept {
  *out = memalign(alignment, bytes);
  return *out ? 0 : ENOMEM;
}
}
