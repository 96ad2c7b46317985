#include "base/build_id.h"

#include <elf.h>
#include <link.h>

#include <cstring>
#include <span>
#include <string_view>

#include "base/hex.h"

namespace smelt {
namespace {

constexpr size_t aligned(size_t n) { return (n + 3) / 4 * 4; }

// The build id among the notes of a segment: entries of name and content, each padded to words.
std::string_view id_in_notes(std::string_view notes) {
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    std::memcpy(&header, notes.data(), sizeof header);
    notes.remove_prefix(sizeof header);
    const size_t name = aligned(header.n_namesz), content = aligned(header.n_descsz);
    if (name + content > notes.size()) return {};
    if (header.n_type == NT_GNU_BUILD_ID && notes.substr(0, 3) == "GNU") return notes.substr(name, header.n_descsz);
    notes.remove_prefix(name + content);
  }
  return {};
}

// The first object is the program itself.
int find_in_first(dl_phdr_info* object, size_t, void* out) {
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const auto* notes = reinterpret_cast<const char*>(object->dlpi_addr + segment.p_vaddr);
    const std::string_view id = id_in_notes({notes, segment.p_filesz});
    if (!id.empty()) *static_cast<std::string*>(out) = hex(std::as_bytes(std::span(id)));
  }
  return 1;
}

}  // namespace

const std::string& build_id() {
  static const std::string id = [] {
    std::string found;
    ::dl_iterate_phdr(find_in_first, &found);
    return found;
  }();
  return id;
}

}  // namespace smelt
