#include "base/build_id.h"

#include <mach-o/dyld.h>
#include <mach-o/loader.h>

#include <cstring>
#include <span>

#include "base/hex.h"

namespace smelt {
namespace {

// Behind the header of the program stand its load commands, one of which holds the identity.
std::string id_of_program() {
  const auto* header = reinterpret_cast<const mach_header_64*>(::_dyld_get_image_header(0));
  const auto* at = reinterpret_cast<const std::byte*>(header + 1);
  for (uint32_t i = 0; i < header->ncmds; ++i) {
    load_command command;
    std::memcpy(&command, at, sizeof command);
    if (command.cmd == LC_UUID) {
      uuid_command id;
      std::memcpy(&id, at, sizeof id);
      return hex(std::as_bytes(std::span(id.uuid)));
    }
    at += command.cmdsize;
  }
  return {};
}

}  // namespace

const std::string& build_id() {
  static const std::string id = id_of_program();
  return id;
}

}  // namespace smelt
