#include "base/stack.h"

#include <pthread.h>

namespace smelt {

size_t end_of_stack() {
  const pthread_t self = ::pthread_self();
  return reinterpret_cast<size_t>(::pthread_get_stackaddr_np(self)) - ::pthread_get_stacksize_np(self);
}

}  // namespace smelt
