// MetalGpu by Apple's frameworks. Thin on purpose: what is decided is decided in the C++ beside it, which runs and is
// tested everywhere. Wants macOS 13 and a GPU of Apple: addresses of buffers are written where kernels read them.
//
// Resources are not tracked by Metal, so what waits for what is said here: a barrier before each dispatch of a plan, an
// event between plans, a fence between the passes of a timed one.
#import <Foundation/Foundation.h>
#import <IOKit/IOKitLib.h>
#import <Metal/Metal.h>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>

#include "runtime/metal/open.h"

namespace smelt {
namespace {

constexpr size_t kMostDispatches = 1 << 14;       // of an indirect command buffer
constexpr size_t kMostTimedDispatches = 1 << 11;  // of a buffer of samples: two of 8 bytes each, of 32 KB
constexpr NSUInteger kSimdThreads = 32;
constexpr MTLResourceOptions kShared = MTLResourceStorageModeShared | MTLResourceHazardTrackingModeUntracked;

// What was encoded, with all memory that its kernels touch.
struct Commands {
  id<MTLIndirectCommandBuffer> buffer = nil;
  size_t count = 0;
  std::vector<id<MTLResource>> resident;
  id residency = nil;  // the same as a set, where the system has those
};

template <class Handle>
Handle handle_of(id object) {
  return reinterpret_cast<Handle>(const_cast<void*>((__bridge_retained const void*)object));
}
id<MTLBuffer> of(MetalBuffer buffer) { return (__bridge id<MTLBuffer>)reinterpret_cast<void*>(buffer); }
id<MTLComputePipelineState> of(MetalPipeline pipeline) {
  return (__bridge id<MTLComputePipelineState>)reinterpret_cast<void*>(pipeline);
}
Commands& of(MetalCommands commands) { return *reinterpret_cast<Commands*>(commands); }
void let_go(void* handle) {
  const id object = (__bridge_transfer id)handle;
  (void)object;
}

NSString* text_of(std::string_view text) {
  return [[NSString alloc] initWithBytes:text.data() length:text.size() encoding:NSUTF8StringEncoding];
}
std::string text_of(NSString* text) { return text.UTF8String ? text.UTF8String : ""; }

Error error_of(const std::string& doing, NSError* error) {
  return Error{"[metal] " + doing + ": " + (error ? text_of(error.localizedDescription) : "Metal says no more")};
}

// As the driver counts them: of a chip there are GPUs with more cores and with fewer.
int gpu_cores() {
  const io_service_t service = IOServiceGetMatchingService(kIOMainPortDefault, IOServiceMatching("AGXAccelerator"));
  if (!service) return 0;
  CFTypeRef count = IORegistryEntryCreateCFProperty(service, CFSTR("gpu-core-count"), kCFAllocatorDefault, 0);
  IOObjectRelease(service);
  int cores = 0;
  if (count && CFGetTypeID(count) == CFNumberGetTypeID())
    CFNumberGetValue(static_cast<CFNumberRef>(count), kCFNumberIntType, &cores);
  if (count) CFRelease(count);
  return cores;
}

// A file for what Metal reads and writes by name only; gone with this.
class ArchiveFile {
 public:
  ArchiveFile() {
    std::string pattern = text_of(NSTemporaryDirectory()) + "smelt-metal-XXXXXX";
    const int file = ::mkstemp(pattern.data());
    if (file < 0) return;
    ::close(file);
    path_ = pattern;
  }
  ~ArchiveFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  ArchiveFile(const ArchiveFile&) = delete;
  ArchiveFile& operator=(const ArchiveFile&) = delete;

  bool is_there() const { return !path_.empty(); }
  NSURL* url() const { return [NSURL fileURLWithPath:text_of(std::string_view(path_))]; }

 private:
  std::string path_;
};

class AppleGpu : public MetalGpu {
 public:
  explicit AppleGpu(id<MTLDevice> device)
      : device_(device), queue_([device newCommandQueue]), event_([device newEvent]), copied_([device newFence]) {
    properties_.title = text_of(device.name);
    properties_.compiler = text_of(NSProcessInfo.processInfo.operatingSystemVersionString);
    properties_.cores = gpu_cores();
    properties_.memory_bytes = device.recommendedMaxWorkingSetSize;
    properties_.buffer_bytes = device.maxBufferLength;
    properties_.page_bytes = static_cast<size_t>(::getpagesize());
    properties_.threadgroup_bytes = static_cast<int64_t>(device.maxThreadgroupMemoryLength);
  }

