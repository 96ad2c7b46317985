#include "runtime/cpu_device.h"

#include <doctest/doctest.h>

#include "runtime/kernels.h"

using namespace smelt;
using namespace smelt::test;

namespace {

std::unique_ptr<CpuDevice> open_device(const TemporaryFolder& folder, int threads = 2) {
  auto device = CpuDevice::open({.threads = threads, .cache_dir = folder.path()});
  REQUIRE(device);
  return device.take();
}

std::vector<Source> many_kernels(int count) {
  std::vector<Source> sources;
  for (int i = 0; i < count; ++i) sources.push_back(scale_kernel(std::to_string(i) + ".0"));
  return sources;
}

float run(CpuDevice& device, KernelEntry entry, float a) {
  float out = 0;
  const void* buffers[] = {&out, &a};
  int64_t symbols[] = {1};
  const Launch launches[] = {{entry, buffers}};
  device.workers().run(launches, symbols);
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
    auto entries = device->compile(sources, [&](int done, int total) {
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

TEST_CASE("equal kernels are one kernel, within a batch and across batches") {
  TemporaryFolder folder;
  auto device = open_device(folder);
  std::vector<Source> twice = {scale_kernel("2.0"), scale_kernel("3.0"), scale_kernel("2.0")};
  auto first = device->compile(twice);
  CHECK((first[0] == first[2]));
  CHECK((first[0] != first[1]));
  CHECK((device->compile(twice) == first));
  CHECK(device->stats().compiled == 2);
  CHECK(device->stats().shared == 4);
  CHECK(device->compile({}).empty());
}

TEST_CASE("a damaged cache entry is compiled again and replaced") {
  TemporaryFolder folder;
  std::vector<Source> one = {scale_kernel()};
  open_device(folder)->compile(one);
  REQUIRE(folder.names().size() == 1);
  const std::string path = folder.path() + "/" + folder.names()[0], good = contents_of(path);
  for (size_t at = 0; at < good.size(); at += 211) {
    std::string bad = good;
    bad[at] ^= 1;
    write_contents(path, bad);
    auto device = open_device(folder);
    CHECK(run(*device, device->compile(one)[0], 5.0f) == 16.0f);
    CHECK(device->stats().compiled == 1);
    CHECK(contents_of(path) == good);
  }
}

TEST_CASE("other passes and another code generation level are other kernels in the cache") {
  TemporaryFolder folder;
  std::vector<Source> one = {scale_kernel()};
  for (CodegenOptions codegen : {CodegenOptions{}, CodegenOptions{.passes = "function(sroa)"},
                                 CodegenOptions{.level = 3}, CodegenOptions{.passes = ""}}) {
    auto device = CpuDevice::open({.threads = 1, .cache_dir = folder.path(), .codegen = codegen});
    REQUIRE(device);
    CHECK(run(**device, (*device)->compile(one)[0], 5.0f) == 16.0f);
    CHECK((*device)->stats().compiled == 1);
  }
  CHECK(folder.names().size() == 4);
}

TEST_CASE("without a cache nothing is written, and a bad folder is told and survived") {
  TemporaryFolder folder;
  std::vector<Source> one = {scale_kernel()};
  auto off = CpuDevice::open({.threads = 1, .cache_dir = folder.path(), .use_cache = false});
  REQUIRE(off);
  CHECK(run(**off, (*off)->compile(one)[0], 5.0f) == 16.0f);
  CHECK(folder.names().empty());
  CHECK((*off)->cache_problem().empty());

  write_contents(folder.path() + "/file", "");
  auto bad = CpuDevice::open({.threads = 1, .cache_dir = folder.path() + "/file"});
  REQUIRE(bad);
  CHECK((*bad)->cache_problem().starts_with("[cache] " + folder.path() + "/file: "));
  CHECK(run(**bad, (*bad)->compile(one)[0], 5.0f) == 16.0f);
}

TEST_CASE("two processes that start at once in an empty cache both get right kernels") {
  TemporaryFolder folder;
  auto sources = many_kernels(8);
  auto work = [&] {
    auto device = CpuDevice::open({.threads = 2, .cache_dir = folder.path()});
    if (!device) return 100;
    auto entries = (*device)->compile(sources);
    int wrong = 0;
    for (int i = 0; i < 8; ++i) wrong += run(**device, entries[i], 10.0f) != 10.0f * i + 1.0f;
    return wrong;
  };
  pid_t children[] = {start_process(work), start_process(work)};
  for (pid_t child : children) CHECK(end_of(child) == 0);
  CHECK(folder.names().size() == 8);
  auto device = open_device(folder);
  device->compile(sources);
  CHECK(device->stats().cached == 8);
}

TEST_CASE("compiled kernels run on all workers and give the same bits") {
  TemporaryFolder folder;
  std::vector<float> a(997), expected;
  for (size_t i = 0; i < a.size(); ++i) a[i] = 0.1f * static_cast<float>(i);
  for (int threads : {1, 2, 3}) {
    auto device = open_device(folder, threads);
    std::vector<Source> one = {scale_kernel()};
    KernelEntry entry = device->compile(one)[0];
    std::vector<float> out(a.size());
    const void* buffers[] = {out.data(), a.data()};
    int64_t symbols[] = {997};
    const Launch launches[] = {{entry, buffers}};
    device->workers().run(launches, symbols);
    if (expected.empty()) expected = out;
    CHECK(out == expected);
  }
}
