#include "hub/address_kind.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstdint>
#include <cstring>

namespace smelt {
namespace {

AddressKind kind_of_v4(uint32_t a) {
  const uint32_t first = a >> 24, second = a >> 16 & 0xFF;
  if (first == 127) return AddressKind::Loopback;
  if (first == 0 || first >= 224 || (first == 169 && second == 254)) return AddressKind::Local;
  const bool is_shared = first == 100 && second >= 64 && second < 128;
  if (first == 10 || (first == 172 && second >= 16 && second < 32) || (first == 192 && second == 168) || is_shared)
    return AddressKind::Private;
  return AddressKind::Public;
}

uint32_t word_at(const unsigned char* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

AddressKind kind_of_v6(const in6_addr& a) {
  const unsigned char* b = a.s6_addr;
  if (IN6_IS_ADDR_LOOPBACK(&a)) return AddressKind::Loopback;
  if (IN6_IS_ADDR_V4MAPPED(&a)) return kind_of_v4(word_at(b + 12));
  if (b[0] == 0x00 && b[1] == 0x64 && b[2] == 0xFF && b[3] == 0x9B) return kind_of_v4(word_at(b + 12));  // NAT64
  if (b[0] == 0x20 && b[1] == 0x02) return kind_of_v4(word_at(b + 2));                                   // 6to4
  if ((b[0] & 0xFE) == 0xFC) return AddressKind::Private;
  return (b[0] & 0xE0) == 0x20 ? AddressKind::Public : AddressKind::Local;
}

}  // namespace

AddressKind kind_of(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, &address, sizeof v4);
    return kind_of_v4(ntohl(v4.sin_addr.s_addr));
  }
  if (address.sa_family != AF_INET6) return AddressKind::Local;
  sockaddr_in6 v6;
  std::memcpy(&v6, &address, sizeof v6);
  return kind_of_v6(v6.sin6_addr);
}

}  // namespace smelt
