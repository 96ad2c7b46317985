#include "gguf/file_type.h"

namespace smelt {

std::string_view file_type_name(uint64_t file_type) {
  switch (file_type) {
#define FILE_TYPE(number, name) \
  case number: return name;
#include "gguf/file_types.def"
#undef FILE_TYPE
    default: return "";
  }
}

}  // namespace smelt