  const MetalProperties& properties() const override { return properties_; }

  uint64_t available_memory() const override {
    const uint64_t used = device_.currentAllocatedSize, all = device_.recommendedMaxWorkingSetSize;
    return all - std::min(all, used);
  }

  // --- memory

  // Metal clears it.
  Result<MetalMemory> allocate(size_t bytes, std::string_view what) override {
    @autoreleasepool {
      id<MTLBuffer> buffer = [device_ newBufferWithLength:bytes options:kShared];
      if (!buffer)
        return Error{"[metal] " + properties_.title + ": there are no " + std::to_string(bytes) + " bytes for " +
                     std::string(what) + "; use a smaller context (-c)"};
      buffer.label = text_of(what);
      return memory_of(buffer);
    }
  }

  Result<MetalMemory> adopt(std::span<const std::byte> pages) override {
    @autoreleasepool {
      id<MTLBuffer> buffer = [device_ newBufferWithBytesNoCopy:const_cast<std::byte*>(pages.data())
                                                        length:pages.size()
                                                       options:kShared
                                                   deallocator:nil];
      if (!buffer)
        return Error{"[metal] " + properties_.title + ": " + std::to_string(pages.size()) +
                     " bytes of a mapped file cannot be read where they lie"};
      return memory_of(buffer);
    }
  }

  void release(MetalBuffer buffer) override { let_go(buffer); }

  // --- kernels

  Result<std::string> compile(const MetalText& text) const override {
    @autoreleasepool {
      NSError* error = nil;
      const auto described = describe(text);
      if (!described) return described.error();
      MTLComputePipelineDescriptor* descriptor = *described;
      id<MTLBinaryArchive> archive = [device_ newBinaryArchiveWithDescriptor:[MTLBinaryArchiveDescriptor new]
                                                                       error:&error];
      if (!archive || ![archive addComputePipelineFunctionsWithDescriptor:descriptor error:&error])
        return error_of("compiling kernel " + std::string(text.entry), error);
      const ArchiveFile file;
      if (!file.is_there() || ![archive serializeToURL:file.url() error:&error]) return std::string();
      NSData* bytes = [NSData dataWithContentsOfURL:file.url()];
      return std::string(static_cast<const char*>(bytes.bytes), bytes.length);
    }
  }

  Result<MetalPipeline> load(const MetalText& text, std::string_view kept) override {
    @autoreleasepool {
      NSError* error = nil;
      const auto described = describe(text);
      if (!described) return described.error();
      MTLComputePipelineDescriptor* descriptor = *described;
      const ArchiveFile file;
      if (id<MTLBinaryArchive> archive = open_archive(file, kept)) descriptor.binaryArchives = @[ archive ];
      id<MTLComputePipelineState> pipeline = [device_ newComputePipelineStateWithDescriptor:descriptor
                                                                                    options:MTLPipelineOptionNone
                                                                                 reflection:nil
                                                                                      error:&error];
      const std::string name(text.entry);
      if (!pipeline) return error_of("making a pipeline of kernel " + name, error);
      if (pipeline.threadExecutionWidth != kSimdThreads)
        return Error{"[metal] kernel " + name + ": its SIMD groups are of " +
                     std::to_string(pipeline.threadExecutionWidth) + " threads, 32 are wanted"};
      if (pipeline.maxTotalThreadsPerThreadgroup < static_cast<NSUInteger>(text.shape.threads))
        return Error{"[metal] kernel " + name + ": Metal gives it " +
                     std::to_string(pipeline.maxTotalThreadsPerThreadgroup) + " threads of a threadgroup, " +
                     std::to_string(text.shape.threads) + " are wanted"};
      return handle_of<MetalPipeline>(pipeline);
    }
  }

  void release(MetalPipeline pipeline) override { let_go(pipeline); }
  size_t code_bytes() const override { return 0; }

  // --- plans

  size_t most_dispatches() const override { return kMostDispatches; }

