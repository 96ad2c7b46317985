// Pages of the cache: who shares which, what is found again, what goes when room is needed.
#include "engine/page_pool.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "support/effort.h"

using namespace smelt;

namespace {

using Tokens = std::vector<CachedToken>;

constexpr int64_t kRows = 4;
constexpr PrefixReuse kPromptsOnly{.generated = false};

Tokens prompt(int32_t first, int64_t count) {
  Tokens out;
  for (int64_t i = 0; i < count; ++i) out.push_back({first + static_cast<int32_t>(i), false});
  return out;
}

// A pool, and what its pages hold: for every row a number that stands for all tokens up to it.
class Cache {
 public:
  // `states`: places of recurrent states, each with the number of all tokens before it; 0: there are none.
  explicit Cache(int64_t pages, int64_t states = 0, const WindowSize& window = {})
      : pool_(pages, kRows, states, window),
        window_(window.positions),
        rows_(static_cast<size_t>(pages * kRows)),
        local_rows_(static_cast<size_t>(window.pages * kRows)),
        states_(static_cast<size_t>(states)) {
    if (states > 0) states_[kZeroState] = row_of({});
  }

  PagePool& pool() { return pool_; }

  PageRun find(const Tokens& tokens, const PrefixReuse& reuse = {}) {
    std::vector<int32_t> ids;
    for (const CachedToken& token : tokens) ids.push_back(token.id);
    PageRun run = pool_.find(ids, reuse, copies_);
    copy();
    const auto is_as_wanted = [&](const CachedToken& found, int32_t id) {
      return found.id == id && (reuse.generated || !found.is_generated);
    };
    CHECK(std::equal(run.tokens().begin(), run.tokens().end(), ids.begin(), is_as_wanted));
    CHECK(is_right(run));
    return run;
  }

  // How many of the tokens are found.
  int64_t found(const Tokens& tokens, const PrefixReuse& reuse = {}) {
    PageRun run = find(tokens, reuse);
    const int64_t size = run.size();
    release(run);
    return size;
  }

  // As runs of `most` tokens.
  bool append_in_runs(PageRun& run, const Tokens& tokens, size_t most) {
    for (size_t begin = 0; begin < tokens.size(); begin += most) {
      const auto some = tokens.begin() + static_cast<std::ptrdiff_t>(begin);
      const auto count = static_cast<std::ptrdiff_t>(std::min(most, tokens.size() - begin));
      if (!append(run, {some, some + count})) return false;
    }
    return true;
  }

  bool append(PageRun& run, const Tokens& tokens) {
    if (!pool_.reserve(run, static_cast<int64_t>(tokens.size()), copies_)) return false;
    copy();
    Tokens all(run.tokens().begin(), run.tokens().end());
    std::vector<int64_t> taken;
    pool_.reserve_window(run, run.size() + static_cast<int64_t>(tokens.size()), taken);
    CHECK(pool_.holds_window(run, run.size()));
    for (const CachedToken& token : tokens) {
      const auto at = static_cast<int64_t>(all.size());
      CHECK(pool_.may_write(run, at));
      all.push_back(token);
      row(run, at) = row_of(all);
      if (window_) local_row(run, at) = row_of(all);
    }
    if (!states_.empty()) {
      pool_.keep_states(run, 1);
      pool_.reserve_states(run, 1);
      leave_state(run, 0, all);
    }
    pool_.leave_behind(run, static_cast<int64_t>(all.size()));
    pool_.append(run, tokens);
    CHECK(is_right(run));
    return true;
  }

