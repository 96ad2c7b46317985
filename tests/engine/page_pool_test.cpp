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
  explicit Cache(int64_t pages, int64_t states = 0)
      : pool_(pages, kRows, states), rows_(static_cast<size_t>(pages * kRows)), states_(static_cast<size_t>(states)) {
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

  bool append(PageRun& run, const Tokens& tokens) {
    if (!pool_.reserve(run, static_cast<int64_t>(tokens.size()), copies_)) return false;
    copy();
    Tokens all(run.tokens().begin(), run.tokens().end());
    for (const CachedToken& token : tokens) {
      const auto at = static_cast<int64_t>(all.size());
      CHECK(pool_.may_write(run, at));
      all.push_back(token);
      row(run, at) = row_of(all);
    }
    if (!states_.empty()) {
      pool_.reserve_state(run);
      REQUIRE(run.next_state() >= kFirstState);
      CHECK(run.next_state() != run.state());
      state(run.next_state()) = row_of(all);
    }
    pool_.append(run, tokens);
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
      if (row(run, static_cast<int64_t>(all.size()) - 1) != row_of(all)) return false;
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

  size_t& row(const PageRun& run, int64_t position) {
    return rows_[static_cast<size_t>(run.pages()[static_cast<size_t>(position / kRows)] * kRows + position % kRows)];
  }

  void copy() {
    for (const PageCopy& c : copies_) std::copy_n(&rows_[c.from * kRows], kRows, &rows_[c.to * kRows]);
    copies_.clear();
  }

  PagePool pool_;
  std::vector<size_t> rows_, states_;
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

TEST_CASE("random sequences that start, fork, go back and end keep their rows and states") {
  int64_t refused = 0, found = 0;
  for (unsigned seed = 0; seed < static_cast<unsigned>(test::repetitions(40)); ++seed) {
    CAPTURE(seed);
    constexpr size_t kMostWithStates = 5;
    const bool has_states = seed % 2 == 1;
    std::mt19937 rng(seed);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(rng() % static_cast<uint64_t>(n)); };
    const auto some = [&](int64_t most) {
      Tokens out;
      for (int64_t n = below(most + 1); n > 0; --n) out.push_back({static_cast<int32_t>(below(2)), below(4) == 0});
      return out;
    };
    Cache cache(4 + below(30), has_states ? kFirstState + 2 * int64_t{kMostWithStates} + below(4) : 0);
    std::vector<PageRun> runs;
    const auto is_full = [&] { return has_states && runs.size() == kMostWithStates; };
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
      } else if (act == 1) {
        if (!is_full()) runs.push_back(cache.pool().fork(runs[i]));
      } else if (act == 2) {
        cache.pool().rewind(runs[i], below(runs[i].size() + 1));
      } else if (act == 3) {
        cache.release(runs[i]);
        runs.erase(runs.begin() + static_cast<std::ptrdiff_t>(i));
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
