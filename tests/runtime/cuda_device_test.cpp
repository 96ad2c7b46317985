#include "runtime/cuda/cuda_device.h"

#include <doctest/doctest.h>

#include <set>

#include "runtime/kernels.h"
#include "runtime/launch_blocks.h"
#include "support/fake_cuda.h"

using namespace smelt;
using namespace smelt::test;

namespace {

Source gpu_kernel(const std::string& factor = "3.0") {
  return {.text = R"(define ptx_kernel void @scale(ptr addrspace(1) %out, ptr addrspace(1) %symbols) {
  %thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %to = getelementptr float, ptr addrspace(1) %out, i32 %thread
  %x = load float, ptr addrspace(1) %to
  %y = fmul float %x, )" +
                  factor + R"(
  store float %y, ptr addrspace(1) %to
  ret void
}
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
)",
          .entry = "scale",
          .shape = {.buffers = 1, .threads = 64, .tasks = 5, .shared_bytes = 0}};
}

std::unique_ptr<Device> open(const CudaDriver& driver, const CudaOptions& options = {.use_cache = false}) {
  auto device = open_cuda_device(driver, options);
  REQUIRE_MESSAGE(device.ok(), device.error().message);
  return device.take();
}

// A short life of a device: all that it does, in the order in which an engine asks for it.
Status live(const CudaDriver& driver) {
  SMELT_TRY(device, open_cuda_device(driver, {.use_cache = false}));
  SMELT_TRY(memory, DeviceMemory::allocate(*device, 256, "the hidden state"));
  std::vector<std::byte> bytes(256, std::byte{1});
  SMELT_CHECK(device->upload(memory.data(), bytes));
  Source source = gpu_kernel();
  source.shape.shared_bytes = 64 << 10;
  SMELT_TRY(kernels, device->compile({&source, 1}));
  const void* buffers[] = {memory.data()};
  const Launch launch{.kernel = kernels[0], .buffers = buffers};
  SMELT_TRY(plan, device->capture({&launch, 1}));
  const int64_t symbols[] = {7};
  SMELT_CHECK(device->run(*plan, symbols));
  int64_t times[2];
  SMELT_CHECK(device->run(*plan, symbols, {.times_ns = times}));
  return device->read_back(bytes, memory.data());
}

}  // namespace

TEST_CASE("a plan is captured once and replayed by one call, with launch values in the memory of the device") {
  FakeCuda fake;
  fake.parameters = 3;
  const CudaDriver driver = fake.driver();
  {
    const auto device = open(driver);
    CHECK(device->name() == "cuda:0");
    CHECK(device->title() == "Fake GPU");
    CHECK_FALSE(device->host_sees_memory());
    const Source source = gpu_kernel();
    const auto kernels = device->compile({&source, 1}).take();
    const auto memory = DeviceMemory::allocate(*device, 256, "a test").take();
    const void* buffers[] = {memory.data()};
    const Launch launches[] = {{.kernel = kernels[0], .buffers = buffers},
                               {.kernel = kernels[0], .buffers = buffers, .parts = 3}};
    const auto plan = device->capture(launches).take();
    CHECK(fake.launches.empty());
    fake.calls.clear();
    for (const int64_t value : {7, 8}) {
      const int64_t symbols[] = {value};
      REQUIRE(device->run(*plan, symbols).ok());
    }
    const std::vector<std::string> one = {"cuCtxSetCurrent", "cuMemcpyHtoDAsync_v2", "cuGraphLaunch",
                                          "cuEventRecord",   "cuCtxSetCurrent",      "cuEventSynchronize"};
    std::vector<std::string> two = one;
    two.insert(two.end(), one.begin(), one.end());
    CHECK(fake.calls == two);
    REQUIRE(fake.launches.size() == 4);
    CHECK(fake.launches[0].blocks == 5);  // as many as tasks
    CHECK(fake.launches[1].blocks == 3);  // as many as asked for
    CHECK(fake.launches[0].threads == 64);
    CHECK(fake.launches[0].values[0] == reinterpret_cast<CuAddress>(memory.data()));

    // With times, which blocks write down; the values of the host arrive first.
    int64_t times[3], arrivals[4 * 2];
    const int64_t symbols[] = {9};
    REQUIRE(device->timed_workers() == 4);
    REQUIRE(device->run(*plan, symbols, {.times_ns = times, .arrivals_ns = arrivals}).ok());
    CHECK(times[1] == times[0] + 500);
    CHECK(times[2] == times[0] + 1000);
    for (int processor = 0; processor < 4; ++processor) {
      CHECK(arrivals[2 * processor] == times[1]);
      CHECK(arrivals[2 * processor + 1] == (processor < 3 ? times[2] : times[1]));  // three blocks, on three of them
    }
    CHECK(fake.launches[0].values[2] == 0);  // else they write nothing
    CHECK(fake.launches[4].values[2] != 0);
    CHECK(fake.launches[5].values[2] == fake.launches[4].values[2] + 5 * sizeof(BlockClock));
    CHECK_FALSE(fake.launches[0].overlaps);
    int64_t seen = 0;
    std::memcpy(&seen, reinterpret_cast<const void*>(fake.launches.back().values[1]), sizeof seen);
    CHECK(seen == 9);
  }
  CHECK(fake.open_objects == 0);
}

