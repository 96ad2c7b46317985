#include "gguf/shards.h"

#include <cstdio>

namespace smelt {
namespace {

constexpr std::string_view kPattern = "-00000-of-00000.gguf";  // 0 stands for any digit

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool matches(std::string_view text) {
  for (size_t i = 0; i < kPattern.size(); ++i) {
    if (kPattern[i] == '0' ? !is_digit(text[i]) : text[i] != kPattern[i]) return false;
  }
  return true;
}

uint32_t five_digits(std::string_view text) {
  uint32_t value = 0;
  for (char c : text.substr(0, 5)) value = value * 10 + static_cast<uint32_t>(c - '0');
  return value;
}

}  // namespace

std::string ShardName::path_of(uint32_t shard) const {
  char suffix[40];
  std::snprintf(suffix, sizeof suffix, "-%05u-of-%05u.gguf", shard, count);
  return stem + suffix;
}

std::optional<ShardName> parse_shard_name(std::string_view path) {
  if (path.size() < kPattern.size()) return std::nullopt;
  const std::string_view suffix = path.substr(path.size() - kPattern.size());
  if (!matches(suffix)) return std::nullopt;
  ShardName name = {.stem = std::string(path.substr(0, path.size() - kPattern.size())),
                    .number = five_digits(suffix.substr(1)),
                    .count = five_digits(suffix.substr(10))};
  if (name.number == 0 || name.number > name.count) return std::nullopt;
  return name;
}

}  // namespace smelt
