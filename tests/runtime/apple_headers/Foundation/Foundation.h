// What smelt uses of Apple's Foundation, declared anew: so that its Objective-C++ can be parsed where there is none
// (apple_parse_test.cpp). Nothing here is ever linked or run.
#pragma once

#include <stdint.h>

typedef unsigned long NSUInteger;
typedef long NSInteger;
#define nil nullptr
typedef signed char BOOL;
#define YES ((BOOL)1)
#define NO ((BOOL)0)
typedef NSUInteger NSStringEncoding;
enum : NSStringEncoding { NSUTF8StringEncoding = 4 };
typedef struct {
  NSUInteger location, length;
} NSRange;
NSRange NSMakeRange(NSUInteger location, NSUInteger length);

__attribute__((objc_root_class))
@interface NSObject
+ (instancetype)alloc;
+ (instancetype)new;
- (instancetype)init;
@end

typedef struct {
  unsigned long state;
  id __unsafe_unretained* itemsPtr;
  unsigned long* mutationsPtr;
  unsigned long extra[5];
} NSFastEnumerationState;
@protocol NSFastEnumeration
- (NSUInteger)countByEnumeratingWithState:(NSFastEnumerationState*)state
                                  objects:(id __unsafe_unretained*)buffer
                                    count:(NSUInteger)length;
@end

@interface NSString : NSObject
- (instancetype)initWithBytes:(const void*)bytes length:(NSUInteger)length encoding:(NSStringEncoding)encoding;
- (BOOL)isEqualToString:(NSString*)other;
@property(readonly) const char* UTF8String;
@end

@interface NSArray<ObjectType> : NSObject <NSFastEnumeration>
+ (instancetype)arrayWithObjects:(const ObjectType[])objects count:(NSUInteger)count;
@end

@interface NSError : NSObject
@property(readonly) NSString* localizedDescription;
@end

@interface NSURL : NSObject
+ (NSURL*)fileURLWithPath:(NSString*)path;
@end

@interface NSData : NSObject
+ (instancetype)dataWithBytes:(const void*)bytes length:(NSUInteger)length;
+ (instancetype)dataWithContentsOfURL:(NSURL*)url;
- (BOOL)writeToURL:(NSURL*)url atomically:(BOOL)atomically;
@property(readonly) const void* bytes;
@property(readonly) NSUInteger length;
@end

@interface NSProcessInfo : NSObject
@property(class, readonly) NSProcessInfo* processInfo;
@property(readonly) NSString* operatingSystemVersionString;
@end

NSString* NSTemporaryDirectory(void);