  // As rows of a batch, each of which leaves a state.
  bool append_rows(PageRun& run, const Tokens& tokens) {
    if (!pool_.reserve(run, std::ssize(tokens), copies_)) return false;
    copy();
    Tokens all(run.tokens().begin(), run.tokens().end());
    pool_.reserve_states(run, std::ssize(tokens));
    REQUIRE(std::ssize(run.next_states()) == std::ssize(tokens));
    for (size_t i = 0; i < tokens.size(); ++i) {
      all.push_back(tokens[i]);
      row(run, std::ssize(all) - 1) = row_of(all);
      leave_state(run, i, all);
    }
    for (const CachedToken& token : tokens) pool_.append(run, {&token, 1});
    CHECK(is_right(run));
    return true;
  }

  void release(PageRun& run) {
    pool_.release(run);
    CHECK(run.size() == 0);
    CHECK(run.pages().empty());
  }

  bool is_right(const PageRun& run) {
    Tokens all;
    for (const CachedToken& token : run.tokens()) {
      all.push_back(token);
      const int64_t at = std::ssize(all) - 1;
      if (row(run, at) != row_of(all)) return false;
      const bool is_seen = window_ && at + window_ > run.size();
      if (is_seen && (!pool_.holds_window(run, run.size()) || local_row(run, at) != row_of(all))) return false;
    }
    if (!states_.empty() && state(run.state()) != row_of(all)) return false;
    return static_cast<int64_t>(run.pages().size()) * kRows >= run.size();
  }

 private:
  static size_t row_of(const Tokens& tokens) {
    size_t hash = 1;
    for (const CachedToken& t : tokens) hash = hash * 1000003 + static_cast<size_t>(2 * t.id + t.is_generated + 7);
    return hash;
  }

  size_t& state(int32_t place) { return states_[static_cast<size_t>(place)]; }
  void leave_state(const PageRun& run, size_t number, const Tokens& all) {
    const int32_t place = run.next_states()[number];
    REQUIRE(place >= kFirstState);
    CHECK(place != run.state());
    state(place) = row_of(all);
  }

  size_t& row(const PageRun& run, int64_t position) {
    return rows_[static_cast<size_t>(run.pages()[static_cast<size_t>(position / kRows)] * kRows + position % kRows)];
  }

  size_t& local_row(const PageRun& run, int64_t position) {
    const int32_t page = pool_.local_page(run, position / kRows);
    REQUIRE(page >= 0);
    return local_rows_[static_cast<size_t>(page * kRows + position % kRows)];
  }

  void copy() {
    for (const PageCopy& c : copies_) {
      std::copy_n(&rows_[c.from * kRows], kRows, &rows_[c.to * kRows]);
      if (c.local_to >= 0) std::copy_n(&local_rows_[c.local_from * kRows], kRows, &local_rows_[c.local_to * kRows]);
    }
    copies_.clear();
  }

  PagePool pool_;
  int64_t window_;  // 0: there is none
  std::vector<size_t> rows_, local_rows_, states_;
  std::vector<PageCopy> copies_;
};

}  // namespace

TEST_CASE("a sequence that begins like one before it shares whole pages and copies a part of one") {
  Cache cache(8);
  PageRun first;
  REQUIRE(cache.append(first, prompt(0, 11)));
  CHECK(first.pages().size() == 3);
  CHECK(cache.pool().available() == 5);

  PageRun second = cache.find(prompt(0, 9));  // the last page of the first is not full yet, and so not published
  CHECK(second.size() == 8);
  CHECK(std::equal(second.pages().begin(), second.pages().end(), first.pages().begin()));
  CHECK(cache.pool().available() == 5);

  cache.release(first);
  PageRun third = cache.find(prompt(0, 10));
  CHECK(third.size() == 10);
  CHECK(third.pages()[1] == second.pages()[1]);
  cache.release(second);
  cache.release(third);
  CHECK(cache.pool().available() == 8);
}