TEST_CASE("runs are begun without waiting; as many as there is room for launch values are under way") {
  FakeCuda fake;
  fake.parameters = 2;
  const CudaDriver driver = fake.driver();
  const auto device = open(driver);
  CHECK(device->runs_ahead());
  REQUIRE(device->runs_under_way() == 4);
  const Source source = gpu_kernel();
  const auto memory = DeviceMemory::allocate(*device, 256, "a test").take();
  const void* buffers[] = {memory.data()};
  const Launch launch{.kernel = device->compile({&source, 1}).take()[0], .buffers = buffers};
  const auto plan = device->capture({&launch, 1}).take();
  fake.calls.clear();
  const int64_t symbol = 1;
  std::vector<uint64_t> runs;
  for (int i = 0; i < 4; ++i) runs.push_back(device->start(*plan, {&symbol, 1}).take());
  CHECK(fake.times_called("cuEventSynchronize") == 0);
  runs.push_back(device->start(*plan, {&symbol, 1}).take());  // waits for the first one
  CHECK(fake.times_called("cuEventSynchronize") == 1);
  REQUIRE(device->wait(runs[0]).ok());  // which is known to be done
  CHECK(fake.times_called("cuEventSynchronize") == 1);
  REQUIRE(device->wait(runs[4]).ok());
  REQUIRE(device->wait(runs[3]).ok());
  REQUIRE(device->wait(runs[4]).ok());
  CHECK(fake.times_called("cuEventSynchronize") == 2);
}

TEST_CASE("what each run has left is read back, whatever is begun behind it") {
  FakeCuda fake;
  const CudaDriver driver = fake.driver();
  const auto device = open(driver);
  const auto memory = DeviceMemory::allocate(*device, 16, "a test").take();
  const auto plan = device->capture({}).take();
  std::byte read[2][16] = {};
  std::vector<uint64_t> runs;
  for (int i = 0; i < 2; ++i) {
    const std::vector<std::byte> bytes(16, static_cast<std::byte>(i + 1));
    REQUIRE(device->upload(memory.data(), bytes).ok());
    runs.push_back(device->start(*plan, {}, {.read_back = {.to = read[i], .from = memory.data()}}).take());
  }
  CHECK(read[0][0] == std::byte{0});  // nobody has waited for it
  REQUIRE(device->wait(runs[0]).ok());
  CHECK(read[0][15] == std::byte{1});
  REQUIRE(device->wait(runs[1]).ok());
  CHECK(read[1][15] == std::byte{2});
}

TEST_CASE("a kernel that waits for the launch before by itself may begin while that one ends") {
  FakeCuda fake;
  const CudaDriver driver = fake.driver();
  const auto device = open(driver);
  Source source = gpu_kernel();
  source.shape.overlaps = true;
  const auto kernels = device->compile({&source, 1}).take();
  const auto memory = DeviceMemory::allocate(*device, 256, "a test").take();
  const void* buffers[] = {memory.data()};
  const Launch launch{.kernel = kernels[0], .buffers = buffers};
  const auto plan = device->capture({&launch, 1}).take();
  REQUIRE(device->run(*plan, {}).ok());
  CHECK(fake.launches.at(0).overlaps);
}

TEST_CASE("a launch has no more blocks than the GPU holds at once") {
  FakeCuda fake;
  const CudaDriver driver = fake.driver();
  const auto device = open(driver);
  Source source = gpu_kernel();
  source.shape.tasks = 1000;
  Source makes_prologue = source;
  makes_prologue.shape.tasks = 12;
  makes_prologue.shape.has_prologue = true;
  Source has_its_blocks = source;
  has_its_blocks.shape.tasks = has_its_blocks.shape.blocks = 40;
  const Source sources[] = {source, makes_prologue, has_its_blocks};
  const auto kernels = device->compile(sources).take();
  const auto memory = DeviceMemory::allocate(*device, 256, "a test").take();
  const void* buffers[] = {memory.data()};
  const Launch launches[] = {{.kernel = kernels[0], .buffers = buffers},
                             {.kernel = kernels[1], .buffers = buffers},
                             {.kernel = kernels[2], .buffers = buffers},
                             {.kernel = kernels[2], .buffers = buffers, .parts = 3}};
  const auto plan = device->capture(launches).take();
  REQUIRE(device->run(*plan, {}).ok());
  CHECK(fake.launches[0].blocks == 2 * 4);
  CHECK(fake.launches[1].blocks == 6);   // two tasks each: 8 would have no fewer rounds, and make more prologues
  CHECK(fake.launches[2].blocks == 40);  // unless the kernel was made for so many
  CHECK(fake.launches[3].blocks == 40);
}

