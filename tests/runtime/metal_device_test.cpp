// The device for GPUs of Apple, but for the GPU: what is encoded, which memory it names, what waits, what is kept.
#include "runtime/metal/metal_device.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "runtime/metal/plan.h"
#include "support/fake_metal.h"
#include "support/temp_folder.h"

using namespace smelt;
using namespace smelt::test;

namespace {

Source kernel(const std::string& name = "scale", int buffers = 2) {
  return {.text = "kernel void " + name, .entry = name, .shape = {.buffers = buffers, .threads = 64, .tasks = 500}};
}

std::unique_ptr<Device> open(FakeMetalLog& log, const MetalOptions& options = {.use_cache = false},
                             const MetalProperties& properties = FakeMetal::usual()) {
  auto device = open_metal_device(std::make_unique<FakeMetal>(log, properties), options);
  REQUIRE_MESSAGE(device.ok(), device.error().message);
  return device.take();
}

uint64_t gpu_address(const void* host) { return reinterpret_cast<uint64_t>(host) + FakeMetal::kAway; }

// A short life of a device: all that it does, in the order in which an engine asks for it.
Status live(FakeMetalLog& log, std::span<const std::byte> file) {
  SMELT_TRY(device, open_metal_device(std::make_unique<FakeMetal>(log), {.use_cache = false}));
  SMELT_TRY(memory, DeviceMemory::allocate(*device, 256, "the hidden state"));
  SMELT_TRY(admitted, AdmittedMemory::admit(*device, file));
  const Source source = kernel();
  SMELT_TRY(kernels, device->compile({&source, 1}));
  const void* buffers[] = {memory.data(), file.data()};
  const Launch launch{.kernel = kernels[0], .buffers = buffers};
  SMELT_TRY(plan, device->capture({&launch, 1}));
  const int64_t symbols[] = {7};
  SMELT_CHECK(device->run(*plan, symbols));
  int64_t times[2];
  return device->run(*plan, symbols, {.times_ns = times});
}

struct Pages {
  explicit Pages(size_t count) : bytes(count * FakeMetal::kPage) {
    data = static_cast<std::byte*>(std::aligned_alloc(FakeMetal::kPage, bytes));
    std::fill_n(data, bytes, std::byte{1});
  }
  ~Pages() { std::free(data); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::span<const std::byte> span() const { return {data, bytes}; }

  size_t bytes;
  std::byte* data;
};

}  // namespace

TEST_CASE(
    "a plan is encoded once, each dispatch behind a barrier, with all its memory named, and replayed by one call") {
  FakeMetalLog log;
  const auto device = open(log);
  const auto a = DeviceMemory::allocate(*device, 256, "a").take(), b = DeviceMemory::allocate(*device, 256, "b").take(),
             unused = DeviceMemory::allocate(*device, 256, "unused").take();
  const Source sources[] = {kernel("first"), kernel("second", 1)};
  const auto kernels = device->compile(sources).take();
  const void *both[] = {a.data(), b.data() + 64}, *one[] = {b.data()};
  const Launch launches[] = {{.kernel = kernels[0], .buffers = both},
                             {.kernel = kernels[1], .buffers = one, .parts = 9}};
  const auto plan = device->capture(launches).take();

  REQUIRE(log.encoded.size() == 1);
  const auto& [dispatches, resident] = log.encoded[0];
  REQUIRE(dispatches.size() == 2);
  CHECK(FakeMetal::name_of(dispatches[0].pipeline) == "first");
  CHECK(FakeMetal::name_of(dispatches[1].pipeline) == "second");
  CHECK(FakeMetal::addresses(dispatches[0], 2) == std::vector{gpu_address(a.data()), gpu_address(b.data() + 64)});
  CHECK(FakeMetal::addresses(dispatches[1], 1) == std::vector{gpu_address(b.data())});
  CHECK(dispatches[1].addresses_offset % 64 == 0);
  CHECK(dispatches[1].threadgroups == 9);
  std::set<const std::byte*> named;
  for (MetalBuffer buffer : resident) named.insert(FakeMetal::host_of(buffer));
  CHECK(named.size() == resident.size());
  CHECK(named == std::set<const std::byte*>{a.data(), b.data(), FakeMetal::host_of(dispatches[0].addresses),
                                            FakeMetal::host_of(dispatches[0].symbols)});
  for (const MetalDispatch& d : dispatches) {
    CHECK(d.waits);
    CHECK(d.threads == 64);
  }

  for (int64_t position : {5, 6}) {
    const int64_t symbols[] = {1, position};
    REQUIRE(device->run(*plan, symbols).ok());
    int64_t there[2];
    std::memcpy(there, FakeMetal::host_of(dispatches[0].symbols), sizeof there);
    CHECK(there[1] == position);
  }
  CHECK(log.encoded.size() == 1);
  CHECK(log.started == std::vector<size_t>{0, 0});
  CHECK(log.copies == std::vector<size_t>{0, 0});  // a position update is all that happens
  CHECK(log.waits == 2);
  CHECK(unused.size() == 256);
}

TEST_CASE("a launch has as many threadgroups as the GPU holds at once, where it has the choice, and is told how many") {
  FakeMetalLog log;
  const auto device = open(log), few = open(log, {.use_cache = false, .most_parts = 3});
  for (const auto& [of, expected] : {std::pair(device.get(), 500u), std::pair(few.get(), 3u)}) {
    const Source source = kernel("k", 0);
    const Launch launch{.kernel = of->compile({&source, 1}).take()[0]};
    const auto plan = of->capture({&launch, 1}).take();
    CHECK(log.encoded.back().dispatches[0].threadgroups == expected);
  }
}

TEST_CASE("a plan of more dispatches than fit one buffer of commands is several, and its clock goes on") {
  FakeMetalLog log;
  const auto device = open(log);
  const Source source = kernel("k", 0);
  const std::vector<Launch> launches(6, {.kernel = device->compile({&source, 1}).take()[0]});
  const auto plan = device->capture(launches).take();
  REQUIRE(log.encoded.size() == 2);
  CHECK(log.encoded[0].dispatches.size() == FakeMetal::kMostDispatches);
  CHECK(log.encoded[1].dispatches.size() == 2);
  std::vector<int64_t> times(7);
  REQUIRE(device->run(*plan, {}, {.times_ns = times}).ok());
  CHECK(times == std::vector<int64_t>{0, 60, 160, 260, 360, 420, 520});
  REQUIRE(device->run(*plan, {}).ok());
  CHECK(log.started == std::vector<size_t>{0, 1});
  CHECK(log.waits == 1);
}

TEST_CASE("a mapped file is read where it lies, in buffers that begin in the middle of each other") {
  FakeMetalLog log;
  FakeMetal gpu(log);
  const Pages file(40);  // a buffer has 16
  {
    MetalBuffers buffers(gpu);
    REQUIRE(buffers.admit(file.span()).ok());
    CHECK(log.adopted == 4);
    CHECK(log.allocated.empty());
    std::set<MetalBuffer> seen;
    for (size_t page = 0; page < 40; ++page) {
      const auto place = buffers.find(file.data + page * FakeMetal::kPage);
      REQUIRE(place.has_value());
      CHECK(place->gpu == gpu_address(file.data + page * FakeMetal::kPage));
      const size_t begin = static_cast<size_t>(FakeMetal::host_of(place->buffer) - file.data) / FakeMetal::kPage;
      CHECK(page - begin < (begin < 24 ? 8 : 16));  // at least half of a buffer follows
      seen.insert(place->buffer);
    }
    CHECK(seen.size() == 4);
    CHECK(!buffers.find(file.data + file.bytes).has_value());
    CHECK(!buffers.find(file.data - 1).has_value());
  }
  CHECK(log.open_objects == 0);
}

TEST_CASE("what does not begin at a page is copied once, and let go with the last who wants it") {
  FakeMetalLog log;
  FakeMetal gpu(log);
  MetalBuffers buffers(gpu);
  const Pages file(2);
  const auto part = file.span().subspan(32, 1000);
  REQUIRE(buffers.admit(part).ok());
  REQUIRE(buffers.admit(part).ok());
  CHECK(log.allocated.size() == 1);
  CHECK(log.adopted == 0);
  const auto place = buffers.find(part.data() + 40);
  REQUIRE(place.has_value());
  CHECK(place->gpu == gpu_address(FakeMetal::host_of(place->buffer) + 40));
  CHECK(std::equal(part.begin(), part.end(), FakeMetal::host_of(place->buffer)));
  buffers.withdraw(part);
  CHECK(buffers.find(part.data()).has_value());
  buffers.withdraw(part);
  CHECK(!buffers.find(part.data()).has_value());
  CHECK(log.open_objects == 0);
}

TEST_CASE("an address behind the end of memory is of that memory, as kernels may be told where it ends") {
  FakeMetalLog log;
  FakeMetal gpu(log);
  MetalBuffers buffers(gpu);
  void* memory = buffers.allocate(FakeMetal::kPage, "something").take();
  const auto begin = buffers.find(memory), end = buffers.find(static_cast<std::byte*>(memory) + FakeMetal::kPage);
  REQUIRE(end.has_value());
  CHECK(end->buffer == begin->buffer);
  CHECK(end->gpu == begin->gpu + FakeMetal::kPage);
  buffers.release(memory);
}

TEST_CASE(
    "what the GPU cannot do is said in a sentence: too much memory, too much of it on chip, memory that it lacks") {
  FakeMetalLog log;
  const auto device = open(log);
  CHECK(device->allocate(1 << 20, "the cache").error().message ==
        "[metal] Apple M3 Max: 1.05 MB for the cache: a buffer has at most 65.5 kB; use a smaller context (-c), or "
        "--no-repack for weights");
  Source source = kernel("ffn", 1);
  source.shape.shared_bytes = 48 << 10;
  CHECK(device->compile({&source, 1}).error().message ==
        "[metal] Apple M3 Max: kernel ffn needs 49152 bytes of threadgroup memory, the GPU has 32768");
  const Source right = kernel("scale", 1);
  const int elsewhere = 0;
  const void* buffers[] = {&elsewhere};
  const Launch launch{.kernel = device->compile({&right, 1}).take()[0], .buffers = buffers};
  CHECK(device->capture({&launch, 1}).error().message ==
        "[metal] kernel scale: its buffer 0 is no memory that the GPU sees");
}

TEST_CASE("the cache keeps a kernel's text with what Metal made of it, so that a key is enough for the next start") {
  const TempFolder folder;
  FakeMetalLog log;
  std::string key;
  {
    const auto device = open(log, {.cache_dir = folder.path()});
    const Source source = kernel();
    key = device->key_of(source);
    REQUIRE(device->compile({&source, 1}).ok());
    CHECK(device->stats().compiled == 1);
  }
  const auto device = open(log, {.cache_dir = folder.path()});
  const Source source{.text = {}, .entry = "scale", .key = key};
  REQUIRE(device->compile({&source, 1}).ok());
  CHECK(device->stats().cached == 1);
  CHECK(log.compiled.size() == 1);
  CHECK(log.loaded == std::vector<std::string>(2, "kernel void scale | code of kernel void scale"));
}

TEST_CASE("whatever call of Metal fails, its sentence comes through and nothing stays open") {
  const Pages file(2);
  for (const char* call : {"allocate", "adopt", "compile", "load", "encode", "start", "wait", "run_timed"})
    for (int after : {0, 1, 2}) {
      FakeMetalLog log;
      log.fail_in = call;
      log.fail_after = after;
      const Status lived = live(log, file.span());
      CHECK(log.open_objects == 0);
      if (after == 0)
        CHECK_MESSAGE((!lived && lived.error().message == "[metal] it failed in " + std::string(call)), call);
    }
}

TEST_CASE("a run that was cancelled begins nothing") {
  FakeMetalLog log;
  const auto device = open(log);
  const Source source = kernel("k", 0);
  const Launch launch{.kernel = device->compile({&source, 1}).take()[0]};
  const auto plan = device->capture({&launch, 1}).take();
  const std::atomic<bool> cancel = true;
  CHECK(device->run(*plan, {}, {.cancel = &cancel}).error().message == "[run] interrupted");
  CHECK(log.started.empty());
}

TEST_CASE("the machine is the one of that name, with the cores and the memory that the GPU has") {
  MetalProperties p = FakeMetal::usual();
  p.title = "Apple M2 Pro";
  p.cores = 16;
  const Machine m = machine_of(p), known = *known_machine("m2-pro");
  CHECK(m.name == "m2-pro");
  CHECK(m.processors == 16);
  CHECK(m.tasks == 64);
  CHECK(m.bandwidth == known.bandwidth);
  CHECK(m.processor_bandwidth == known.bandwidth / 16);
  CHECK(m.memory_bytes == int64_t{1} << 34);
  p.title = "Apple M9";
  p.cores = 0;
  CHECK(machine_of(p).isa == Isa::Apple);
  CHECK(machine_of(p).title == "Apple M9");
}