TEST_CASE("what was generated is found, unless rows of prompts alone are wanted") {
  Cache cache(4);
  PageRun run;
  Tokens tokens = prompt(0, 7);
  tokens[5].is_generated = tokens[6].is_generated = true;
  REQUIRE(cache.append(run, tokens));
  cache.release(run);
  PageRun next = cache.find(prompt(0, 9));  // an answer has become a part of the next prompt
  CHECK(next.size() == 7);
  CHECK(next.tokens()[4] == CachedToken{4, false});
  CHECK(next.tokens()[5] == CachedToken{5, true});
  cache.release(next);
  CHECK(cache.found(prompt(0, 9), kPromptsOnly) == 5);
  CHECK(cache.found(prompt(1, 6)) == 0);
}

TEST_CASE("of equal beginnings the longest is found, and of those the one with fewest generated tokens") {
  Cache cache(8);
  const auto leave = [&](const Tokens& tokens) {
    PageRun run;
    REQUIRE(cache.append(run, tokens));
    cache.release(run);
  };
  Tokens generated = prompt(0, 7);
  for (CachedToken& t : generated) t.is_generated = true;
  leave(generated);
  leave(prompt(0, 4));
  CHECK(cache.found(prompt(0, 7)) == 7);  // whole pages of both kinds; only one of them goes on
  CHECK(cache.found(prompt(0, 7), kPromptsOnly) == 4);
  leave(prompt(0, 7));
  PageRun run = cache.find(prompt(0, 7));
  CHECK(run.size() == 7);
  CHECK(!run.tokens()[0].is_generated);
  cache.release(run);
}

TEST_CASE("sequences of different owners share nothing, and room is taken from all of them") {
  Cache cache(2);
  PageRun run = cache.find({}, {.owner = 1});
  REQUIRE(cache.append(run, prompt(0, 4)));
  CHECK(cache.found(prompt(0, 4), {.owner = 2}) == 0);
  CHECK(cache.found(prompt(0, 4), {.owner = 1}) == 4);
  PageRun fork = cache.pool().fork(run);
  REQUIRE(cache.append(fork, prompt(4, 4)));
  cache.release(run);
  cache.release(fork);
  CHECK(cache.found(prompt(0, 8), {.owner = 1}) == 8);
  PageRun other = cache.find(prompt(0, 8), {.owner = 2});
  CHECK(other.size() == 0);
  REQUIRE(cache.append(other, prompt(0, 8)));
  CHECK(cache.found(prompt(0, 8), {.owner = 1}) == 0);
  CHECK(cache.found(prompt(0, 8), {.owner = 2}) == 8);
  cache.release(other);
}

TEST_CASE("a fork shares everything until one of the two goes on") {
  Cache cache(8);
  PageRun run;
  REQUIRE(cache.append(run, prompt(0, 6)));
  PageRun other = cache.pool().fork(run);
  CHECK(cache.pool().available() == 6);
  CHECK(!cache.pool().may_write(run, 6));
  REQUIRE(cache.append(run, prompt(100, 1)));
  CHECK(cache.pool().available() == 5);
  REQUIRE(cache.append(other, prompt(200, 1)));
  CHECK(cache.pool().available() == 5);  // nobody else has its page any more
  CHECK(run.pages()[0] == other.pages()[0]);
  CHECK(run.pages()[1] != other.pages()[1]);
  CHECK(cache.is_right(run));
}

TEST_CASE("equal pages that two sequences have computed become one") {
  Cache cache(4);
  PageRun a, b;
  REQUIRE(cache.append(a, prompt(0, 4)));
  REQUIRE(cache.append(b, prompt(0, 4)));
  CHECK(a.pages()[0] == b.pages()[0]);
  CHECK(cache.pool().available() == 3);
}

TEST_CASE("what is not to be trusted is found by nobody, neither while its sequence runs nor after it") {
  Cache cache(8);
  PageRun run = cache.find({});
  REQUIRE(cache.append(run, prompt(0, 6)));
  cache.pool().distrust(run);
  REQUIRE(cache.append(run, prompt(6, 7)));
  CHECK(cache.found(prompt(0, 13)) == 4);  // the page that was whole before
  PageRun other = cache.pool().fork(run);
  REQUIRE(cache.append(other, prompt(13, 3)));
  cache.release(other);
  cache.release(run);
  CHECK(cache.found(prompt(0, 16)) == 4);
  CHECK(cache.pool().available() == 8);
}

