// A driver that is not there: answers every call as NVIDIA's would, keeps the memory of its GPU in the process, notes
// the order of calls, and fails where a test wants it to.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/block_clock.h"
#include "runtime/cuda/driver.h"

namespace smelt::test {

struct FakeCuda {
  // What a launch was asked for.
  struct Launched {
    std::string kernel;
    unsigned blocks = 0, threads = 0, shared_bytes = 0;
    std::vector<CuAddress> values;
    bool overlaps = false;  // it may begin while the launch before ends
  };
  struct Graph {
    std::vector<std::function<void()>> copies;
    std::vector<Launched> launches;
  };

  int devices = 1;
  int major = 9, minor = 0;
  size_t memory = size_t{1} << 30;
  int block_shared_bytes = 100 << 10;
  int processor_shared_bytes = 0;  // 0: a kilobyte more than a block may have
  int parameters = 0;              // that launches read; the driver would know it from the kernel

  std::string fail_in;  // symbol of the call that fails, and which of them
  int fail_after = 0;
  CuResult fail_with = 700;  // an illegal address

  std::vector<std::string> calls;      // symbols, in order
  std::vector<Launched> launches;      // as they ran
  std::vector<std::string> assembled;  // PTX
  size_t allocated = 0;
  int open_objects = 0;  // contexts, streams, events, modules, graphs, pieces of memory

  std::map<CuAddress, size_t> blocks;
  std::set<void*> pinned;
  std::vector<Graph> graphs;  // handles are positions in it, from 1 on; the last one is being captured, if any is
  bool capturing = false;
  uint64_t clock = 1'000'000;  // of the device, in nanoseconds: a launch takes 500
  std::map<std::string, int> count;
  std::vector<std::string> kernels;  // functions are positions in it
  std::mutex mutex;

  static FakeCuda*& current() {
    static FakeCuda* fake = nullptr;
    return fake;
  }
  FakeCuda() { current() = this; }
  ~FakeCuda() {
    for (const auto& [address, bytes] : blocks) std::free(reinterpret_cast<void*>(address));
    for (void* memory : pinned) std::free(memory);  // what a device that failed to close has left
    current() = nullptr;
  }

  // Notes a call. Not 0: it is to fail.
  CuResult enter(const char* symbol) {
    calls.push_back(symbol);
    return fail_in == symbol && count[symbol]++ == fail_after ? fail_with : 0;
  }

  bool was_called(const std::string& symbol) const {
    return std::find(calls.begin(), calls.end(), symbol) != calls.end();
  }
  int times_called(const std::string& symbol) const {
    return static_cast<int>(std::count(calls.begin(), calls.end(), symbol));
  }

  // All blocks begin and end together, on four processors in turn.
  void write_clocks(const Launched& launched) {
    if (parameters == 0 || launched.values.back() == 0) return;
    auto* clocks = reinterpret_cast<BlockClock*>(launched.values.back());
    for (unsigned i = 0; i < launched.blocks; ++i) clocks[i] = {clock, clock + 500, i % 4, 0};
  }

