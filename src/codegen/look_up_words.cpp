// Words looked up by the bytes of a word, all four at once. Processors pick bytes from a table in registers many times
// faster than they gather words from memory.
//
//   lut(and(shr(w, 8 j), 255), words)  ->  byte j of lut4(w, byte 0 of words), of lut4(w, byte 1 of words), ...
//
// The four bytes of an entry are then put side by side by turning a square of 4 x 4 bytes, which the four entries
// share. A table of more than 256 words is several, of which the bits above the byte choose.
//
// Where an instruction picks from a whole register, by six bits of a byte, nibbles need no mask:
//
//   lut4(and(w, 0x0F0F0F0F), 16 bytes)  ->  lut4(w, the same bytes 16 times)
#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <optional>
#include <span>

#include "codegen/passes.h"
#include "graph/operands.h"
#include "graph/rules_algebra.h"
#include "graph/views.h"

namespace smelt {
namespace {

constexpr size_t kEntries = 256;    // that a byte tells apart
constexpr size_t kMost = 2;         // tables of as many words: with more of them a gather is as fast
constexpr size_t kFewest = 3;       // bytes of a word that are looked up: fewer are not worth all four
constexpr size_t kFewEntries = 16;  // that a nibble tells apart
constexpr int64_t kLowNibbles = 0x0F0F0F0F;
constexpr int64_t kEven = 0x00FF00FF, kOdd = 0xFF00FF00, kLow = 0x0000FFFF, kHigh = 0xFFFF0000;

Ref word(int64_t value) { return constant(value, DType::U32); }
Ref masked(Ref x, int64_t mask) { return binary(Op::And, x, word(mask)); }
Ref up(Ref x, int64_t by) { return binary(Op::Shl, x, word(by)); }
Ref down(Ref x, int64_t by) { return binary(Op::Shr, x, word(by)); }
Ref either(Ref x, Ref y) { return binary(Op::Or, x, y); }

// Without casts that keep the number.
Ref plain(Ref n) {
  while (n->op == Op::Cast) {
    const Ref x = operand_of(n);
    if (!is_int(x->dtype) || x->min < n->min || x->max > n->max) break;
    n = x;
  }
  return n;
}

struct ByteOfWord {
  Ref word;  // u32
  int byte;
};

// and(shr(word, 8 * byte), 255), or shr(word, 24) where that is the same
std::optional<ByteOfWord> byte_of_word(Ref index) {
  Ref x = plain(index);
  if (size_of(x->dtype) != 4 || x->min < 0 || x->max > 255) return std::nullopt;
  const bool is_masked = x->op == Op::And;
  if (is_masked && !is_const(BinaryView(x).y, 255)) return std::nullopt;
  if (is_masked) x = BinaryView(x).x;
  int64_t by = 0;
  if (x->op == Op::Shr)
    if (const auto amount = const_int(BinaryView(x).y)) by = *amount, x = BinaryView(x).x;
  if (by % 8 != 0 || by > 24 || !(is_masked || by == 24)) return std::nullopt;
  return ByteOfWord{x->dtype == DType::U32 ? x : bitcast(x, DType::U32), static_cast<int>(by / 8)};
}

struct Index {
  ByteOfWord low;
  Ref high;  // above that byte; null: nothing
};

// A byte of a word, or or(byte, shl(high, 8)).
std::optional<Index> index_of(Ref n) {
  if (const auto low = byte_of_word(n)) return Index{*low, {}};
  const Ref both = plain(n);
  if (both->op != Op::Or) return std::nullopt;
  const auto [low, moved] = BinaryView(both);
  const auto byte = byte_of_word(low);
  if (!byte || moved->op != Op::Shl || !is_const(BinaryView(moved).y, 8)) return std::nullopt;
  return Index{*byte, BinaryView(moved).x};
}

bool fills_vectors(Ref x, const Machine& machine) {
  for (Ref r : ranges_of(x))
    if (kind_of(r) == RangeKind::Lane && is_const(RangeView(r).size, machine.vector_bytes / 4)) return true;
  return false;
}

// What the table has no entry for is no index, and may become anything.
Ref without_mask(Ref n, const Machine& machine) {
  if (n->op != Op::Lut4 || n->arg.list.size() > kFewEntries || !fills_vectors(n, machine)) return n;
  const Ref index = operand_of(n);
  if (index->op != Op::And || !is_const(BinaryView(index).y, kLowNibbles)) return n;
  std::vector<int64_t> table(kEntries, 0);
  for (size_t i = 0; i < kEntries; ++i)
    if (i % kFewEntries < n->arg.list.size()) table[i] = n->arg.list[i % kFewEntries];
  return make(Op::Lut4, DType::U32, {BinaryView(index).x}, {.list = std::move(table)});
}

// Byte `byte` of the entries, by each byte of w. What is no index is whatever.
Ref look_up_bytes(Ref w, const std::vector<int64_t>& words, int byte) {
  std::vector<int64_t> table(kEntries, 0);
  for (size_t i = 0; i < words.size(); ++i) table[i] = words[i] >> (8 * byte) & 255;
  if (std::ranges::count(table, table[0]) == static_cast<std::ptrdiff_t>(kEntries)) return word(table[0] * 0x01010101);
  return make(Op::Lut4, DType::U32, {w}, {.list = std::move(table)});
}

// The words that bytes 0, 1, 2 and 3 of w stand for.
std::array<Ref, 4> look_up(Ref w, const std::vector<int64_t>& words) {
  std::array<Ref, 4> bytes;
  for (int i = 0; i < 4; ++i) bytes[static_cast<size_t>(i)] = look_up_bytes(w, words, i);
  // Bytes 0 and 1, then 2 and 3, of the entries of even places, and of odd ones.
  const Ref low_even = either(masked(bytes[0], kEven), up(masked(bytes[1], kEven), 8)),
            low_odd = either(masked(down(bytes[0], 8), kEven), masked(bytes[1], kOdd)),
            high_even = either(masked(bytes[2], kEven), up(masked(bytes[3], kEven), 8)),
            high_odd = either(masked(down(bytes[2], 8), kEven), masked(bytes[3], kOdd));
  return {either(masked(low_even, kLow), up(high_even, 16)), either(masked(low_odd, kLow), up(high_odd, 16)),
          either(down(low_even, 16), masked(high_even, kHigh)), either(down(low_odd, 16), masked(high_odd, kHigh))};
}

// The tables of 256 words that a long one consists of; at least one.
std::vector<std::vector<int64_t>> parts_of(const std::vector<int64_t>& words) {
  std::vector<std::vector<int64_t>> parts;
  for (size_t at = 0; at < words.size(); at += kEntries) {
    const auto begin = words.begin() + static_cast<std::ptrdiff_t>(at);
    parts.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(std::min(kEntries, words.size() - at)));
  }
  return parts;
}

// The word of part `high`, among which each bit of it chooses a half.
Ref choose(Ref high, std::span<const Ref> parts) {
  if (parts.size() == 1) return parts[0];
  const size_t half = std::bit_floor(parts.size() - 1);
  const Ref bit = binary(Op::And, high, constant(static_cast<int64_t>(half), high->dtype));
  return where(binary(Op::Lt, constant(0, high->dtype), bit), choose(high, parts.subspan(half)),
               choose(high, parts.first(half)));
}

class WordLookUps {
 public:
  explicit WordLookUps(const Machine& machine) : machine_(machine) {}