  Result<MetalCommands> encode(std::span<const MetalDispatch> dispatches,
                               std::span<const MetalBuffer> resident) override {
    @autoreleasepool {
      MTLIndirectCommandBufferDescriptor* descriptor = [MTLIndirectCommandBufferDescriptor new];
      descriptor.commandTypes = MTLIndirectCommandTypeConcurrentDispatch;
      descriptor.inheritBuffers = NO;
      descriptor.inheritPipelineState = NO;
      descriptor.maxKernelBufferBindCount = 2;
      if (@available(macOS 14.0, *)) descriptor.maxKernelThreadgroupMemoryBindCount = 1;
      auto commands = std::make_unique<Commands>();
      commands->buffer = [device_ newIndirectCommandBufferWithDescriptor:descriptor
                                                         maxCommandCount:dispatches.size()
                                                                 options:MTLResourceStorageModeShared];
      if (!commands->buffer)
        return Error{"[metal] " + properties_.title + ": there is no room for a plan of " +
                     std::to_string(dispatches.size()) + " dispatches"};
      commands->count = dispatches.size();
      for (size_t i = 0; i < dispatches.size(); ++i)
        encode(dispatches[i], [commands->buffer indirectComputeCommandAtIndex:i]);
      for (MetalBuffer buffer : resident) commands->resident.push_back(of(buffer));
      const Status made = make_residency(*commands);
      if (!made) return made.error();
      return reinterpret_cast<MetalCommands>(commands.release());
    }
  }

  void release(MetalCommands commands) override { delete &of(commands); }

  Result<uint64_t> start(MetalCommands commands, std::span<const MetalCopy> copies) override {
    @autoreleasepool {
      const Commands& c = of(commands);
      id<MTLCommandBuffer> buffer = begin_behind_all();
      encode(copies, buffer);
      id<MTLComputeCommandEncoder> encoder = [buffer computeCommandEncoderWithDispatchType:MTLDispatchTypeConcurrent];
      make_resident(c, buffer, encoder);
      if (!copies.empty()) [encoder waitForFence:copied_];
      [encoder executeCommandsInBuffer:c.buffer withRange:NSMakeRange(0, c.count)];
      [encoder endEncoding];
      return commit(buffer);
    }
  }

  Status wait(uint64_t event) override {
    @autoreleasepool {
      Status first;
      for (;;) {
        id<MTLCommandBuffer> buffer = take_begun(event);
        if (!buffer) return first;
        [buffer waitUntilCompleted];
        const bool failed = buffer.status == MTLCommandBufferStatusError;
        if (failed && first) first = error_of("running a plan", buffer.error);
      }
    }
  }

  Result<MetalTimes> run_timed(MetalCommands commands) override {
    @autoreleasepool {
      MetalTimes times;
      [device_ sampleTimestamps:&times.before.host_ns gpuTimestamp:&times.before.gpu_ticks];
      const Commands& c = of(commands);
      for (size_t first = 0; first < c.count; first += kMostTimedDispatches) {
        const Status done = run_timed(c, first, std::min(kMostTimedDispatches, c.count - first), times.dispatches);
        if (!done) return done.error();
      }
      [device_ sampleTimestamps:&times.after.host_ns gpuTimestamp:&times.after.gpu_ticks];
      return times;
    }
  }

 private:
  struct Begun {
    uint64_t event = 0;
    id<MTLCommandBuffer> buffer = nil;
  };

  static MetalMemory memory_of(id<MTLBuffer> buffer) {
    return {handle_of<MetalBuffer>(buffer), static_cast<std::byte*>(buffer.contents), buffer.gpuAddress};
  }

  // Floats are what the text says they are: nothing is fused or reassociated.
  Result<MTLComputePipelineDescriptor*> describe(const MetalText& text) const {
    NSError* error = nil;
    MTLCompileOptions* options = [MTLCompileOptions new];
    options.fastMathEnabled = NO;
    options.languageVersion = MTLLanguageVersion3_0;
    id<MTLLibrary> library = [device_ newLibraryWithSource:text_of(text.text) options:options error:&error];
    if (!library) return error_of("compiling kernel " + std::string(text.entry), error);
    MTLComputePipelineDescriptor* descriptor = [MTLComputePipelineDescriptor new];
    descriptor.computeFunction = [library newFunctionWithName:text_of(text.entry)];
    descriptor.label = text_of(text.label);
    descriptor.maxTotalThreadsPerThreadgroup = static_cast<NSUInteger>(text.shape.threads);
    descriptor.threadGroupSizeIsMultipleOfThreadExecutionWidth =
        static_cast<NSUInteger>(text.shape.threads) % kSimdThreads == 0;
    descriptor.supportIndirectCommandBuffers = YES;
    return descriptor;
  }

