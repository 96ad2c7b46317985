#include "base/dtype.h"

#include <array>

namespace smelt {
namespace {

struct Row {
  std::string_view text;
  int bytes;
  char kind;
};

constexpr std::array kRows{
#define DTYPE(name, text, bytes, kind) Row{text, bytes, kind},
#include "base/dtypes.def"
#undef DTYPE
};

const Row& row(DType dtype) { return kRows[static_cast<size_t>(dtype)]; }

}  // namespace

std::string_view name_of(DType dtype) { return row(dtype).text; }
int size_of(DType dtype) { return row(dtype).bytes; }
bool is_float(DType dtype) { return row(dtype).kind == 'f'; }
bool is_int(DType dtype) { return row(dtype).kind == 's' || row(dtype).kind == 'u'; }
bool is_signed_int(DType dtype) { return row(dtype).kind == 's'; }

std::optional<DType> dtype_from_name(std::string_view text) {
  for (size_t i = 0; i < kRows.size(); ++i)
    if (kRows[i].text == text) return static_cast<DType>(i);
  return std::nullopt;
}

}  // namespace smelt