  // The calls; those that are not given here do nothing but succeed.
  CudaDriver driver();
};

// Functions cannot hold state, so they ask for the fake of the moment.
#define FAKE(symbol)                     \
  FakeCuda& fake = *FakeCuda::current(); \
  std::lock_guard lock(fake.mutex);      \
  if (CuResult r = fake.enter(symbol); r != 0) return r

template <class T>
T handle(uintptr_t value) {
  return reinterpret_cast<T>(value);
}

inline CudaDriver FakeCuda::driver() {
  CudaDriver d;
#define CALL(name, symbol, parameters)               \
  d.name = [] parameters -> CuResult { /* NOLINT */  \
                                       FAKE(symbol); \
                                       return 0;     \
  };
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "runtime/cuda/driver_calls.def"
#pragma GCC diagnostic pop
#undef CALL
  d.error_text = [](CuResult result, const char** text) -> CuResult {
    *text = result == 2 ? "out of memory" : "an illegal memory access was encountered";
    return 0;
  };
  d.error_name = [](CuResult result, const char** name) -> CuResult {
    *name = result == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_ILLEGAL_ADDRESS";
    return 0;
  };
  d.version = [](int* version) -> CuResult {
    FAKE("cuDriverGetVersion");
    *version = 13000;
    return 0;
  };
  d.device_count = [](int* count) -> CuResult {
    FAKE("cuDeviceGetCount");
    *count = fake.devices;
    return 0;
  };
  d.device_name = [](char* name, int length, CuDeviceId) -> CuResult {
    FAKE("cuDeviceGetName");
    std::strncpy(name, "Fake GPU", static_cast<size_t>(length));
    return 0;
  };
  d.device_memory = [](size_t* bytes, CuDeviceId) -> CuResult {
    FAKE("cuDeviceTotalMem_v2");
    *bytes = fake.memory;
    return 0;
  };
  d.device_attribute = [](int* value, int attribute, CuDeviceId) -> CuResult {
    FAKE("cuDeviceGetAttribute");
    switch (attribute) {
      case Cu::kMajor: *value = fake.major; break;
      case Cu::kMinor: *value = fake.minor; break;
      case Cu::kProcessors: *value = 4; break;
      case Cu::kBlockSharedBytes: *value = fake.block_shared_bytes; break;
      case Cu::kProcessorSharedBytes:
        *value = fake.processor_shared_bytes > 0 ? fake.processor_shared_bytes : fake.block_shared_bytes + 1024;
        break;
      default: *value = 1024;
    }
    return 0;
  };
  d.context_retain = [](CuContext* context, CuDeviceId) -> CuResult {
    FAKE("cuDevicePrimaryCtxRetain");
    *context = handle<CuContext>(1);
    ++fake.open_objects;
    return 0;
  };
  d.context_release = [](CuDeviceId) -> CuResult {
    FAKE("cuDevicePrimaryCtxRelease_v2");
    --fake.open_objects;
    return 0;
  };
  d.memory_info = [](size_t* free, size_t* total) -> CuResult {
    FAKE("cuMemGetInfo_v2");
    *free = fake.memory - fake.allocated;
    *total = fake.memory;
    return 0;
  };
  d.allocate = [](CuAddress* memory, size_t bytes) -> CuResult {
    FAKE("cuMemAlloc_v2");
    if (bytes > fake.memory - fake.allocated) return Cu::kOutOfMemory;
    *memory = reinterpret_cast<CuAddress>(std::malloc(bytes));
    fake.blocks[*memory] = bytes;
    fake.allocated += bytes;
    ++fake.open_objects;
    return 0;
  };
  d.release = [](CuAddress memory) -> CuResult {
    FAKE("cuMemFree_v2");
    fake.allocated -= fake.blocks.at(memory);
    fake.blocks.erase(memory);
    std::free(reinterpret_cast<void*>(memory));
    --fake.open_objects;
    return 0;
  };
  d.allocate_pinned = [](void** memory, size_t bytes, unsigned) -> CuResult {
    FAKE("cuMemHostAlloc");
    *memory = std::malloc(bytes);
    fake.pinned.insert(*memory);
    ++fake.open_objects;
    return 0;
  };
  d.release_pinned = [](void* memory) -> CuResult {
    FAKE("cuMemFreeHost");
    fake.pinned.erase(memory);
    std::free(memory);
    --fake.open_objects;
    return 0;
  };
  d.fill = [](CuAddress memory, unsigned char value, size_t bytes, CuStream) -> CuResult {
    FAKE("cuMemsetD8Async");
    std::memset(reinterpret_cast<void*>(memory), value, bytes);
    return 0;
  };
  d.copy_in = [](CuAddress to, const void* from, size_t bytes, CuStream) -> CuResult {
    FAKE("cuMemcpyHtoDAsync_v2");
    const auto copy = [=] { std::memcpy(reinterpret_cast<void*>(to), from, bytes); };
    if (fake.capturing)
      fake.graphs.back().copies.push_back(copy);
    else
      copy();
    return 0;
  };
  d.copy_out = [](void* to, CuAddress from, size_t bytes, CuStream) -> CuResult {
    FAKE("cuMemcpyDtoHAsync_v2");
    std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
    return 0;
  };
  d.link_create = [](unsigned, int*, void**, CuLink* link) -> CuResult {
    FAKE("cuLinkCreate_v2");
    *link = handle<CuLink>(1);
    ++fake.open_objects;
    return 0;
  };
  d.link_add = [](CuLink, int, void* data, size_t, const char*, unsigned, int*, void**) -> CuResult {
    FAKE("cuLinkAddData_v2");
    fake.assembled.emplace_back(static_cast<const char*>(data));
    return 0;
  };
  d.link_complete = [](CuLink, void** cubin, size_t* bytes) -> CuResult {
    FAKE("cuLinkComplete");
    static char machine_code[] = "machine code";
    *cubin = machine_code;
    *bytes = sizeof machine_code;
    return 0;
  };
  d.link_destroy = [](CuLink) -> CuResult {
    FAKE("cuLinkDestroy");
    --fake.open_objects;
    return 0;
  };
  d.module_load = [](CuModule* module, const void*, unsigned, int*, void**) -> CuResult {
    FAKE("cuModuleLoadDataEx");
    *module = handle<CuModule>(1);
    ++fake.open_objects;
    return 0;
  };
  d.module_unload = [](CuModule) -> CuResult {
    FAKE("cuModuleUnload");
    --fake.open_objects;
    return 0;
  };
  d.module_function = [](CuFunction* function, CuModule, const char* name) -> CuResult {
    FAKE("cuModuleGetFunction");
    fake.kernels.emplace_back(name);
    *function = handle<CuFunction>(fake.kernels.size());
    return 0;
  };
  d.blocks_per_processor = [](int* blocks, CuFunction, int, size_t) -> CuResult {
    FAKE("cuOccupancyMaxActiveBlocksPerMultiprocessor");
    *blocks = 2;
    return 0;
  };
  d.stream_create = [](CuStream* stream, unsigned) -> CuResult {
    FAKE("cuStreamCreate");
    *stream = handle<CuStream>(1);
    ++fake.open_objects;
    return 0;
  };
  d.stream_destroy = [](CuStream) -> CuResult {
    FAKE("cuStreamDestroy_v2");
    --fake.open_objects;
    return 0;
  };
  d.event_create = [](CuEvent* event, unsigned) -> CuResult {
    FAKE("cuEventCreate");
    *event = handle<CuEvent>(1);
    ++fake.open_objects;
    return 0;
  };
  d.event_destroy = [](CuEvent) -> CuResult {
    FAKE("cuEventDestroy_v2");
    --fake.open_objects;
    return 0;
  };
  d.launch = [](const CuLaunch* l, CuFunction function, void** parameters, void**) -> CuResult {
    FAKE("cuLaunchKernelEx");
    FakeCuda::Launched launched{
        fake.kernels.at(reinterpret_cast<uintptr_t>(function) - 1),
        l->grid_x,
        l->block_x,
        l->shared_bytes,
        {},
        l->count == 1 && l->attributes[0].id == CuLaunch::kOverlaps && l->attributes[0].value[0] == 1};
    for (int i = 0; i < fake.parameters; ++i) launched.values.push_back(*static_cast<CuAddress*>(parameters[i]));
    (fake.capturing ? fake.graphs.back().launches : fake.launches).push_back(launched);
    return 0;
  };
  d.capture_begin = [](CuStream, int) -> CuResult {
    FAKE("cuStreamBeginCapture_v2");
    fake.capturing = true;
    fake.graphs.emplace_back();
    return 0;
  };
  d.capture_end = [](CuStream, CuGraph* graph) -> CuResult {
    FAKE("cuStreamEndCapture");
    fake.capturing = false;
    *graph = handle<CuGraph>(fake.graphs.size());
    ++fake.open_objects;
    return 0;
  };
  d.graph_instantiate = [](CuGraphExec* exec, CuGraph graph, unsigned long long) -> CuResult {
    FAKE("cuGraphInstantiateWithFlags");
    *exec = handle<CuGraphExec>(reinterpret_cast<uintptr_t>(graph));
    ++fake.open_objects;
    return 0;
  };
  d.graph_launch = [](CuGraphExec exec, CuStream) -> CuResult {
    FAKE("cuGraphLaunch");
    const FakeCuda::Graph& graph = fake.graphs.at(reinterpret_cast<uintptr_t>(exec) - 1);
    for (const auto& copy : graph.copies) copy();
    for (const FakeCuda::Launched& launched : graph.launches) {
      fake.launches.push_back(launched);
      fake.write_clocks(launched);
      fake.clock += 500;
    }
    return 0;
  };
  d.graph_exec_destroy = [](CuGraphExec) -> CuResult {
    FAKE("cuGraphExecDestroy");
    --fake.open_objects;
    return 0;
  };
  d.graph_destroy = [](CuGraph) -> CuResult {
    FAKE("cuGraphDestroy");
    --fake.open_objects;
    return 0;
  };
  return d;
}
#undef FAKE

}  // namespace smelt::test