  // Nothing where it is of no use any more: then Metal compiles again.
  id<MTLBinaryArchive> open_archive(const ArchiveFile& file, std::string_view kept) const {
    if (kept.empty() || !file.is_there()) return nil;
    NSData* bytes = [NSData dataWithBytes:kept.data() length:kept.size()];
    if (![bytes writeToURL:file.url() atomically:NO]) return nil;
    MTLBinaryArchiveDescriptor* descriptor = [MTLBinaryArchiveDescriptor new];
    descriptor.url = file.url();
    return [device_ newBinaryArchiveWithDescriptor:descriptor error:nil];
  }

  static void encode(const MetalDispatch& d, id<MTLIndirectComputeCommand> command) {
    if (d.waits) [command setBarrier];
    [command setComputePipelineState:of(d.pipeline)];
    [command setKernelBuffer:of(d.addresses) offset:d.addresses_offset atIndex:0];
    [command setKernelBuffer:of(d.symbols) offset:0 atIndex:1];
    // In units of 16 bytes.
    if (d.threadgroup_bytes > 0) [command setThreadgroupMemoryLength:(d.threadgroup_bytes + 15) / 16 * 16 atIndex:0];
    [command concurrentDispatchThreadgroups:MTLSizeMake(d.threadgroups, 1, 1)
                      threadsPerThreadgroup:MTLSizeMake(d.threads, 1, 1)];
  }

  // In a pass of their own, which the next one waits for.
  void encode(std::span<const MetalCopy> copies, id<MTLCommandBuffer> buffer) const {
    if (copies.empty()) return;
    id<MTLBlitCommandEncoder> encoder = [buffer blitCommandEncoder];
    for (const MetalCopy& copy : copies)
      [encoder copyFromBuffer:of(copy.from)
                 sourceOffset:copy.from_offset
                     toBuffer:of(copy.to)
            destinationOffset:copy.to_offset
                         size:copy.bytes];
    [encoder updateFence:copied_];
    [encoder endEncoding];
  }

  // --- residency: kernels find their buffers by address, so Metal is told of them

  Status make_residency(Commands& commands) const {
    if (@available(macOS 15.0, *)) {
      NSError* error = nil;
      MTLResidencySetDescriptor* descriptor = [MTLResidencySetDescriptor new];
      descriptor.initialCapacity = commands.resident.size();
      id<MTLResidencySet> set = [device_ newResidencySetWithDescriptor:descriptor error:&error];
      if (!set) return error_of("keeping the memory of a plan resident", error);
      for (id<MTLResource> resource : commands.resident) [set addAllocation:resource];
      [set commit];
      [set requestResidency];
      commands.residency = set;
    }
    return {};
  }

  static void make_resident(const Commands& commands, id<MTLCommandBuffer> buffer,
                            id<MTLComputeCommandEncoder> encoder) {
    if (@available(macOS 15.0, *)) {
      [buffer useResidencySet:commands.residency];
    } else {
      [encoder useResources:commands.resident.data()
                      count:commands.resident.size()
                      usage:MTLResourceUsageRead | MTLResourceUsageWrite];
    }
  }

  // --- one behind the other

  id<MTLCommandBuffer> begin_behind_all() {
    id<MTLCommandBuffer> buffer = [queue_ commandBuffer];
    std::lock_guard lock(mutex_);
    if (events_ > 0) [buffer encodeWaitForEvent:event_ value:events_];
    return buffer;
  }

  uint64_t commit(id<MTLCommandBuffer> buffer) {
    std::lock_guard lock(mutex_);
    [buffer encodeSignalEvent:event_ value:++events_];
    begun_.push_back({events_, buffer});
    [buffer commit];
    return events_;
  }