TEST_CASE("a sequence that goes back before what is not to be trusted is found again") {
  Cache cache(8);
  PageRun run = cache.find({});
  REQUIRE(cache.append(run, prompt(0, 6)));
  cache.pool().distrust(run);
  REQUIRE(cache.append(run, prompt(100, 4)));
  cache.pool().rewind(run, 7);
  REQUIRE(cache.append(run, prompt(7, 2)));
  CHECK(cache.found(prompt(0, 8)) == 4);
  cache.pool().rewind(run, 6);
  REQUIRE(cache.append(run, prompt(6, 3)));
  CHECK(cache.found(prompt(0, 9)) == 8);
  cache.release(run);
  CHECK(cache.found(prompt(0, 9)) == 9);
}

TEST_CASE("the page that was not used for longest goes first, and none before those behind it") {
  Cache cache(4);
  PageRun old, recent;
  REQUIRE(cache.append(old, prompt(0, 8)));
  cache.release(old);
  REQUIRE(cache.append(recent, prompt(100, 4)));
  cache.release(recent);
  CHECK(cache.pool().unused() == 3);

  PageRun run;
  REQUIRE(cache.append(run, prompt(200, 8)));  // the empty page, and the second one of the oldest line
  CHECK(cache.found(prompt(0, 8)) == 4);
  CHECK(cache.found(prompt(100, 4)) == 4);
}

TEST_CASE("a full pool says so and changes nothing") {
  Cache cache(2);
  PageRun run, other;
  REQUIRE(cache.append(run, prompt(0, 7)));
  CHECK(!cache.append(other, prompt(100, 1)));
  CHECK(!cache.append(run, prompt(7, 2)));
  CHECK(cache.append(run, prompt(7, 1)));
  CHECK(cache.found(prompt(0, 6)) == 4);  // no page for a copy of the second one
  CHECK(run.size() == 8);
  cache.release(run);
  CHECK(cache.append(other, prompt(100, 8)));
}

TEST_CASE("a sequence that goes back writes over its own pages and over those of no other") {
  Cache cache(6);
  PageRun run;
  REQUIRE(cache.append(run, prompt(0, 10)));
  PageRun other = cache.pool().fork(run);
  cache.pool().rewind(run, 2);
  CHECK(run.pages().size() == 1);
  REQUIRE(cache.append(run, prompt(50, 6)));
  CHECK(cache.is_right(other));
  cache.pool().rewind(other, 2);
  const int32_t own = other.pages()[0];
  REQUIRE(cache.append(other, prompt(60, 1)));
  CHECK(other.pages()[0] == own);  // published, but nobody else used it
  cache.release(run);
  cache.release(other);
  CHECK(cache.pool().available() == 6);
}

TEST_CASE("a sequence may write where room was reserved for it, and nowhere else") {
  PagePool pool(2, kRows);
  std::vector<PageCopy> copies;
  PageRun run = pool.find({}, {}, copies);
  CHECK(!pool.may_write(run, 0));
  REQUIRE(pool.reserve(run, 3, copies));
  CHECK(pool.may_write(run, 0));
  CHECK(pool.may_write(run, kRows - 1));
  CHECK(!pool.may_write(run, kRows));
  pool.append(run, prompt(0, 3));
  CHECK(!pool.may_write(run, 2));  // has its row
  CHECK(pool.may_write(run, 3));
  PageRun other = pool.fork(run);
  CHECK(!pool.may_write(run, 3));
  pool.release(other);
  pool.release(run);
}

