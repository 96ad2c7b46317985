#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "text/utf8.h"

namespace smelt {
namespace {

constexpr uint32_t kEnd = UINT32_MAX;  // no symbol
constexpr size_t kLongestWhole = size_t{1} << 31;

uint64_t pair_key(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

}  // namespace

MergeTable::MergeTable(size_t count) : slots_(std::bit_ceil(count + count / 2 + 2)) {
  shift_ = 64 - std::countr_zero(slots_.size());
}

size_t MergeTable::position_of(uint64_t pair) const {
  size_t pos = (pair * 0x9E3779B97F4A7C15ull) >> shift_;
  while (slots_[pos].pair != kFree && slots_[pos].pair != pair) pos = (pos + 1) & (slots_.size() - 1);
  return pos;
}

void MergeTable::add(int32_t left, int32_t right, Merge merge) {
  Slot& slot = slots_[position_of(pair_key(left, right))];
  if (slot.pair == kFree) slot = {pair_key(left, right), merge};
}

MergeTable::Merge MergeTable::find(int32_t left, int32_t right) const {
  return slots_[position_of(pair_key(left, right))].merge;
}

// A long word is encoded in windows, so that a run of 64 MiB of one character takes 64 times as
// long as one of 1 MiB and no more memory. The result is the same as that of the whole word,
// because of this:
//
//   Let A and B be words whose encodings are a1..am and b1..bn. If am b1 is the encoding of their
//   bytes together, then that of AB is a1..am b1..bn.
//   Proof: otherwise take the first merge across the border. Before it, the bytes of am and of b1
//   changed only among themselves, by the same steps in the same order as if these bytes stood
//   alone; so it would also occur there. But there no merge crosses the border.
//
// And two neighbours in any encoding are the encoding of their bytes together, by the same
// argument. So a window may be cut at any border between tokens, if the next window, which begins
// at this border, begins with the very token that followed it before. It practically always does: a
// border depends on what is far to the right only in made-up vocabularies. There the word is
// encoded as a whole, with the queue's logarithm.
void BpeEncoder::encode_word(std::string_view word, std::vector<int32_t>& out) {
  if (is_cancelled()) return;
  after_unknown_ = false;
  if (word.size() > window_) {
    size_t begin = out.size();
    if (encode_in_windows(word, out)) return;
    out.resize(begin);
    after_unknown_ = false;
  }
  // In parts, as positions have 32 bits; no machine gets that far.
  for (; !word.empty(); word.remove_prefix(std::min(word.size(), kLongestWhole))) {
    merge_all(word.substr(0, kLongestWhole));
    append_symbols(word, kLongestWhole, out);
  }
}

void BpeEncoder::append_bytes(std::string_view bytes, std::vector<int32_t>& out) {
  const auto id_of = [&](char byte) { return model_->byte_ids[static_cast<uint8_t>(byte)]; };
  if (std::all_of(bytes.begin(), bytes.end(), [&](char byte) { return id_of(byte) >= 0; })) {
    for (const char byte : bytes) out.push_back(id_of(byte));
    after_unknown_ = false;
    return;
  }
  const int32_t unknown = model_->characters->unknown;
  if (unknown >= 0 && !after_unknown_) out.push_back(unknown);
  after_unknown_ = true;
}

std::pair<size_t, uint32_t> BpeEncoder::append_symbols(std::string_view word, size_t limit, std::vector<int32_t>& out) {
  const int32_t size = model_->characters ? model_->characters->size : INT32_MAX;
  size_t begin = 0;
  uint32_t at = symbols_.empty() ? kEnd : 0;
  for (; at != kEnd && symbols_[at].end <= limit; at = symbols_[at].next) {
    const Symbol& symbol = symbols_[at];
    if (symbol.id >= 0 && symbol.id < size) {
      out.push_back(symbol.id);
      after_unknown_ = false;
    } else {
      append_bytes(word.substr(begin, symbol.end - begin), out);
    }
    begin = symbol.end;
  }
  return {begin, at};
}

bool BpeEncoder::encode_in_windows(std::string_view word, std::vector<int32_t>& out) {
  int32_t expected = -1;  // the first token of this window; -1 also for a character that merges with nothing
  for (size_t begin = 0; begin < word.size() && !is_cancelled();) {
    std::string_view window = word.substr(begin, window_);
    bool last = begin + window.size() == word.size();
    merge_all(window);
    if (symbols_.empty()) return false;
    if (expected >= 0 && symbols_[0].id != expected) return false;
    // Keeping a quarter of the window as context to the right of the cut.
    size_t limit = last ? window.size() : window.size() - window.size() / 4;
    const auto [cut, at] = append_symbols(window, limit, out);
    if (last) return true;
    if (cut == 0 || at == kEnd) return false;  // one token fills the window
    expected = symbols_[at].id;
    begin += cut;
  }
  return true;
}

void BpeEncoder::look_up_merge(uint32_t at) {
  Symbol& symbol = symbols_[at];
  symbol.merge = symbol.next == kEnd ? MergeTable::Merge{} : model_->merges.find(symbol.id, symbols_[symbol.next].id);
  if (symbol.merge.rank != MergeTable::kNone) push(symbol.merge.rank, at);
}

void BpeEncoder::push(uint32_t rank, uint32_t at) {
  queue_.push_back(uint64_t{rank} << 32 | at);
  std::push_heap(queue_.begin(), queue_.end(), std::greater<>());
}

uint64_t BpeEncoder::pop() {
  std::pop_heap(queue_.begin(), queue_.end(), std::greater<>());
  uint64_t top = queue_.back();
  queue_.pop_back();
  return top;
}

void BpeEncoder::cut_into_symbols(std::string_view word) {
  symbols_.clear();
  const auto add = [&](int32_t id, size_t end) {
    const uint32_t at = static_cast<uint32_t>(symbols_.size());
    symbols_.push_back({id, at == 0 ? kEnd : at - 1, at + 1, {}, static_cast<uint32_t>(end)});
  };
  if (!model_->characters) {
    for (size_t i = 0; i < word.size(); ++i)
      if (const int32_t id = model_->byte_ids[static_cast<uint8_t>(word[i])]; id >= 0) add(id, i + 1);
    return;
  }
  for (size_t pos = 0; pos < word.size();) {
    const std::string_view character = word.substr(pos, utf8_at(word, pos).length);
    pos += character.size();
    add(model_->characters->ids.find(character).value_or(-1), pos);
  }
}

void BpeEncoder::merge_all(std::string_view word) {
  queue_.clear();
  cut_into_symbols(word);
  if (symbols_.empty()) return;
  symbols_.back().next = kEnd;
  for (uint32_t at = 0; at < symbols_.size(); ++at) look_up_merge(at);
  while (!queue_.empty()) {
    uint64_t top = pop();
    uint32_t at = static_cast<uint32_t>(top);
    Symbol& left = symbols_[at];
    // Stale: the symbol was merged away, or its neighbour changed and it has another merge now.
    if (left.merge.rank != top >> 32) continue;
    Symbol& right = symbols_[left.next];
    left.id = left.merge.id;
    left.end = right.end;
    left.next = right.next;
    right.merge = {};
    if (left.next != kEnd) symbols_[left.next].prev = at;
    look_up_merge(at);
    if (left.prev != kEnd) look_up_merge(left.prev);
  }
}

}  // namespace smelt