  // The first that was begun, up to an event, and is not known to have ended; nil behind the last one.
  id<MTLCommandBuffer> take_begun(uint64_t event) {
    std::lock_guard lock(mutex_);
    if (begun_.empty() || begun_.front().event > event) return nil;
    id<MTLCommandBuffer> buffer = begun_.front().buffer;
    begun_.pop_front();
    return buffer;
  }

  // --- times

  // Clocks are read where passes begin and end: GPUs of Apple have no other place.
  Result<id<MTLCounterSampleBuffer>> make_samples(size_t count) const {
    NSError* error = nil;
    if (![device_ supportsCounterSampling:MTLCounterSamplingPointAtStageBoundary])
      return Error{"[metal] " + properties_.title + ": it has no clock around passes, so kernels cannot be timed"};
    MTLCounterSampleBufferDescriptor* descriptor = [MTLCounterSampleBufferDescriptor new];
    for (id<MTLCounterSet> set in device_.counterSets)
      if ([set.name isEqualToString:MTLCommonCounterSetTimestamp]) descriptor.counterSet = set;
    descriptor.storageMode = MTLStorageModeShared;
    descriptor.sampleCount = count;
    id<MTLCounterSampleBuffer> samples = [device_ newCounterSampleBufferWithDescriptor:descriptor error:&error];
    if (!samples) return error_of("making room for times", error);
    return samples;
  }

  Status run_timed(const Commands& c, size_t first, size_t count, std::vector<MetalTimes::Span>& times) {
    const auto made = make_samples(2 * count);
    if (!made) return made.error();
    id<MTLCounterSampleBuffer> samples = *made;
    id<MTLFence> fence = [device_ newFence];
    id<MTLCommandBuffer> buffer = begin_behind_all();
    for (size_t i = 0; i < count; ++i) {
      MTLComputePassDescriptor* pass = [MTLComputePassDescriptor new];
      pass.sampleBufferAttachments[0].sampleBuffer = samples;
      pass.sampleBufferAttachments[0].startOfEncoderSampleIndex = 2 * i;
      pass.sampleBufferAttachments[0].endOfEncoderSampleIndex = 2 * i + 1;
      id<MTLComputeCommandEncoder> encoder = [buffer computeCommandEncoderWithDescriptor:pass];
      make_resident(c, buffer, encoder);
      if (i > 0) [encoder waitForFence:fence];
      [encoder executeCommandsInBuffer:c.buffer withRange:NSMakeRange(first + i, 1)];
      [encoder updateFence:fence];
      [encoder endEncoding];
    }
    const Status done = wait(commit(buffer));
    if (!done) return done;
    NSData* data = [samples resolveCounterRange:NSMakeRange(0, 2 * count)];
    if (data.length < 2 * count * sizeof(MTLCounterResultTimestamp))
      return Error{"[metal] " + properties_.title + ": the times of kernels cannot be read"};
    const auto* stamps = static_cast<const MTLCounterResultTimestamp*>(data.bytes);
    for (size_t i = 0; i < count; ++i) times.push_back({stamps[2 * i].timestamp, stamps[2 * i + 1].timestamp});
    return {};
  }

  id<MTLDevice> device_;
  id<MTLCommandQueue> queue_;
  id<MTLEvent> event_;
  id<MTLFence> copied_;
  MetalProperties properties_;
  std::mutex mutex_;  // of what follows
  uint64_t events_ = 0;
  std::deque<Begun> begun_;
};

}  // namespace

Result<std::unique_ptr<MetalGpu>> open_metal_gpu() {
  @autoreleasepool {
    id<MTLDevice> device = MTLCreateSystemDefaultDevice();
    if (!device) return Error{"[metal] there is no GPU that Metal knows; use --device cpu"};
    if (![device supportsFamily:MTLGPUFamilyMetal3] || ![device supportsFamily:MTLGPUFamilyApple7])
      return Error{"[metal] " + text_of(device.name) +
                   ": kernels want a GPU of Apple (M1 or later) and macOS 13; use "
                   "--device cpu"};
    return std::unique_ptr<MetalGpu>(std::make_unique<AppleGpu>(device));
  }
}

}  // namespace smelt