TEST_CASE("of a model with states a sequence begins, and goes back, where a state was kept") {
  Cache cache(8, kFirstState + 6);
  PageRun run;
  REQUIRE(cache.append(run, prompt(0, 4)));
  cache.pool().keep_state(run);
  REQUIRE(cache.append(run, prompt(4, 4)));
  REQUIRE(cache.append(run, prompt(8, 2)));
  CHECK(cache.found(prompt(0, 9)) == 4);
  PageRun other = cache.pool().fork(run);
  cache.pool().rewind(other, 10);
  CHECK(other.size() == 10);
  cache.pool().rewind(other, 9);
  CHECK(other.size() == 4);
  CHECK(cache.is_right(other));
  cache.release(run);  // its end is kept, too
  CHECK(cache.found(prompt(0, 12)) == 10);
  CHECK(cache.found(prompt(0, 9)) == 4);
  cache.pool().rewind(other, 3);
  CHECK(other.size() == 0);
  CHECK(other.state() == kZeroState);
  cache.release(other);
}

TEST_CASE("a sequence goes back over the rows of its last batch one by one, until it has told that they count") {
  for (int64_t kept = 0; kept <= 5; ++kept) {
    CAPTURE(kept);
    Cache cache(8, kFirstState + 6);
    PageRun run;
    REQUIRE(cache.append(run, prompt(0, 6)));
    REQUIRE(cache.append_rows(run, prompt(6, 5)));  // the last row of a page, all of the next one
    PageRun other = cache.pool().fork(run);         // has one state, of those that are there
    cache.pool().rewind(run, 6 + kept);
    CHECK(run.size() == 6 + kept);
    CHECK(cache.is_right(run));
    cache.pool().keep_states(run, 1);
    REQUIRE(cache.append_rows(run, prompt(50, 1)));
    cache.pool().keep_states(run, 1);
    cache.pool().rewind(run, 6 + kept);
    CHECK(run.size() == 0);
    cache.release(run);
    cache.release(other);
    // Where the fork has ended, unless another page goes on there.
    CHECK(cache.found(prompt(0, 12)) == (kept < 5 ? 11 : 0));
  }
}

TEST_CASE("a sequence goes back to the last of its states before, where that of the place itself is gone") {
  Cache cache(8, kFirstState + 6);
  PageRun run;
  REQUIRE(cache.append(run, prompt(0, 5)));
  REQUIRE(cache.append(run, prompt(5, 4)));
  cache.pool().rewind(run, 8);
  CHECK(run.size() == 5);
  CHECK(cache.is_right(run));
  for (int64_t kept = 3; kept > 0; --kept) {
    REQUIRE(cache.append_rows(run, prompt(5, 4)));
    cache.pool().keep_states(run, kept);
    cache.pool().rewind(run, 10 - kept);
    CHECK(run.size() == 10 - kept);
    cache.pool().rewind(run, 9 - kept);
    CHECK(run.size() == 0);
    REQUIRE(cache.append(run, prompt(0, 5)));
  }
  cache.release(run);
}

TEST_CASE("states that pages keep make room for those of sequences, least recently used first") {
  Cache cache(16, kFirstState + 4);
  const auto leave = [&](int32_t first) {
    PageRun run;
    REQUIRE(cache.append(run, prompt(first, 6)));
    cache.release(run);
  };
  for (int32_t first : {0, 100, 200}) leave(first);
  CHECK(cache.found(prompt(0, 6)) == 6);
  leave(300);
  leave(400);
  CHECK(cache.found(prompt(100, 6)) == 0);
  CHECK(cache.found(prompt(0, 6)) == 6);
  CHECK(cache.found(prompt(400, 6)) == 6);
}

