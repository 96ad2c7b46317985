// What a plan asks of memory and of launch values before kernels, which check nothing, get them.
#include "engine/plan.h"

#include <doctest/doctest.h>

#include <numeric>

#include "runtime/cpu/cpu_device.h"
#include "support/last_words.h"
#include "support/small_graphs.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

constexpr int64_t kMost = 8;

// y = 2 x for `n` numbers, at most kMost.
struct Doubled {
  Doubled() {
    const Dim n = variable("n", 1, kMost);
    segment = compiler.add_segment(sink({output(1, input(0, {n}) * 2.0)}));
    REQUIRE(compiler.finish().ok());
  }

  void append_to(Plan& plan, const float* x, float* y) {
    const std::vector<SlotBinding> slots = {{.kind = {}, .name = "x"}, {.kind = {}, .name = "y"}};
    plan.append(
        compiler, segment, slots, [&](const SlotBinding& slot) -> const void* { return slot.name == "x" ? x : y; },
        nullptr);
  }

  std::unique_ptr<Device> device = open_cpu_device({.threads = 1, .use_cache = false}).take();
  Compiler compiler{*device, {"n"}};
  int segment = 0;
};

}  // namespace

TEST_CASE("a plan runs with launch values that its kernels were made for, and refuses others with a sentence") {
  Doubled doubled;
  std::vector<float> x(kMost), y(kMost, -1);
  std::iota(x.begin(), x.end(), 1.0f);
  Plan plan;
  doubled.append_to(plan, x.data(), y.data());
  REQUIRE(plan.capture(*doubled.device).ok());
  for (int64_t n : {0, -1, 1 << 20}) {  // bounds are rounded up, for kernels that serve several
    CAPTURE(n);
    const Status refused = plan.run({&n, 1});
    REQUIRE(!refused.ok());
    CHECK(refused.error().message.starts_with("[plan] n: " + std::to_string(n) + " is outside of what"));
  }
  CHECK(y == std::vector<float>(kMost, -1));
  const int64_t five = 5;
  REQUIRE(plan.run({&five, 1}).ok());
  CHECK(y == std::vector<float>{2, 4, 6, 8, 10, -1, -1, -1});
}

TEST_CASE("memory that a kernel writes may lie right behind what it reads, but a word of both stops the program") {
  Doubled doubled;
  std::vector<float> both(2 * kMost);
  Plan beside;
  doubled.append_to(beside, both.data(), both.data() + kMost);
  REQUIRE(beside.capture(*doubled.device).ok());
  for (int64_t shift : {int64_t{0}, int64_t{1}, kMost - 1}) {
    CAPTURE(shift);
    const std::string words = test::last_words([&] {
      Plan plan;
      doubled.append_to(plan, both.data(), both.data() + shift);
    });
    CHECK(words.find("overlap, and one of them is written") != std::string::npos);
  }
}
