// What Apple's systems have beside POSIX.
#pragma once

#include_next <pthread.h>

extern "C" void* pthread_get_stackaddr_np(pthread_t);
extern "C" size_t pthread_get_stacksize_np(pthread_t);
