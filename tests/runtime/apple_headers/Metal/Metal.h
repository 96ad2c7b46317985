// What smelt uses of Apple's Metal, declared anew; see ../Foundation/Foundation.h.
#pragma once

#import <Foundation/Foundation.h>

typedef uint64_t MTLTimestamp;
typedef uint64_t MTLGPUAddress;
typedef struct {
  NSUInteger width, height, depth;
} MTLSize;
MTLSize MTLSizeMake(NSUInteger width, NSUInteger height, NSUInteger depth);
typedef struct {
  uint64_t timestamp;
} MTLCounterResultTimestamp;

enum MTLResourceOptions : NSUInteger {
  MTLResourceStorageModeShared = 0,
  MTLResourceHazardTrackingModeUntracked = 1 << 8,
};
constexpr MTLResourceOptions operator|(MTLResourceOptions a, MTLResourceOptions b) {
  return MTLResourceOptions(NSUInteger(a) | NSUInteger(b));
}
enum MTLResourceUsage : NSUInteger { MTLResourceUsageRead = 1, MTLResourceUsageWrite = 2 };
constexpr MTLResourceUsage operator|(MTLResourceUsage a, MTLResourceUsage b) {
  return MTLResourceUsage(NSUInteger(a) | NSUInteger(b));
}
enum MTLStorageMode : NSUInteger { MTLStorageModeShared = 0 };
enum MTLPipelineOption : NSUInteger { MTLPipelineOptionNone = 0 };
enum MTLIndirectCommandType : NSUInteger { MTLIndirectCommandTypeConcurrentDispatch = 1 << 5 };
enum MTLDispatchType : NSUInteger { MTLDispatchTypeSerial, MTLDispatchTypeConcurrent };
enum MTLCommandBufferStatus : NSUInteger { MTLCommandBufferStatusCompleted = 4, MTLCommandBufferStatusError = 5 };
enum MTLCounterSamplingPoint : NSUInteger { MTLCounterSamplingPointAtStageBoundary };
enum MTLLanguageVersion : NSUInteger { MTLLanguageVersion3_0 = 3 << 16 };
enum MTLGPUFamily : NSInteger { MTLGPUFamilyApple7 = 1007, MTLGPUFamilyMetal3 = 5001 };
extern NSString* const MTLCommonCounterSetTimestamp;

@protocol MTLAllocation
@end
@protocol MTLResource <MTLAllocation>
@property(copy) NSString* label;
@end
@protocol MTLBuffer <MTLResource>
- (void*)contents;
@property(readonly) MTLGPUAddress gpuAddress;
@end
@protocol MTLFence
@end
@protocol MTLEvent
@end
@protocol MTLFunction
@end

@interface MTLCompileOptions : NSObject
@property BOOL fastMathEnabled;
@property MTLLanguageVersion languageVersion;
@end
@protocol MTLLibrary
- (id<MTLFunction>)newFunctionWithName:(NSString*)name;
@end

@protocol MTLComputePipelineState
@property(readonly) NSUInteger maxTotalThreadsPerThreadgroup;
@property(readonly) NSUInteger threadExecutionWidth;
@end
@class MTLComputePipelineReflection;
@interface MTLBinaryArchiveDescriptor : NSObject
@property(copy) NSURL* url;
@end
@class MTLComputePipelineDescriptor;
@protocol MTLBinaryArchive
- (BOOL)addComputePipelineFunctionsWithDescriptor:(MTLComputePipelineDescriptor*)descriptor error:(NSError**)error;
- (BOOL)serializeToURL:(NSURL*)url error:(NSError**)error;
@end
@interface MTLComputePipelineDescriptor : NSObject
@property(copy) NSString* label;
@property(strong) id<MTLFunction> computeFunction;
@property BOOL threadGroupSizeIsMultipleOfThreadExecutionWidth;
@property NSUInteger maxTotalThreadsPerThreadgroup;
@property BOOL supportIndirectCommandBuffers;
@property(copy) NSArray<id<MTLBinaryArchive>>* binaryArchives;
@end

@interface MTLIndirectCommandBufferDescriptor : NSObject
@property MTLIndirectCommandType commandTypes;
@property BOOL inheritPipelineState;
@property BOOL inheritBuffers;
@property NSUInteger maxKernelBufferBindCount;
@property NSUInteger maxKernelThreadgroupMemoryBindCount;
@end
@protocol MTLIndirectComputeCommand
- (void)setComputePipelineState:(id<MTLComputePipelineState>)pipeline;
- (void)setKernelBuffer:(id<MTLBuffer>)buffer offset:(NSUInteger)offset atIndex:(NSUInteger)index;
- (void)setThreadgroupMemoryLength:(NSUInteger)length atIndex:(NSUInteger)index;
- (void)concurrentDispatchThreadgroups:(MTLSize)threadgroups threadsPerThreadgroup:(MTLSize)threads;
- (void)setBarrier;
@end
@protocol MTLIndirectCommandBuffer <MTLResource>
- (id<MTLIndirectComputeCommand>)indirectComputeCommandAtIndex:(NSUInteger)index;
@end

@interface MTLResidencySetDescriptor : NSObject
@property NSUInteger initialCapacity;
@end
@protocol MTLResidencySet
- (void)addAllocation:(id<MTLAllocation>)allocation;
- (void)commit;
- (void)requestResidency;
@end