  void count(Ref n) {
    if (const auto found = of(n)) ++uses_[{found->low.word, n->arg.list}];
  }

  Ref replaced(Ref n) {
    const auto found = of(n);
    if (!found) return n;
    const Key key{found->low.word, n->arg.list};
    if (const auto uses = uses_.find(key); uses == uses_.end() || uses->second < kFewest) return n;
    auto [at, is_new] = done_.try_emplace(key);
    if (is_new)
      for (const std::vector<int64_t>& part : parts_of(n->arg.list))
        at->second.push_back(look_up(found->low.word, part));
    Refs words;
    for (const auto& part : at->second) words.push_back(part[static_cast<size_t>(found->low.byte)]);
    return choose(found->high, words);
  }

 private:
  using Key = std::pair<Ref, std::vector<int64_t>>;
  struct Less {
    bool operator()(const Key& x, const Key& y) const {
      return x.first.get() != y.first.get() ? x.first.get() < y.first.get() : x.second < y.second;
    }
  };

  std::optional<Index> of(Ref n) const {
    if (n->op != Op::Lut || n->dtype != DType::U32 || n->arg.list.size() > kMost * kEntries) return std::nullopt;
    if (!fills_vectors(n, machine_)) return std::nullopt;
    const auto index = index_of(operand_of(n));
    const bool is_long = n->arg.list.size() > kEntries;
    return index && is_long == bool(index->high) ? index : std::nullopt;
  }

  const Machine& machine_;
  std::map<Key, size_t, Less> uses_;
  std::map<Key, std::vector<std::array<Ref, 4>>, Less> done_;  // of each part
};

}  // namespace

Refs look_up_words(const Refs& stores, const Machine& machine) {
  if (machine.table_bytes == 0 || machine.has_threads()) return stores;
  WordLookUps look_ups(machine);
  Refs out;
  for (Ref s : stores) {
    for (Ref n : toposort(s)) look_ups.count(n);
    out.push_back(rebuild(s, [&](Ref, Ref n) { return without_mask(look_ups.replaced(n), machine); }));
  }
  return out;
}

}  // namespace smelt
