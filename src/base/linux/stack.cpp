#include "base/stack.h"

#include <pthread.h>

namespace smelt {

size_t end_of_stack() {
  pthread_attr_t attributes;
  if (::pthread_getattr_np(::pthread_self(), &attributes) != 0) return 0;
  void* lowest = nullptr;
  size_t bytes = 0;
  ::pthread_attr_getstack(&attributes, &lowest, &bytes);
  ::pthread_attr_destroy(&attributes);
  return reinterpret_cast<size_t>(lowest);
}

}  // namespace smelt
