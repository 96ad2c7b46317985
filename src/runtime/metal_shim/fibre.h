// Fibre: a stack of its own, on which code runs until it says that another may go on. For the threads of a threadgroup,
// of which one runs at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace smelt {

class Fibre {
 public:
  // Aligned memory of kStackBytes; `body` begins with the first resume() and must not throw.
  static constexpr size_t kStackBytes = 128 << 10;
  Fibre(std::byte* stack, const std::function<void()>& body);

  // Goes on where the fibre stopped, until it calls stop() or its body ends. REQUIRES: it has not ended.
  void resume();
  // Back to who resumed it. REQUIRES: called on this fibre's stack.
  void stop();
  bool has_ended() const { return has_ended_; }

 private:
  static void begin(Fibre* fibre);

  std::byte* stack_;
  const std::function<void()>* body_;
  void *mine_ = nullptr, *resumer_ = nullptr;  // where both stand: stack pointers
  void* resumer_fake_stack_ = nullptr;         // of AddressSanitizer
  const void* resumer_stack_ = nullptr;
  size_t resumer_stack_bytes_ = 0;
  bool has_ended_ = false;
};

}  // namespace smelt