@protocol MTLCounterSet
@property(readonly, copy) NSString* name;
@end
@interface MTLCounterSampleBufferDescriptor : NSObject
@property(strong) id<MTLCounterSet> counterSet;
@property MTLStorageMode storageMode;
@property NSUInteger sampleCount;
@end
@protocol MTLCounterSampleBuffer
- (NSData*)resolveCounterRange:(NSRange)range;
@end
@interface MTLComputePassSampleBufferAttachmentDescriptor : NSObject
@property(strong) id<MTLCounterSampleBuffer> sampleBuffer;
@property NSUInteger startOfEncoderSampleIndex;
@property NSUInteger endOfEncoderSampleIndex;
@end
@interface MTLComputePassSampleBufferAttachmentDescriptorArray : NSObject
- (MTLComputePassSampleBufferAttachmentDescriptor*)objectAtIndexedSubscript:(NSUInteger)index;
@end
@interface MTLComputePassDescriptor : NSObject
@property(readonly) MTLComputePassSampleBufferAttachmentDescriptorArray* sampleBufferAttachments;
@end

@protocol MTLComputeCommandEncoder
- (void)useResources:(const id<MTLResource>[])resources count:(NSUInteger)count usage:(MTLResourceUsage)usage;
- (void)executeCommandsInBuffer:(id<MTLIndirectCommandBuffer>)buffer withRange:(NSRange)range;
- (void)waitForFence:(id<MTLFence>)fence;
- (void)updateFence:(id<MTLFence>)fence;
- (void)endEncoding;
@end
@protocol MTLBlitCommandEncoder
- (void)copyFromBuffer:(id<MTLBuffer>)source
          sourceOffset:(NSUInteger)sourceOffset
              toBuffer:(id<MTLBuffer>)destination
     destinationOffset:(NSUInteger)destinationOffset
                  size:(NSUInteger)size;
- (void)updateFence:(id<MTLFence>)fence;
- (void)endEncoding;
@end
@protocol MTLCommandBuffer
- (id<MTLBlitCommandEncoder>)blitCommandEncoder;
- (id<MTLComputeCommandEncoder>)computeCommandEncoderWithDispatchType:(MTLDispatchType)type;
- (id<MTLComputeCommandEncoder>)computeCommandEncoderWithDescriptor:(MTLComputePassDescriptor*)descriptor;
- (void)encodeWaitForEvent:(id<MTLEvent>)event value:(uint64_t)value;
- (void)encodeSignalEvent:(id<MTLEvent>)event value:(uint64_t)value;
- (void)useResidencySet:(id<MTLResidencySet>)set;
- (void)commit;
- (void)waitUntilCompleted;
@property(readonly) MTLCommandBufferStatus status;
@property(readonly) NSError* error;
@end
@protocol MTLCommandQueue
- (id<MTLCommandBuffer>)commandBuffer;
@end

@protocol MTLDevice
@property(readonly) NSString* name;
@property(readonly) uint64_t recommendedMaxWorkingSetSize;
@property(readonly) NSUInteger currentAllocatedSize;
@property(readonly) NSUInteger maxBufferLength;
@property(readonly) NSUInteger maxThreadgroupMemoryLength;
@property(readonly) NSArray<id<MTLCounterSet>>* counterSets;
- (BOOL)supportsFamily:(MTLGPUFamily)family;
- (BOOL)supportsCounterSampling:(MTLCounterSamplingPoint)point;
- (void)sampleTimestamps:(MTLTimestamp*)host gpuTimestamp:(MTLTimestamp*)gpu;
- (id<MTLCommandQueue>)newCommandQueue;
- (id<MTLEvent>)newEvent;
- (id<MTLFence>)newFence;
- (id<MTLBuffer>)newBufferWithLength:(NSUInteger)length options:(MTLResourceOptions)options;
- (id<MTLBuffer>)newBufferWithBytesNoCopy:(void*)bytes
                                   length:(NSUInteger)length
                                  options:(MTLResourceOptions)options
                              deallocator:(void (^)(void* bytes, NSUInteger length))deallocator;
- (id<MTLLibrary>)newLibraryWithSource:(NSString*)source options:(MTLCompileOptions*)options error:(NSError**)error;
- (id<MTLBinaryArchive>)newBinaryArchiveWithDescriptor:(MTLBinaryArchiveDescriptor*)descriptor error:(NSError**)error;
- (id<MTLComputePipelineState>)newComputePipelineStateWithDescriptor:(MTLComputePipelineDescriptor*)descriptor
                                                             options:(MTLPipelineOption)options
                                                          reflection:(MTLComputePipelineReflection**)reflection
                                                               error:(NSError**)error;
- (id<MTLIndirectCommandBuffer>)newIndirectCommandBufferWithDescriptor:(MTLIndirectCommandBufferDescriptor*)descriptor
                                                       maxCommandCount:(NSUInteger)count
                                                               options:(MTLResourceOptions)options;
- (id<MTLResidencySet>)newResidencySetWithDescriptor:(MTLResidencySetDescriptor*)descriptor error:(NSError**)error;
- (id<MTLCounterSampleBuffer>)newCounterSampleBufferWithDescriptor:(MTLCounterSampleBufferDescriptor*)descriptor
                                                             error:(NSError**)error;
@end

id<MTLDevice> MTLCreateSystemDefaultDevice(void);
