#include "server/preparation.h"

#include <doctest/doctest.h>

#include <future>
#include <memory>
#include <vector>

using smelt::Preparation;

namespace {

constexpr size_t kShort = 1, kLong = Preparation::kShortBytes + 1;

// Work that says when it has begun, and goes on when it is let.
struct Gate {
  std::promise<void> begun, open;
  Preparation::Work work() {
    return [this] {
      begun.set_value();
      open.get_future().wait();
    };
  }
};

}  // namespace

TEST_CASE("a short request passes a long one that is being prepared") {
  Gate gate;
  Preparation preparation;
  CHECK(preparation.submit(kLong, gate.work()));
  gate.begun.get_future().wait();
  std::promise<void> done;
  CHECK(preparation.submit(kShort, [&] { done.set_value(); }));
  done.get_future().wait();
  gate.open.set_value();
}

TEST_CASE("requests of a kind are prepared in their order, and no more wait than may") {
  Gate gate;
  Preparation preparation(3);
  std::vector<int> order;
  std::promise<void> done;
  CHECK(preparation.submit(kShort, gate.work()));
  gate.begun.get_future().wait();
  for (int i = 0; i < 2; ++i) CHECK(preparation.submit(kShort, [&, i] { order.push_back(i); }));
  CHECK(preparation.submit(kShort, [&] { done.set_value(); }));
  CHECK_FALSE(preparation.submit(kShort, [&] { order.push_back(9); }));
  CHECK(preparation.submit(kLong, [] {}));
  gate.open.set_value();
  done.get_future().wait();
  CHECK(order == std::vector<int>{0, 1});
}

TEST_CASE("what waits when it ends is dropped before what runs is waited for") {
  Gate gate;
  bool was_done = false;
  {
    Preparation preparation;
    CHECK(preparation.submit(kLong, gate.work()));
    gate.begun.get_future().wait();
    const std::shared_ptr<void> opens(nullptr, [&](void*) { gate.open.set_value(); });
    CHECK(preparation.submit(kLong, [&was_done, opens] { was_done = true; }));
  }
  CHECK_FALSE(was_done);
}
