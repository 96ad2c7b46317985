#include "runtime/cpu/cpu_device.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>

#include "base/thread.h"
#include "runtime/devices.h"
#include "runtime/kernels.h"

using namespace smelt;
using namespace smelt::test;

namespace {

std::unique_ptr<Device> open_device(const TemporaryFolder& folder, int threads = 2) {
  auto device = open_cpu_device({.threads = threads, .cache_dir = folder.path()});
  REQUIRE(device);
  return device.take();
}

std::vector<Source> many_kernels(int count) {
  std::vector<Source> sources;
  for (int i = 0; i < count; ++i) sources.push_back(scale_kernel(std::to_string(i) + ".0"));
  return sources;
}

std::vector<const Executable*> compile(Device& device, std::span<const Source> sources,
                                       const ProgressFn& progress = {}) {
  auto kernels = device.compile(sources, progress);
  REQUIRE(kernels);
  return kernels.take();
}

void run(Device& device, const Executable* kernel, const void* const* buffers, int64_t n,
         const RunOptions& options = {}) {
  const Launch launches[] = {{.kernel = kernel, .buffers = buffers}};
  auto plan = device.capture(launches);
  REQUIRE(plan);
  const int64_t symbols[] = {n};
  const Status ran = device.run(**plan, symbols, options);
  REQUIRE_MESSAGE(ran.ok(), ran.error().message);
}

float run(Device& device, const Executable* kernel, float a) {
  float out = 0;
  const void* buffers[] = {&out, &a};
  run(device, kernel, buffers, 1);
  return out;
}

}  // namespace

TEST_CASE("kernels are compiled once and then come from the cache") {
  TemporaryFolder folder;
  auto sources = many_kernels(6);
  for (int start = 0; start < 2; ++start) {
    auto device = open_device(folder);
    CHECK(device->cache_problem().empty());
    std::vector<int> seen;
    auto entries = compile(*device, sources, [&](int done, int total) {
      CHECK(total == 6);
      seen.push_back(done);
    });
    CHECK(seen == std::vector<int>{1, 2, 3, 4, 5, 6});
    for (int i = 0; i < 6; ++i) CHECK(run(*device, entries[i], 10.0f) == 10.0f * i + 1.0f);
    CHECK(device->stats().compiled == (start == 0 ? 6 : 0));
    CHECK(device->stats().cached == (start == 0 ? 0 : 6));
    CHECK(device->stats().code_bytes > 0);
  }
}

TEST_CASE("a thread whose stack is too small for kernels is refused before one runs on it") {
  TemporaryFolder folder;
  auto device = open_device(folder);
  const Executable* kernel = compile(*device, {{scale_kernel()}})[0];
  float out = -1, a = 2;
  const void* buffers[] = {&out, &a};
  const Launch launches[] = {{.kernel = kernel, .buffers = buffers}};
  auto plan = device->capture(launches);
  REQUIRE(plan);
  const int64_t symbols[] = {1};
  Status ran;
  Thread([&] { ran = device->run(**plan, symbols); }, 96 << 10).join();
  REQUIRE_FALSE(ran.ok());
  CHECK(ran.error().message.starts_with("[run] the stack of the calling thread has "));
  CHECK(ran.error().message.ends_with(" KB left, and kernels want 384; raise its limit (ulimit -s)"));
  CHECK(out == -1);
  Thread([&] { ran = device->run(**plan, symbols); }, 768 << 10).join();
  CHECK(ran.ok());
  CHECK(out == 7);
}

TEST_CASE("equal kernels are one kernel, within a batch and across batches") {
  TemporaryFolder folder;
  auto device = open_device(folder);
  std::vector<Source> twice = {scale_kernel("2.0"), scale_kernel("3.0"), scale_kernel("2.0")};
  auto first = compile(*device, twice);
  CHECK((first[0] == first[2]));
  CHECK((first[0] != first[1]));
  CHECK((compile(*device, twice) == first));
  CHECK(device->stats().compiled == 2);
  CHECK(device->stats().shared == 4);
  CHECK(compile(*device, {}).empty());
}

TEST_CASE("a damaged cache entry is compiled again and replaced") {
  TemporaryFolder folder;
  std::vector<Source> one = {scale_kernel()};
  compile(*open_device(folder), one);
  REQUIRE(folder.names().size() == 1);
  const std::string path = folder.path() + "/" + folder.names()[0], good = contents_of(path);
  for (size_t at = 0; at < good.size(); at += 211) {
    std::string bad = good;
    bad[at] ^= 1;
    write_contents(path, bad);
    auto device = open_device(folder);
    CHECK(run(*device, compile(*device, one)[0], 5.0f) == 16.0f);
    CHECK(device->stats().compiled == 1);
    CHECK(contents_of(path) == good);
  }
}

TEST_CASE("other passes and another code generation level are other kernels in the cache") {
  TemporaryFolder folder;
  std::vector<Source> one = {scale_kernel()};
  for (CodegenOptions codegen : {CodegenOptions{}, CodegenOptions{.passes = "function(sroa)"},
                                 CodegenOptions{.level = 3}, CodegenOptions{.passes = ""}}) {
    auto device = open_cpu_device({.threads = 1, .cache_dir = folder.path(), .codegen = codegen});
    REQUIRE(device);
    CHECK(run(**device, compile(**device, one)[0], 5.0f) == 16.0f);
    CHECK((*device)->stats().compiled == 1);
  }
  CHECK(folder.names().size() == 4);
}