TEST_CASE("blocks with a prologue are as few as have no more tasks each, unless these are many") {
  const auto blocks_of = [](int64_t tasks, bool has_prologue) {
    return blocks_for({.tasks = tasks, .shared_bytes = 1024, .has_prologue = has_prologue}, 528);
  };
  CHECK(blocks_of(100, true) == 100);
  CHECK(blocks_of(1000, true) == 500);  // two each
  CHECK(blocks_of(1000, false) == 528);
  CHECK(blocks_of(9216, true) == 528);  // 512 would have 18 each, and 528 some of them less
}

TEST_CASE("blocks of a launch that waits ask for as much on-chip memory as spreads them over all processors") {
  FakeCuda fake;
  fake.block_shared_bytes = 227 << 10;
  const CudaDriver driver = fake.driver();
  const auto asked = [&](const LaunchShape& shape) {
    const auto device = open(driver);
    Source source = gpu_kernel();
    source.shape = shape;
    const auto kernel = device->compile({&source, 1}).take();
    const auto memory = DeviceMemory::allocate(*device, 256, "a test").take();
    const void* buffers[] = {memory.data()};
    const Launch launch = {.kernel = kernel[0], .buffers = buffers};
    const auto plan = device->capture({&launch, 1}).take();
    REQUIRE(device->run(*plan, {}).ok());
    return int64_t{fake.launches.back().shared_bytes};
  };
  // Of four processors, which have 228 KB each, a block 1 KB more than it asks for.
  const auto waiting = [](int64_t blocks, int64_t bytes = 0) {
    return LaunchShape{
        .buffers = 1, .threads = 64, .tasks = blocks, .blocks = blocks, .shared_bytes = bytes, .overlaps = true};
  };
  CHECK(asked(waiting(2)) == 0);
  for (const int64_t blocks : {3, 4, 5, 8}) {
    CAPTURE(blocks);
    const int64_t taken = asked(waiting(blocks)) + 1024, share = blocks <= 4 ? 1 : 2;
    CHECK(taken * share <= 228 << 10);
    CHECK(taken * (share + 1) > 228 << 10);
  }
  CHECK(asked(waiting(9)) == 0);
  CHECK(asked(waiting(8, 90 << 10)) == 90 << 10);  // fewer fit anyway
  LaunchShape alone = waiting(8);
  alone.overlaps = false;
  CHECK(asked(alone) == 0);
  LaunchShape any = waiting(8);
  any.blocks = 0;
  CHECK(asked(any) == 0);
  fake.processor_shared_bytes = 228 << 10, fake.block_shared_bytes = 64 << 10;
  CHECK(asked(waiting(4)) == 64 << 10);  // as far as a block may go
}

TEST_CASE("kernels are assembled once, equal ones are one, and another start takes them from the cache") {
  TemporaryFolder folder;
  const Source sources[] = {gpu_kernel("2.0"), gpu_kernel("3.0"), gpu_kernel("2.0")};
  for (int start = 0; start < 2; ++start) {
    FakeCuda fake;
    const CudaDriver driver = fake.driver();
    const auto device = open(driver, {.cache_dir = folder.path()});
    const auto kernels = device->compile(sources).take();
    CHECK((kernels[0] == kernels[2]));
    CHECK((kernels[0] != kernels[1]));
    CHECK(fake.assembled.size() == (start == 0 ? 2 : 0));
    CHECK(fake.times_called("cuModuleLoadDataEx") == 2);
    CHECK(device->stats().compiled == (start == 0 ? 2 : 0));
    CHECK(device->stats().cached == (start == 0 ? 0 : 2));
    // By name alone, as recipes ask for it; the shape comes with it.
    const Source known{.text = {}, .entry = "scale", .key = device->key_of(sources[0])};
    CHECK((device->compile({&known, 1}).take()[0] == kernels[0]));
  }
  FakeCuda fake;
  const CudaDriver driver = fake.driver();
  const Source unknown{.text = {}, .entry = "scale", .key = open(driver)->key_of(gpu_kernel("4.0"))};
  CHECK((open(driver, {.cache_dir = folder.path()})->compile({&unknown, 1}).take()[0] == nullptr));
}

