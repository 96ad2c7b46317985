// WindowPages: which pages of the cache also have rows in layers with a window, and which rows. Such layers need few of
// a sequence's rows, so their buffers have room for few pages, by numbers of their own: local pages. It keeps numbers
// alone, as PagePool does, which knows whose pages they are.
//
// Sequences hold the local pages that their next token may see. Those that nobody holds stay while there is room; then
// the one goes that was let go of longest ago, of those that are kept as late as possible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <tuple>
#include <vector>

namespace smelt {

// How much of the cache layers with a window have.
struct WindowSize {
  int64_t positions = 0;  // that a token sees, its own included; 0: no layer has a window
  int64_t pages = 0;      // local ones: for all that sequences hold at a time, and one that is copied
};

class WindowPages {
 public:
  static constexpr int32_t kNone = -1;

  // `pages`: of the cache.
  WindowPages(const WindowSize& size, int64_t pages);

  bool is_used() const { return size_.positions > 0; }
  int64_t pages() const { return size_.pages; }
  // The first position that a token at `position` sees.
  int64_t first_seen(int64_t position) const { return position < size_.positions ? 0 : position - size_.positions + 1; }

  int32_t of(int32_t page) const { return entry(page).local; }  // kNone: it has none
  bool is_there(int32_t page) const { return of(page) != kNone; }

  // A page gets a local one, with one holder. REQUIRES: it has none; not all local pages are held.
  void take(int32_t page);
  // One holder more, and one less. REQUIRES: the page has a local one; it is held.
  void hold(int32_t page);
  void let_go(int32_t page);
  // The local page, if there is one, goes after those that are not kept.
  void keep(int32_t page);
  // The page belongs to nobody any more. REQUIRES: nobody holds its local one.
  void forget(int32_t page);
  // Both have the same rows: the local page of `from`, if there is one, becomes that of `to`, if that has none.
  // REQUIRES: nobody holds it.
  void give(int32_t from, int32_t to);

 private:
  struct Entry {
    int32_t local = kNone;
    int holders = 0;
    bool is_kept = false;
    uint64_t last_use = 0;
  };
  using Place = std::tuple<bool, uint64_t, int32_t>;  // is_kept, last_use, page

  Entry& entry(int32_t page) { return entries_[static_cast<size_t>(page)]; }
  const Entry& entry(int32_t page) const { return entries_[static_cast<size_t>(page)]; }
  Place place(int32_t page) const { return {entry(page).is_kept, entry(page).last_use, page}; }
  void change_holders(int32_t page, int by);
  int32_t take_number();

  WindowSize size_;
  std::vector<Entry> entries_;  // by page
  std::vector<int32_t> free_;   // local pages
  std::set<Place> order_;       // pages whose local ones nobody holds, those that go first in front
  uint64_t clock_ = 0;
};

}  // namespace smelt
