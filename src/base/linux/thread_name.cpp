#include "base/thread_name.h"

#include <pthread.h>

namespace smelt {

void name_thread(const char* name) { ::pthread_setname_np(::pthread_self(), name); }

}  // namespace smelt
