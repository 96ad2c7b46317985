// PagePool: which pages of the cache belong to whom. It keeps numbers alone; the rows lie in memory of the device.
//
// A page is some rows of the cache that lie together. Sequences that begin with the same tokens share pages: one that
// is full is published under the page before it, so that published pages are a tree of tokens, in which what a new
// sequence begins with is looked up; sequences of different owners have different trees. A page that nobody uses any
// more stays published until its room is needed; then the one that was not used for longest goes, the last of its line
// first.
//
// Only one sequence writes to a page: one that others use is copied before, and one that is published is withdrawn.
//
// Of a model with recurrent states a sequence can only go on where the state behind its tokens is there. A published
// page may keep the one behind its last token: keep_state() at the end of a whole page, release() where a sequence
// ends. Then find() and rewind() stop at such a place, or go back to the begin. A sequence itself has the states behind
// the tokens that it has got last, each with a place of its own, so that drafts can be taken back one by one:
// keep_states() says how many.
//
// So they do for a model whose layers have windows, at places whose last window is there: all pages that the next token
// sees there have local pages (window_pages.h). A sequence holds those of its window, of a page in front of it, which
// drafts that are taken back need, and of what a run is about to write.
//
// Rows that are not to be trusted, as they are no finite numbers, are never published: distrust().
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "engine/state_pool.h"
#include "engine/window_pages.h"
#include "model/segment.h"

namespace smelt {

// A token as the cache knows it. The bits of its row depend on the tokens before it, on its number, and on how it came:
// those of a prompt and generated ones are computed by different graphs.
struct CachedToken {
  int32_t id = 0;
  bool is_generated = false;
  bool operator==(const CachedToken&) const = default;
};

// Which rows a new sequence may begin with.
struct PrefixReuse {
  // Those of generated tokens, too. The sequence gets the bits of one that came by its beginning in the same way; with
  // rows of prompts alone it gets those of an empty cache.
  bool generated = true;
  uint64_t owner = 0;  // sequences of different owners share nothing
};

// The rows of page `from` are to be copied to page `to`, and those of their local pages, if layers have windows.
// REQUIRES: done before the pool is asked for anything else.
struct PageCopy {
  int32_t from = 0, to = 0;
  int32_t local_from = WindowPages::kNone, local_to = WindowPages::kNone;
  bool operator==(const PageCopy&) const = default;
};

// The pages of one sequence, in order: token i has row i % page_rows of page i / page_rows. It belongs to its pool,
// which gets the pages back through release() alone.
class PageRun {
 public:
  std::span<const CachedToken> tokens() const { return tokens_; }  // whose rows are in the cache
  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }
  std::span<const int32_t> pages() const { return pages_; }  // at least as many as the tokens need
  // Of recurrent states, the place of the one behind the last token, and see PagePool::reserve_states().
  int32_t state() const { return states_.empty() ? kZeroState : states_.back().place; }
  std::span<const int32_t> next_states() const { return next_states_; }
  // Of layers with windows: pages()[first_local()] up to pages()[end_local()] have local pages that the sequence holds.
  int64_t first_local() const { return first_local_; }
  int64_t end_local() const { return end_local_; }

 private:
  friend class PagePool;
  struct State {
    int64_t tokens = 0;  // that it is behind
    int32_t place = kZeroState;
  };
  static constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
  uint64_t owner_ = 0;
  int64_t trusted_ = kAll;  // tokens whose rows others may find
  std::vector<CachedToken> tokens_;
  std::vector<int32_t> pages_;
  std::vector<State> states_;         // that it may go back to, in order; the last one is behind all tokens
  std::vector<int32_t> next_states_;  // behind tokens to come
  int64_t first_local_ = 0, end_local_ = 0;
};

class PagePool {
 public:
  // `states`: places of recurrent states, see EngineLayout; 0: the model has none.
  explicit PagePool(int64_t pages, int64_t page_rows = kPageSize, int64_t states = 0, const WindowSize& window = {});

