// MetalGpu: what smelt asks of Metal, and no more. apple_gpu.mm makes calls of the system's frameworks of it, on a Mac;
// metal_shim/shim_gpu.h plays a GPU on the processor. What is done with it (which buffers, what is encoded, when it
// waits) is the rest of this folder, which is the same for both.
//
// Memory is shared: an address of the host and one of the GPU mean the same byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "runtime/source.h"

namespace smelt {

using MetalBuffer = struct MetalBufferTag*;
using MetalPipeline = struct MetalPipelineTag*;
using MetalCommands = struct MetalCommandsTag*;  // an indirect command buffer

struct MetalProperties {
  std::string title;              // "Apple M3 Max"
  std::string compiler;           // what machine code depends on beside that: "macOS 15.1"
  int cores = 0;                  // 0: not known
  uint64_t memory_bytes = 0;      // that may be in use before it gets slow
  size_t buffer_bytes = 0;        // the most of one buffer
  size_t page_bytes = 0;          // of what may become a buffer where it lies
  int64_t threadgroup_bytes = 0;  // on-chip memory of a threadgroup
};

struct MetalMemory {
  MetalBuffer buffer = nullptr;
  std::byte* host = nullptr;
  uint64_t gpu = 0;
};

// A kernel on its way to a pipeline.
struct MetalText {
  std::string_view text, entry;
  std::string_view label;  // another one for each kernel
  LaunchShape shape;
};

// A dispatch as it is encoded: buffer 0 is where the addresses of the kernel's buffers lie, buffer 1 the launch values.
struct MetalDispatch {
  MetalPipeline pipeline = nullptr;
  MetalBuffer addresses = nullptr;
  size_t addresses_offset = 0;
  MetalBuffer symbols = nullptr;
  uint32_t threadgroups = 1, threads = 1, threadgroup_bytes = 0;
  bool waits = true;  // behind a barrier: until all before it have written what they write
};

// Bytes that the host has written beside the memory that they are for. Offsets and sizes are multiples of kMetalUnit.
struct MetalCopy {
  MetalBuffer from = nullptr;
  size_t from_offset = 0;
  MetalBuffer to = nullptr;
  size_t to_offset = 0, bytes = 0;
};
constexpr size_t kMetalUnit = 4;

// When dispatches began and ended, in ticks of the GPU's clock, and twice both clocks at one time each.
struct MetalTimes {
  struct Span {
    uint64_t begin = 0, end = 0;
  };
  struct Clocks {
    uint64_t host_ns = 0, gpu_ticks = 0;
  };
  std::vector<Span> dispatches;
  Clocks before, after;
};

class MetalGpu {
 public:
  virtual ~MetalGpu() = default;
  virtual const MetalProperties& properties() const = 0;
  virtual uint64_t available_memory() const = 0;

  // --- memory

  // Zeroed.
  virtual Result<MetalMemory> allocate(size_t bytes, std::string_view what) = 0;
  // Memory of the process as a buffer, without a copy. REQUIRES: whole pages, mapped as long as the buffer is there.
  virtual Result<MetalMemory> adopt(std::span<const std::byte> pages) = 0;
  virtual void release(MetalBuffer buffer) = 0;

  // --- kernels

  // What is worth keeping of a kernel on disk beside its text; in any thread. An Error has what the compiler says.
  virtual Result<std::string> compile(const MetalText& text) const = 0;
  // `kept`: what compile() gave, now or at an earlier start. In any thread.
  virtual Result<MetalPipeline> load(const MetalText& text, std::string_view kept) = 0;
  virtual void release(MetalPipeline pipeline) = 0;
  virtual size_t code_bytes() const = 0;  // 0: not known

  // --- plans

  // The most dispatches of an indirect command buffer.
  virtual size_t most_dispatches() const = 0;
  // Once; `resident` is all memory that the kernels touch. REQUIRES: what is named here outlives the result.
  virtual Result<MetalCommands> encode(std::span<const MetalDispatch> dispatches,
                                       std::span<const MetalBuffer> resident) = 0;
  virtual void release(MetalCommands commands) = 0;
  // Begins all that was encoded, behind what was begun before, and returns; the copies come first, in any order. What
  // wait() takes: the number that an event has when it is done.
  virtual Result<uint64_t> start(MetalCommands commands, std::span<const MetalCopy> copies) = 0;
  // Until that is done, and all before it. The first Error of these, each once.
  virtual Status wait(uint64_t event) = 0;
  // Dispatch after dispatch, each in a pass of its own, which is what the GPU's clock is read around.
  virtual Result<MetalTimes> run_timed(MetalCommands commands) = 0;
};

}  // namespace smelt
