// What smelt uses of Apple's header of this name, written from Apple's documentation.
#pragma once

#include <cstdint>

typedef int kern_return_t;
typedef int integer_t;
typedef unsigned natural_t;
typedef unsigned mach_port_t;
typedef natural_t mach_msg_type_number_t;
typedef integer_t host_flavor_t;
typedef integer_t* host_info64_t;

#define KERN_SUCCESS 0
#define HOST_VM_INFO64 4

struct vm_statistics64_data_t {
  natural_t free_count, active_count, inactive_count, wire_count;
};
#define HOST_VM_INFO64_COUNT ((mach_msg_type_number_t)(sizeof(vm_statistics64_data_t) / sizeof(integer_t)))

extern "C" mach_port_t mach_host_self();
extern "C" kern_return_t host_statistics64(mach_port_t host, host_flavor_t flavor, host_info64_t info,
                                           mach_msg_type_number_t* count);
