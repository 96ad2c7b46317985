// Byte-pair encoding of one word: its bytes (or its characters, see BpeModel) are symbols, and the merge of lowest rank
// that applies, the leftmost first, is applied until none does.
//
//   "lower"  l o w e r -> l ow e r -> low e r -> low er -> lower
//
// Time is linear in the length of the word and memory constant, whatever the word: see encode_word
// in bpe.cpp.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/text_table.h"

namespace smelt {

// The merges of a vocabulary: pairs of ids to rank and merged id. Open addressing, as it is read
// for every byte.
class MergeTable {
 public:
  struct Merge {
    uint32_t rank = kNone;
    int32_t id = -1;  // what the pair becomes
  };
  static constexpr uint32_t kNone = UINT32_MAX;

  explicit MergeTable(size_t count = 0);
  // The first merge of a pair stands. REQUIRES: ids >= 0, no more calls than `count`.
  void add(int32_t left, int32_t right, Merge merge);
  Merge find(int32_t left, int32_t right) const;  // rank kNone where the two do not merge

 private:
  struct Slot {
    uint64_t pair = kFree;
    Merge merge;
  };
  static constexpr uint64_t kFree = UINT64_MAX;
  size_t position_of(uint64_t pair) const;

  std::vector<Slot> slots_;
  int shift_;
};

// What encoding needs besides the word; built once, then only read.
struct BpeModel {
  std::array<int32_t, 256> byte_ids{};  // token of each byte; -1: none, the byte is dropped
  MergeTable merges;

  // For vocabularies of characters (sentencepiece.h). A word is cut into these; what merging leaves that is no token,
  // and a character that is not listed, becomes the tokens of its bytes or, where one has none, `unknown`, once for all
  // that follow each other.
  struct Characters {
    TextTable ids;         // of each character; those from `size` on are no tokens, but parts of some
    int32_t size = 0;      // of the vocabulary
    int32_t unknown = -1;  // -1: dropped
  };
  std::optional<Characters> characters;
};

// Reused from word to word, so that encoding does not allocate for each.
class BpeEncoder {
 public:
  // When `cancel` becomes true, words and what is left of one are passed over.
  explicit BpeEncoder(const BpeModel& model, size_t window = kWindow, const std::atomic<bool>* cancel = nullptr)
      : model_(&model), window_(window), cancel_(cancel) {}

  // Appends the tokens of the word to `out`.
  void encode_word(std::string_view word, std::vector<int32_t>& out);

  // Words longer than this many bytes are encoded window by window.
  static constexpr size_t kWindow = 8192;

 private:
  struct Symbol {
    int32_t id;
    uint32_t prev, next;
    MergeTable::Merge merge;  // with the next symbol
    uint32_t end;             // in the word, of its last byte
  };

  bool is_cancelled() const { return cancel_ && cancel_->load(std::memory_order_relaxed); }
  bool encode_in_windows(std::string_view word, std::vector<int32_t>& out);
  void append_bytes(std::string_view bytes, std::vector<int32_t>& out);
  // The tokens of the symbols up to `limit` bytes: where they end, and the symbol that follows (or kEnd).
  std::pair<size_t, uint32_t> append_symbols(std::string_view word, size_t limit, std::vector<int32_t>& out);
  void cut_into_symbols(std::string_view word);
  void merge_all(std::string_view word);
  void look_up_merge(uint32_t at);
  void push(uint32_t rank, uint32_t at);
  uint64_t pop();

  const BpeModel* model_;
  size_t window_;
  const std::atomic<bool>* cancel_;
  bool after_unknown_ = false;   // the last thing appended was the unknown token
  std::vector<Symbol> symbols_;  // after merge_all: a list of tokens through `next`, from 0
  std::vector<uint64_t> queue_;  // heap of rank << 32 | symbol; entries may be stale
};

}  // namespace smelt