TEST_CASE("of a window only its pages are held, and those that nobody holds stay while there is room") {
  Cache cache(16, 0, {.positions = 6, .pages = 8});
  PageRun run;
  REQUIRE(cache.append_in_runs(run, prompt(0, 40), 4));
  CHECK(run.pages().size() == 10);
  CHECK(run.end_local() == 10);
  CHECK(run.first_local() == 7);  // 31 .. 39: six positions, and four for drafts
  cache.release(run);
  CHECK(cache.found(prompt(0, 40)) == 40);
  CHECK(cache.found(prompt(0, 20)) == 20);  // pages 3 and 4, of which 2 .. 9 have local ones
  CHECK(cache.found(prompt(0, 11)) == 0);   // sees 6 .. 10, of pages 1 and 2
  PageRun other;
  REQUIRE(cache.append_in_runs(other, prompt(100, 20), 4));  // takes five local pages and none of those pages
  CHECK(cache.pool().available() == 11);
  CHECK(cache.found(prompt(0, 40)) == 40);  // was found last
  cache.release(other);
  CHECK(cache.pool().available() == 16);
}

TEST_CASE("a window that is kept goes after those that are not") {
  const auto found_after = [](bool is_kept) {
    Cache cache(32, 0, {.positions = 6, .pages = 8});
    PageRun run;
    REQUIRE(cache.append_in_runs(run, prompt(0, 16), 4));
    if (is_kept) cache.pool().keep_window(run, 16);
    REQUIRE(cache.append_in_runs(run, prompt(16, 40), 4));
    cache.release(run);
    return cache.found(prompt(0, 16));
  };
  CHECK(found_after(true) == 16);
  CHECK(found_after(false) == 0);
}

TEST_CASE("a sequence goes back to where its window is there, behind drafts always") {
  Cache cache(16, 0, {.positions = 6, .pages = 6});
  PageRun run;
  REQUIRE(cache.append_in_runs(run, prompt(0, 8), 4));
  cache.pool().keep_window(run, 8);
  REQUIRE(cache.append_in_runs(run, prompt(8, 32), 4));
  cache.pool().rewind(run, 36);
  CHECK(run.size() == 36);
  CHECK(cache.is_right(run));
  REQUIRE(cache.append(run, prompt(70, 3)));
  cache.pool().rewind(run, 20);  // its window has made room for the others
  CHECK(run.size() == 8);
  CHECK(cache.is_right(run));
  cache.pool().rewind(run, 7);  // sees 2 .. 6
  CHECK(run.size() == 7);
  cache.release(run);
}

TEST_CASE("who goes on behind a page that a fork shares copies its local page, too") {
  Cache cache(16, 0, {.positions = 6, .pages = 16});
  PageRun run;
  REQUIRE(cache.append_in_runs(run, prompt(0, 18), 4));
  PageRun other = cache.pool().fork(run);
  const int32_t shared = cache.pool().local_page(run, 4);
  CHECK(cache.pool().local_page(other, 4) == shared);
  REQUIRE(cache.append(other, prompt(50, 2)));
  CHECK(cache.pool().local_page(other, 4) != shared);
  REQUIRE(cache.append(run, prompt(60, 2)));
  CHECK(cache.is_right(other));
  CHECK(cache.is_right(run));
  cache.release(run);
  cache.release(other);
}

TEST_CASE("of two pages with the same tokens the one that stays gets the local page of the other") {
  Cache cache(32, 0, {.positions = 6, .pages = 9});
  PageRun run;
  REQUIRE(cache.append_in_runs(run, prompt(0, 40), 4));
  cache.release(run);
  CHECK(cache.found(prompt(0, 8)) == 0);
  PageRun again;
  REQUIRE(cache.append_in_runs(again, prompt(0, 8), 4));
  CHECK(cache.is_right(again));
  cache.release(again);
  CHECK(cache.pool().unused() == 10);
  CHECK(cache.found(prompt(0, 8)) == 8);
}