  // A sequence that begins with as many of `tokens` as the cache has rows of; of several such beginnings it is the one
  // with fewest generated tokens. `copies`: what is to be copied for it (none or one page).
  PageRun find(std::span<const int32_t> tokens, const PrefixReuse& reuse, std::vector<PageCopy>& copies);
  // Another sequence with the same tokens. Nothing is copied before one of the two goes on.
  PageRun fork(const PageRun& run);

  // Makes room for `tokens` more: afterwards pages are there for them, which only this sequence uses. False, and
  // nothing is changed, if the pool is full, even without the pages that nobody uses.
  bool reserve(PageRun& run, int64_t tokens, std::vector<PageCopy>& copies);
  // Places for the states behind the tokens of that many append() to come: run.next_states(), which only this sequence
  // uses. Where there are none, states that pages have kept make room. REQUIRES: sequences use no more places than
  // there are.
  void reserve_states(PageRun& run, int64_t count);
  // Their rows are in the cache now, and the state behind them is in the first of run.next_states(). The sequence may
  // also go back to the states that it had, until keep_states(). REQUIRES: room was reserved.
  void append(PageRun& run, std::span<const CachedToken> tokens);
  // Of its states the sequence has only the last `count` from now on; without any it cannot go on.
  void keep_states(PageRun& run, int64_t count);
  // What is appended from now on is for this sequence alone, until it goes back to here or further.
  void distrust(PageRun& run) { run.trusted_ = std::min(run.trusted_, run.size()); }
  // The last page keeps the state behind it. Without effect if it is not full.
  void keep_state(const PageRun& run);
  // Of layers with windows, where reserve() has made room: the sequence also holds local pages for its positions before
  // `end`. Indices of pages whose local ones are new go to `taken`.
  void reserve_window(PageRun& run, int64_t end, std::vector<int64_t>& taken);
  // A sequence without tokens is to get `size` of them whose first rows nobody will see: its local pages are the last
  // `pages` ones, for reserve_window() to take.
  void begin_window(PageRun& run, int64_t pages, int64_t size);
  // What is asked of the device from now on goes on at `position`: the sequence holds no local pages before its window
  // any more, but for a page. Those stay while there is room.
  void leave_behind(PageRun& run, int64_t position);
  // Somebody may want to go on there: its window stays longer than other ones. REQUIRES: position <= what is reserved
  void keep_window(const PageRun& run, int64_t position);
  // Forgets what comes after `size` tokens, and room that was reserved; where the sequence cannot go on there, as the
  // state or the window is not kept, what comes after the last place before where it can. REQUIRES: size <= run.size().
  void rewind(PageRun& run, int64_t size);
  // The sequence ends. What it leaves can be found, until its room is needed.
  void release(PageRun& run);

  // Whether reserve() may give a token's row to this sequence as things are: pages in range, used by it alone.
  bool may_write(const PageRun& run, int64_t position) const;

  int64_t page_rows() const { return page_rows_; }
  int64_t pages() const { return static_cast<int64_t>(pages_.size()); }
  // That reserve() could hand out: those that are empty, and published ones that nobody uses.
  int64_t available() const { return static_cast<int64_t>(free_.size()) + unused_; }
  int64_t unused() const { return unused_; }  // published ones that nobody uses

  // Of layers with windows: the local page of a page that a sequence holds.
  int32_t local_page(const PageRun& run, int64_t index) const {
    return window_.of(run.pages()[static_cast<size_t>(index)]);
  }
  // Whether the sequence holds all that the token at `position` sees there.
  bool holds_window(const PageRun& run, int64_t position) const {
    return run.first_local() <= first_of_window(position);
  }
  int64_t local_pages() const { return window_.pages(); }
  // Of how many local pages a sequence of `size` tokens has to hold at least, and may hold.
  int64_t least_held(int64_t size) const { return window_.is_used() ? pages_for(size) - first_of_window(size) : 0; }
  int64_t most_held(int64_t size) const { return window_.is_used() ? pages_for(size) - first_held(size) : 0; }

