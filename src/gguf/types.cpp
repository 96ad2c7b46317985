#include "gguf/types.h"

#include "base/ensure.h"

namespace smelt {
namespace {

enum class Support { no, yes };

constexpr GgufTypeInfo kTypes[] = {
#define GGUF_TYPE(id, name, elements, bytes, support) \
  {GgufType::name, #name, elements, bytes, Support::support == Support::yes},
#include "gguf/types.def"
#undef GGUF_TYPE
};

}  // namespace

const GgufTypeInfo* find_type(uint32_t id) {
  for (const GgufTypeInfo& info : kTypes) {
    if (static_cast<uint32_t>(info.type) == id) return &info;
  }
  return nullptr;
}

const GgufTypeInfo& info_of(GgufType type) {
  const GgufTypeInfo* info = find_type(static_cast<uint32_t>(type));
  ENSURE(info != nullptr, "a tensor type that is not in types.def");
  return *info;
}

std::string_view name_of(GgufType type) { return info_of(type).name; }

std::optional<GgufType> gguf_type_from_name(std::string_view name) {
  for (const GgufTypeInfo& info : kTypes) {
    if (info.name == name) return info.type;
  }
  return std::nullopt;
}

}  // namespace smelt