TEST_CASE("without a cache nothing is written, and a bad folder is told and survived") {
  TemporaryFolder folder;
  std::vector<Source> one = {scale_kernel()};
  auto off = open_cpu_device({.threads = 1, .cache_dir = folder.path(), .use_cache = false});
  REQUIRE(off);
  CHECK(run(**off, compile(**off, one)[0], 5.0f) == 16.0f);
  CHECK(folder.names().empty());
  CHECK((*off)->cache_problem().empty());

  write_contents(folder.path() + "/file", "");
  auto bad = open_cpu_device({.threads = 1, .cache_dir = folder.path() + "/file"});
  REQUIRE(bad);
  CHECK((*bad)->cache_problem().starts_with("[cache] " + folder.path() + "/file: "));
  CHECK(run(**bad, compile(**bad, one)[0], 5.0f) == 16.0f);
}

TEST_CASE("two processes that start at once in an empty cache both get right kernels") {
  TemporaryFolder folder;
  auto sources = many_kernels(8);
  auto work = [&] {
    auto device = open_cpu_device({.threads = 2, .cache_dir = folder.path()});
    if (!device) return 100;
    auto entries = compile(**device, sources);
    int wrong = 0;
    for (int i = 0; i < 8; ++i) wrong += run(**device, entries[i], 10.0f) != 10.0f * i + 1.0f;
    return wrong;
  };
  pid_t children[] = {start_process(work), start_process(work)};
  for (pid_t child : children) CHECK(end_of(child) == 0);
  CHECK(folder.names().size() == 8);
  auto device = open_device(folder);
  compile(*device, sources);
  CHECK(device->stats().cached == 8);
}

TEST_CASE("compiled kernels run on all workers and give the same bits") {
  TemporaryFolder folder;
  std::vector<float> a(997), expected;
  for (size_t i = 0; i < a.size(); ++i) a[i] = 0.1f * static_cast<float>(i);
  for (int threads : {1, 2, 3}) {
    auto device = open_device(folder, threads);
    std::vector<Source> one = {scale_kernel()};
    const Executable* kernel = compile(*device, one)[0];
    std::vector<float> out(a.size());
    const void* buffers[] = {out.data(), a.data()};
    run(*device, kernel, buffers, 997);
    if (expected.empty()) expected = out;
    CHECK(out == expected);
  }
}

TEST_CASE("memory of the device begins as zeros, takes what is uploaded and gives it back") {
  TemporaryFolder folder;
  auto device = open_device(folder);
  auto memory = DeviceMemory::allocate(*device, 4096, "a test");
  REQUIRE(memory);
  std::vector<std::byte> bytes(4096, std::byte{1});
  REQUIRE(device->read_back(bytes, memory->data()).ok());
  CHECK(bytes == std::vector<std::byte>(4096));
  const std::vector<std::byte> sevens(100, std::byte{7});
  REQUIRE(device->upload(memory->data() + 96, sevens).ok());
  std::vector<std::byte> back(100);
  REQUIRE(device->read_back(back, memory->data() + 96).ok());
  CHECK(back == sevens);
  const auto huge = DeviceMemory::allocate(*device, size_t{1} << 60, "the cache of a test");
  REQUIRE_FALSE(huge.ok());
  CHECK(huge.error().message.find("the cache of a test") != std::string::npos);
}

TEST_CASE("a plan runs its launches in order, in as many parts as a launch asks for, and gives a time for each") {
  TemporaryFolder folder;
  auto device = open_device(folder);
  // Counts its parts; the launch behind doubles what it finds.
  const CpuExecutable count(
      [](const void* const* buffers, const int64_t* symbols, int64_t, int64_t parts, std::byte*, int64_t) {
        auto& sum = *static_cast<std::atomic<int64_t>*>(const_cast<void*>(buffers[0]));
        sum += symbols[0] * parts;
      });
  const CpuExecutable twice([](const void* const* buffers, const int64_t*, int64_t part, int64_t, std::byte*, int64_t) {
    auto& sum = *static_cast<std::atomic<int64_t>*>(const_cast<void*>(buffers[0]));
    if (part == 0) sum = 2 * sum;
  });
  std::atomic<int64_t> sum = 0;
  const void* buffers[] = {&sum};
  const Launch launches[] = {{&count, buffers, 1, 5}, {&twice, buffers}, {&count, buffers, 3}};
  auto plan = device->capture(launches);
  REQUIRE(plan);
  const int64_t symbols[] = {10};
  int64_t times[4];
  REQUIRE(device->run(**plan, symbols, {.times_ns = times}).ok());
  CHECK(sum == 2 * (5 * 5 * 10) + 6 * 6 * 10);
  CHECK(std::is_sorted(std::begin(times), std::end(times)));
  const std::atomic<bool> stop = true;
  const Status stopped = device->run(**plan, symbols, {.cancel = &stop});
  REQUIRE_FALSE(stopped.ok());
  CHECK(stopped.error().message == "[run] interrupted");
}

TEST_CASE("those who ask for the same device share it while one of them holds it") {
  auto first = shared_device({.threads = 2, .use_cache = false});
  REQUIRE(first);
  CHECK(*shared_device({.threads = 2, .use_cache = false}) == *first);
  CHECK(*shared_device({.threads = 1, .use_cache = false}) != *first);
  CHECK((*first)->workers() == 2);
  const auto missing = shared_device({.name = "abacus"});
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.error().message.starts_with("[device] abacus: "));
}

TEST_CASE("memory is read wherever it begins and however many lines it has") {
  const auto device = open_cpu_device({.threads = 2, .use_cache = false}).take();
  const Executable* reader = device->memory_reader().take();
  std::vector<std::byte> memory(12 * 64);
  for (size_t begin = 0; begin < 128; begin += 8)
    for (size_t bytes = 0; bytes <= 10 * 64; bytes += 32) {
      const void* stretch[] = {memory.data() + begin, memory.data() + begin + bytes};
      run(*device, reader, stretch, 0);
    }
}