TEST_CASE("a sequence may begin with local pages for its end alone") {
  Cache cache(16, 0, {.positions = 6, .pages = 6});
  PageRun run;
  std::vector<PageCopy> copies;
  std::vector<int64_t> taken;
  REQUIRE(cache.pool().reserve(run, 30, copies));
  CHECK(cache.pool().least_held(30) == 2);
  CHECK(cache.pool().most_held(30) == 3);
  cache.pool().begin_window(run, 2, 30);
  cache.pool().reserve_window(run, 30, taken);
  CHECK(taken == std::vector<int64_t>{6, 7});
  cache.pool().append(run, prompt(0, 30));
  cache.pool().rewind(run, 29);
  CHECK(run.size() == 29);
  cache.pool().rewind(run, 28);  // sees 23, of page 5
  CHECK(run.size() == 0);
}

TEST_CASE("random sequences that start, fork, go back and end keep their rows, states and windows") {
  int64_t refused = 0, found = 0;
  for (unsigned seed = 0; seed < static_cast<unsigned>(test::repetitions(40)); ++seed) {
    CAPTURE(seed);
    constexpr size_t kMost = 5;  // sequences with states or windows
    const bool has_states = seed % 2 == 1, has_windows = seed % 4 >= 2;
    std::mt19937 rng(seed);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(rng() % static_cast<uint64_t>(n)); };
    const auto some = [&](int64_t most) {
      Tokens out;
      for (int64_t n = below(most + 1); n > 0; --n) out.push_back({static_cast<int32_t>(below(2)), below(4) == 0});
      return out;
    };
    const int64_t drafts = has_windows ? 0 : below(4);
    const int64_t states = kFirstState + 2 * int64_t{kMost} + drafts + below(4), window = 1 + below(12);
    const int64_t held = (window + 2 * kRows - 3) / kRows + 1;
    const int64_t local_pages = int64_t{kMost} * (held + 1) + 2 + 1 + below(8);  // runs write up to 7 rows
    Cache cache(4 + below(30), has_states ? states : 0,
                has_windows ? WindowSize{.positions = window, .pages = local_pages} : WindowSize{});
    std::vector<PageRun> runs;
    const auto is_full = [&] { return (has_states || has_windows) && runs.size() == kMost; };
    for (int step = 0; step < 400; ++step) {
      const int64_t act = below(10);
      if (runs.empty() || (act == 0 && !is_full())) {
        runs.push_back(cache.find(some(20), {.generated = below(2) == 0, .owner = static_cast<uint64_t>(below(2))}));
        found += runs.back().size();
        continue;
      }
      const auto i = static_cast<size_t>(below(static_cast<int64_t>(runs.size())));
      if (act == 0) {
        cache.pool().keep_state(runs[i]);
        cache.pool().keep_window(runs[i], runs[i].size());
      } else if (act == 1) {
        if (!is_full()) runs.push_back(cache.pool().fork(runs[i]));
      } else if (act == 2) {
        cache.pool().rewind(runs[i], below(runs[i].size() + 1));
        if (below(8) == 0) cache.pool().distrust(runs[i]);
      } else if (act == 3) {
        cache.release(runs[i]);
        runs.erase(runs.begin() + static_cast<std::ptrdiff_t>(i));
      } else if (act == 4 && has_states && !has_windows) {
        for (PageRun& run : runs) cache.pool().keep_states(run, 1);
        if (cache.append_rows(runs[i], some(1 + drafts)) && below(2) == 0)
          cache.pool().rewind(runs[i], runs[i].size() - below(std::min<int64_t>(2, runs[i].size() + 1)));
      } else if (!cache.append(runs[i], some(7))) {
        ++refused;
        cache.release(runs[i]);
        runs.erase(runs.begin() + static_cast<std::ptrdiff_t>(i));
      }
      for (const PageRun& run : runs) REQUIRE(cache.is_right(run));
    }
    for (PageRun& run : runs) cache.release(run);
    CHECK(cache.pool().available() == cache.pool().pages());
  }
  CHECK(refused > 0);
  CHECK(found > 0);
}
