// TextTable: from strings, kept elsewhere, to their numbers. A flat hash table, because loading a
// large vocabulary asks it a million questions.
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace smelt {

class TextTable {
 public:
  // `count`: how many texts will be added at most.
  explicit TextTable(size_t count = 0) : slots_(std::bit_ceil(count * 2 + 1)) {}

  // Returns the id that the text has already, or nothing and then it has `id`. The text must
  // outlive the table. REQUIRES: id >= 0.
  std::optional<int32_t> add(std::string_view text, int32_t id) {
    Slot& slot = slots_[position_of(text)];
    if (slot.id >= 0) return slot.id;
    slot = {text, id};
    return std::nullopt;
  }

  std::optional<int32_t> find(std::string_view text) const {
    const Slot& slot = slots_[position_of(text)];
    return slot.id >= 0 ? std::optional(slot.id) : std::nullopt;
  }

 private:
  struct Slot {
    std::string_view text;
    int32_t id = -1;
  };

  // Of the text, or of the free slot where it would go; there is always one.
  size_t position_of(std::string_view text) const {
    size_t mask = slots_.size() - 1;
    size_t pos = std::hash<std::string_view>{}(text)&mask;
    while (slots_[pos].id >= 0 && slots_[pos].text != text) pos = (pos + 1) & mask;
    return pos;
  }

  std::vector<Slot> slots_;
};

}  // namespace smelt
