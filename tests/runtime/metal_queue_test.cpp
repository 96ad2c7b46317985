// Runs of a Metal device that are begun one behind the other while the host goes on: what each reads, what waits for
// what, and who hears of a run that failed. The GPU (support/fake_metal.h) does nothing before somebody waits for it.
#include <doctest/doctest.h>

#include "runtime/metal/metal_device.h"
#include "runtime/metal/queue.h"
#include "support/fake_metal.h"

using namespace smelt;
using namespace smelt::test;

namespace {

using Words = std::vector<int64_t>;

// A device with one plan: its kernel reads the launch value and a word of input, and writes their sum.
struct Adder {
  FakeMetalLog log;
  std::unique_ptr<Device> device = open_metal_device(std::make_unique<FakeMetal>(log), {.use_cache = false}).take();
  DeviceMemory input = DeviceMemory::allocate(*device, 64, "input").take(),
               output = DeviceMemory::allocate(*device, 64, "output").take();
  const void* buffers[2] = {input.data(), output.data()};
  std::unique_ptr<CapturedPlan> plan;
  Words seen;  // by the kernel, run after run

  Adder() {
    const Source source{.text = "kernel void add", .entry = "add", .shape = {.buffers = 2, .threads = 1, .tasks = 1}};
    const Launch launch{.kernel = device->compile({&source, 1}).take()[0], .buffers = buffers};
    plan = device->capture({&launch, 1}).take();
    log.run = [this](const FakeMetalLog::Encoded& encoded) {
      const auto there = FakeMetal::addresses(encoded.dispatches[0], 2);
      const int64_t sum = word(FakeMetal::host_of(encoded.dispatches[0].symbols)) + word(host(there[0]));
      std::memcpy(const_cast<std::byte*>(host(there[1])), &sum, sizeof sum);
      seen.push_back(sum);
    };
  }
  ~Adder() { log.run = {}; }

  static const std::byte* host(uint64_t gpu) { return reinterpret_cast<const std::byte*>(gpu - FakeMetal::kAway); }
  static int64_t word(const std::byte* at) {
    int64_t value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  void give(int64_t value) { REQUIRE(device->upload(input.data(), std::as_bytes(std::span(&value, 1))).ok()); }
  uint64_t start(int64_t symbol) { return device->start(*plan, {&symbol, 1}).take(); }
  Result<int64_t> result() {
    int64_t value = 0;
    SMELT_CHECK(device->read_back(std::as_writable_bytes(std::span(&value, 1)), output.data()));
    return value;
  }
};

}  // namespace

TEST_CASE("runs are begun one behind the other, each with the inputs that were written before it") {
  Adder a;
  CHECK(a.device->runs_ahead());
  a.give(100);
  const uint64_t first = a.start(1);
  a.give(200);
  const uint64_t second = a.start(2);
  CHECK(a.log.order == std::vector<std::string>{"start 1", "start 2"});  // nobody waited
  CHECK(a.log.copies == std::vector<size_t>{0, 2});                      // the first found all in place
  CHECK(Adder::word(a.output.data()) == 0);                              // who reads now reads too early
  REQUIRE(a.device->wait(first).ok());
  CHECK(Adder::word(a.output.data()) == 101);
  REQUIRE(a.device->wait(second).ok());
  CHECK(Adder::word(a.output.data()) == 202);
  CHECK(a.seen == Words{101, 202});
}

TEST_CASE(
    "no more than three runs are under way, and the host waits for no more than the one whose inputs it overwrites") {
  Adder a;
  for (int64_t i = 1; i <= 5; ++i) {
    a.give(100 * i);
    a.start(i);
  }
  CHECK(a.log.order == std::vector<std::string>{"start 1", "start 2", "start 3", "wait 2", "run 1", "run 2", "start 4",
                                                "wait 3", "run 3", "start 5"});
  CHECK(a.result().take() == 505);
  CHECK(a.seen == Words{101, 202, 303, 404, 505});
}

TEST_CASE("reading back, clearing, letting memory and plans go wait for what is under way") {
  for (int what = 0; what < 4; ++what) {
    Adder a;
    a.give(5);
    a.start(1);
    CHECK(a.seen.empty());
    if (what == 0) CHECK(a.result().take() == 6);
    if (what == 1) CHECK(a.device->clear(a.input.data(), 8).ok());
    if (what == 2) a.output = DeviceMemory();
    if (what == 3) a.plan.reset();
    CHECK(a.seen == Words{6});
    if (what == 1) CHECK(Adder::word(a.input.data()) == 0);
  }
}

TEST_CASE("what was written last is read, also twice between runs, in odd pieces, and more than fits beside the runs") {
  Adder a;
  a.give(1);
  a.start(0);
  a.give(10);
  a.give(20);
  a.start(0);
  CHECK(a.result().take() == 20);
  a.start(0);
  const std::byte three[] = {std::byte{7}, std::byte{0}, std::byte{0}};
  REQUIRE(a.device->upload(a.input.data(), three).ok());
  a.start(0);
  CHECK(a.result().take() == 7);

  FakeMetalLog log;
  MetalProperties large = FakeMetal::usual();
  large.buffer_bytes = size_t{1} << 24;
  const auto device = open_metal_device(std::make_unique<FakeMetal>(log, large), {.use_cache = false}).take();
  const auto memory = DeviceMemory::allocate(*device, 3 << 20, "much").take();
  const Source source{.text = "kernel void k", .entry = "k", .shape = {.threads = 1, .tasks = 1}};
  const Launch launch{.kernel = device->compile({&source, 1}).take()[0]};
  const auto plan = device->capture({&launch, 1}).take();
  REQUIRE(device->start(*plan, {}).ok());
  const std::vector<std::byte> much(memory.size(), std::byte{9});
  REQUIRE(device->upload(memory.data(), much).ok());
  CHECK(log.order == std::vector<std::string>{"start 1", "wait 1", "run 1"});
  CHECK(std::equal(much.begin(), much.end(), memory.data()));
}

TEST_CASE("a run that fails is told to whoever waits for it or for one behind it, and later runs are others") {
  Adder a;
  a.log.fails = 2;
  const uint64_t first = a.start(1), second = a.start(2), third = a.start(3);
  CHECK(a.device->wait(first).ok());
  CHECK(a.device->wait(third).error().message == "[metal] the GPU gave up");
  CHECK(a.device->wait(second).error().message == "[metal] the GPU gave up");
  CHECK(a.device->wait(first).ok());
  const uint64_t fourth = a.start(4);
  CHECK(a.device->wait(fourth).ok());
  CHECK(a.result().take() == 4);

  a.log.fails = 5;
  a.start(5);
  CHECK(a.result().error().message == "[metal] the GPU gave up");
  CHECK(a.result().ok());
}

TEST_CASE("a run with a clock around each kernel waits for those before it, and is done when it returns") {
  Adder a;
  a.give(3);
  a.start(1);
  int64_t times[2];
  const int64_t symbol = 2;
  const auto timed = a.device->start(*a.plan, {&symbol, 1}, {.times_ns = times});
  REQUIRE(timed.ok());
  CHECK(a.seen == Words{4});
  CHECK(times[1] == 60);
  CHECK(a.device->wait(*timed).ok());
}