 private:
  static constexpr int32_t kNone = -1;

  struct Page {
    int users = 0;
    bool is_published = false;
    uint64_t owner = 0;
    int32_t parent = kNone;           // of a published page: the one before it
    std::vector<int32_t> children;    // published pages behind it
    std::vector<CachedToken> tokens;  // of a published page: a whole page of them, or fewer at the end of a line
    uint64_t last_use = 0;
    int32_t state = kZeroState;  // of a published page, if it keeps one
  };

  Page& page(int32_t number) { return pages_[static_cast<size_t>(number)]; }
  const Page& page(int32_t number) const { return pages_[static_cast<size_t>(number)]; }
  // Of a published page, or those that sequences of an owner begin with.
  std::span<const int32_t> children_of(int32_t parent, uint64_t owner) const;
  void add_child(int32_t number);
  void remove_child(int32_t number);
  // The child that shares most tokens with these from its beginning, and how many.
  std::pair<int32_t, int64_t> best_child(int32_t parent, const PageRun& run, std::span<const CachedToken> tokens) const;

  // A beginning of some tokens that is in the cache: up to and in a published page.
  struct Beginning {
    int32_t page = kNone;
    int64_t tokens = 0, generated = 0;
    int64_t first_local = 0;  // from this index on its pages have local ones
  };
  bool can_go_on(const Beginning& at) const {
    const bool has_state = !has_states_ || at.page == kNone || page(at.page).state != kZeroState;
    return has_state && at.first_local <= first_of_window(at.tokens);
  }
  Beginning longest(std::span<const int32_t> tokens, const PrefixReuse& reuse) const;

  int32_t take();  // an empty page with one user. REQUIRES: available() > 0
  PageCopy copy_page(PageRun& run, int64_t index);
  void use(int32_t number);
  void drop(int32_t number);  // one user less
  void free(int32_t number);
  void publish(PageRun& run, int64_t index);
  void withdraw(int32_t number);  // from the tree, with all behind it. REQUIRES: nobody uses those
  bool can_go(int32_t number) const;
  void update_order(int32_t number);

  int32_t page_before(const PageRun& run, int64_t size) const {
    return run.pages_[static_cast<size_t>((size - 1) / page_rows_)];
  }
  void cut(PageRun& run, int64_t size);
  void give_state(const PageRun& run);
  void forget_state(int32_t number);
  bool can_go_on(const PageRun& run, int64_t size) const;
  int64_t last_place(const PageRun& run, int64_t size) const;
  void add_state(PageRun& run, int64_t tokens, int32_t place);
  void drop_states_behind(PageRun& run, int64_t tokens);
  void drop_next_states(PageRun& run);

  int64_t pages_for(int64_t rows) const { return (rows + page_rows_ - 1) / page_rows_; }
  // The index of the first page that the token at `position` sees, and of that before, which drafts may go back to.
  int64_t first_of_window(int64_t position) const { return window_.first_seen(position) / page_rows_; }
  int64_t first_held(int64_t position) const {
    return first_of_window(position < page_rows_ ? 0 : position - page_rows_);
  }
  bool has_window(const PageRun& run, int64_t size) const;
  void hold_window(PageRun& run);
  void let_go_behind(PageRun& run, int64_t end);
  bool holds(const PageRun& run, int64_t index) const { return index >= run.first_local_ && index < run.end_local_; }

  const int64_t page_rows_;
  const bool has_states_;
  StatePool states_;
  std::vector<int32_t> kept_;  // pages that keep a state, least recently used first
  WindowPages window_;
  std::vector<Page> pages_;
  std::vector<int32_t> free_;
  std::map<uint64_t, std::vector<int32_t>> roots_;  // by owner: published pages with nothing before them
  std::set<std::pair<uint64_t, int32_t>> order_;    // pages that may go, least recently used first
  int64_t unused_ = 0;
  uint64_t clock_ = 0;
};

}  // namespace smelt
