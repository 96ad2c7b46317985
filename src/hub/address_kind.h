// Which network an address belongs to: a redirect must not lead from a public server to a machine behind our doors.
#pragma once

#include <sys/socket.h>

namespace smelt {

enum class AddressKind { Public, Private, Loopback, Local };  // Local: link-local, unspecified, multicast, others

AddressKind kind_of(const sockaddr& address);

}  // namespace smelt
