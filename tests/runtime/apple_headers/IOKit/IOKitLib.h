// What smelt uses of Apple's IOKit and CoreFoundation, declared anew; see ../Foundation/Foundation.h.
#pragma once

#include <stdint.h>

typedef unsigned int mach_port_t, io_object_t, io_service_t, io_registry_entry_t;
typedef int kern_return_t;
typedef const void* CFTypeRef;
typedef const struct __CFString* CFStringRef;
typedef const struct __CFNumber* CFNumberRef;
typedef const struct __CFAllocator* CFAllocatorRef;
typedef struct __CFDictionary* CFMutableDictionaryRef;
typedef const struct __CFDictionary* CFDictionaryRef;
typedef unsigned long CFTypeID;
typedef long CFNumberType;
typedef uint32_t IOOptionBits;
enum : CFNumberType { kCFNumberIntType = 9 };

#define CFSTR(text) ((CFStringRef)__builtin___CFStringMakeConstantString(text))

extern "C" {
extern const mach_port_t kIOMainPortDefault;
extern const CFAllocatorRef kCFAllocatorDefault;
CFTypeID CFGetTypeID(CFTypeRef object);
CFTypeID CFNumberGetTypeID(void);
bool CFNumberGetValue(CFNumberRef number, CFNumberType type, void* value);
void CFRelease(CFTypeRef object);
CFMutableDictionaryRef IOServiceMatching(const char* name);
io_service_t IOServiceGetMatchingService(mach_port_t port, CFDictionaryRef matching);
CFTypeRef IORegistryEntryCreateCFProperty(io_registry_entry_t entry, CFStringRef key, CFAllocatorRef allocator,
                                          IOOptionBits options);
kern_return_t IOObjectRelease(io_object_t object);
}