TEST_CASE("what the assembler is given is made for the GPU, for blocks of the kernel's size") {
  FakeCuda fake;
  const CudaDriver driver = fake.driver();
  const auto device = open(driver);
  const Source source = gpu_kernel();
  REQUIRE(device->compile({&source, 1}).ok());
  const std::string ptx = fake.assembled.at(0);
  CHECK(ptx.find(".target sm_90a") != std::string::npos);
  CHECK(ptx.find(".visible .entry scale(") != std::string::npos);
  CHECK(ptx.find(".reqntid 64, 1, 1") != std::string::npos);
  CHECK(device->assembly(source) == ptx);
  CHECK(device->machine().has_threads());
  CHECK(device->machine().processors == 4);
}

TEST_CASE("copies larger than a pinned piece arrive whole") {
  FakeCuda fake;
  const CudaDriver driver = fake.driver();
  const auto device = open(driver);
  std::vector<std::byte> bytes(20'000'001), back(bytes.size());
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(i * 31 % 251);
  const auto memory = DeviceMemory::allocate(*device, bytes.size(), "a test").take();
  REQUIRE(device->read_back(back, memory.data()).ok());
  CHECK(back == std::vector<std::byte>(bytes.size()));  // zeros at first
  REQUIRE(device->upload(memory.data(), bytes).ok());
  REQUIRE(device->read_back(back, memory.data()).ok());
  CHECK(back == bytes);
}

TEST_CASE("too little memory is refused by name, with the numbers") {
  FakeCuda fake;
  const CudaDriver driver = fake.driver();
  const auto device = open(driver);
  const auto memory = DeviceMemory::allocate(*device, size_t{3} << 30, "the weights");
  REQUIRE_FALSE(memory.ok());
  const std::string text = memory.error().message;
  CHECK(text.starts_with("[cuda] cuda:0: allocating 3.22 GB for the weights: "));
  CHECK(text.find("of 1.07 GB are free") != std::string::npos);
  Source source = gpu_kernel();
  source.shape.shared_bytes = 200 << 10;
  const auto kernels = device->compile({&source, 1});
  REQUIRE_FALSE(kernels.ok());
  CHECK(kernels.error().message.find("kernel scale needs 204800 bytes of on-chip memory") != std::string::npos);
}

TEST_CASE("a GPU that is not there, or too old, is an error that says what to do") {
  FakeCuda fake;
  const CudaDriver driver = fake.driver();
  const auto no_such = open_cuda_device(driver, {.ordinal = 3, .use_cache = false});
  REQUIRE_FALSE(no_such.ok());
  CHECK(no_such.error().message == "[cuda] cuda:3: this machine has 1 GPU, cuda:0");
  fake.devices = 0;
  CHECK(open_cuda_device(driver, {}).error().message.ends_with("use --device cpu"));
  fake.devices = 1, fake.major = 6, fake.minor = 1;
  const auto old = open_cuda_device(driver, {});
  REQUIRE_FALSE(old.ok());
  CHECK(old.error().message.find("compute capability 6.1 is too old") != std::string::npos);
  const auto none = load_cuda_driver("/nowhere/libcuda.so.1");
  REQUIRE_FALSE(none.ok());
  CHECK(none.error().message.find("use --device cpu") != std::string::npos);
}

// Every call that a device's life makes, failing once, at its first, second, .. time.
TEST_CASE("a failure of any call of the driver is an error that names what was being done, and nothing is left open") {
  FakeCuda whole;
  const CudaDriver driver = whole.driver();
  REQUIRE(live(driver).ok());
  CHECK(whole.open_objects == 0);
  const std::set<std::string> symbols(whole.calls.begin(), whole.calls.end());
  // Where a device is closed nobody is left to tell.
  const std::set<std::string> closing = {"cuLinkDestroy",     "cuGraphDestroy",     "cuGraphExecDestroy",
                                         "cuEventDestroy_v2", "cuModuleUnload",     "cuMemFree_v2",
                                         "cuMemFreeHost",     "cuStreamDestroy_v2", "cuDevicePrimaryCtxRelease_v2"};
  int failures = 0;
  for (const std::string& symbol : symbols) {
    if (closing.contains(symbol)) continue;
    const int times = whole.times_called(symbol);
    for (int at = 0; at < times; ++at) {
      FakeCuda fake;
      fake.fail_in = symbol;
      fake.fail_after = at;
      const CudaDriver failing = fake.driver();
      const Status status = live(failing);
      CAPTURE(symbol);
      CAPTURE(at);
      if (status.ok()) {
        CHECK(symbol == "cuCtxSetCurrent");  // the last ones are those of closing
        continue;
      }
      ++failures;
      CHECK(status.error().message.starts_with("[cuda] "));
      CHECK(status.error().message.find("an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)") !=
            std::string::npos);
      CHECK(fake.open_objects == 0);
    }
  }
  CHECK(failures > 40);
}
