#include "base/thread.h"

#include <system_error>

#include "base/ensure.h"

namespace smelt {
namespace {

void* live(void* life) {
  (*static_cast<std::function<void()>*>(life))();
  return nullptr;
}

}  // namespace

Thread::Thread(std::function<void()> life, size_t stack_bytes)
    : life_(std::make_unique<std::function<void()>>(std::move(life))) {
  pthread_attr_t attributes;
  int refused = ::pthread_attr_init(&attributes);
  if (refused == 0) {
    ENSURE(::pthread_attr_setstacksize(&attributes, stack_bytes) == 0, "no stack is that small");
    refused = ::pthread_create(&thread_, &attributes, live, life_.get());
    ::pthread_attr_destroy(&attributes);
  }
  if (refused != 0) throw std::system_error(refused, std::generic_category(), "thread");
}

Thread::~Thread() {
  if (joinable()) join();
}

void Thread::join() {
  ::pthread_join(thread_, nullptr);
  life_.reset();
}

}  // namespace smelt
