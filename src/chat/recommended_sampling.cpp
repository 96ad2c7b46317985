#include "chat/recommended_sampling.h"

#include <cctype>
#include <string>

namespace smelt {
namespace {

struct Family {
  std::string_view sign;
  float temperature;
  int32_t top_k;
  float top_p, min_p, repeat_penalty;
};

constexpr Family kFamilies[] = {
#define FAMILY(sign, temperature, top_k, top_p, min_p, repeat_penalty) \
  {sign, temperature, top_k, top_p, min_p, repeat_penalty},
#include "chat/families.def"
#undef FAMILY
};

Result<std::string> name_of(const GgufFile& file) {
  SMELT_TRY(name, file.string_or("general.name", ""));
  SMELT_TRY(base, file.string_or("general.basename", ""));
  std::string all = std::string(name) + " " + std::string(base);
  for (char& c : all) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (c == ' ' || c == '_') c = '-';
  }
  return all;
}

Status read(const GgufFile& file, const char* key, std::optional<float>& into) {
  if (!file.has(key)) return {};
  SMELT_TRY(value, file.f64(key));
  into = static_cast<float>(value);
  return {};
}

}  // namespace

Result<RecommendedSampling> recommended_sampling(const GgufFile& file) {
  RecommendedSampling found;
  SMELT_TRY(name, name_of(file));
  for (const Family& family : kFamilies) {
    if (name.find(family.sign) == name.npos) continue;
    found = {family.temperature, family.top_p, family.min_p, family.repeat_penalty, family.top_k};
    break;
  }
  SMELT_CHECK(read(file, "general.sampling.temp", found.temperature));
  SMELT_CHECK(read(file, "general.sampling.top_p", found.top_p));
  SMELT_CHECK(read(file, "general.sampling.min_p", found.min_p));
  SMELT_CHECK(read(file, "general.sampling.penalty_repeat", found.repeat_penalty));
  if (file.has("general.sampling.top_k")) {
    SMELT_TRY(top_k, file.i64("general.sampling.top_k"));
    found.top_k = static_cast<int32_t>(top_k < 0 ? 0 : top_k > INT32_MAX ? INT32_MAX : top_k);
  }
  return found;
}

}  // namespace smelt
