#include "runtime/metal_shim/fibre.h"

#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#define SMELT_TELLS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SMELT_TELLS_SANITIZER 1
#endif
#endif
#ifdef SMELT_TELLS_SANITIZER
#include <sanitizer/common_interface_defs.h>
#endif

// Saves what a call must keep on the stack that is left, and takes it from the other one.
extern "C" void smelt_switch_stack(void** left, void* entered);

#if defined(__x86_64__)
asm(R"(
  .text
  .globl smelt_switch_stack
  .type smelt_switch_stack, @function
smelt_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  retq
  .size smelt_switch_stack, . - smelt_switch_stack
)");
#elif defined(__aarch64__)
asm(R"(
  .text
  .globl smelt_switch_stack
smelt_switch_stack:
  sub sp, sp, #160
  stp x19, x20, [sp]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
)");
#endif

namespace smelt {
namespace {

#ifdef SMELT_TELLS_SANITIZER
void leave(void** fake_stack, const void* to, size_t bytes) { __sanitizer_start_switch_fiber(fake_stack, to, bytes); }
void arrive(void* fake_stack, const void** from, size_t* bytes) {
  __sanitizer_finish_switch_fiber(fake_stack, from, bytes);
}
#else
void leave(void**, const void*, size_t) {}
void arrive(void*, const void**, size_t*) {}
#endif

thread_local Fibre* entering = nullptr;  // a new fibre learns from it which one it is

}  // namespace

Fibre::Fibre(std::byte* stack, const std::function<void()>& body) : stack_(stack), body_(&body) {
  // As if it had stopped just before its first instruction: registers of no meaning, and where to go.
  auto* top = reinterpret_cast<uint64_t*>(stack + kStackBytes);
  void (*first)() = [] { begin(entering); };
#if defined(__x86_64__)
  *(top -= 2) = reinterpret_cast<uint64_t>(first);  // behind a return address the stack is off by 8
  for (int i = 0; i < 6; ++i) *--top = 0;
#else
  top -= 20;
  for (int i = 0; i < 20; ++i) top[i] = 0;
  top[11] = reinterpret_cast<uint64_t>(first);
#endif
  mine_ = top;
}

void Fibre::begin(Fibre* fibre) {
  arrive(nullptr, &fibre->resumer_stack_, &fibre->resumer_stack_bytes_);
  (*fibre->body_)();
  fibre->has_ended_ = true;
  leave(nullptr, fibre->resumer_stack_, fibre->resumer_stack_bytes_);
  smelt_switch_stack(&fibre->mine_, fibre->resumer_);
}

void Fibre::resume() {
  entering = this;
  leave(&resumer_fake_stack_, stack_, kStackBytes);
  smelt_switch_stack(&resumer_, mine_);
  arrive(resumer_fake_stack_, nullptr, nullptr);
}

void Fibre::stop() {
  void* fake_stack = nullptr;
  leave(&fake_stack, resumer_stack_, resumer_stack_bytes_);
  smelt_switch_stack(&mine_, resumer_);
  arrive(fake_stack, &resumer_stack_, &resumer_stack_bytes_);
}

}  // namespace smelt
