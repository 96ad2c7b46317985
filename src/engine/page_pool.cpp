#include "engine/page_pool.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/ensure.h"

namespace smelt {
namespace {

int64_t common_prefix(std::span<const CachedToken> a, std::span<const CachedToken> b) {
  const auto n = static_cast<std::ptrdiff_t>(std::min(a.size(), b.size()));
  return std::mismatch(a.begin(), a.begin() + n, b.begin()).first - a.begin();
}

// How many tokens of a page are these, from its beginning, and how many of those were generated.
std::pair<int64_t, int64_t> common_beginning(std::span<const CachedToken> page, std::span<const int32_t> tokens,
                                             bool with_generated) {
  int64_t shared = 0, generated = 0;
  for (const size_t n = std::min(page.size(), tokens.size()); static_cast<size_t>(shared) < n; ++shared) {
    const CachedToken& token = page[static_cast<size_t>(shared)];
    if (token.id != tokens[static_cast<size_t>(shared)] || (token.is_generated && !with_generated)) break;
    generated += token.is_generated;
  }
  return {shared, generated};
}

}  // namespace

PagePool::PagePool(int64_t pages, int64_t page_rows, int64_t states, const WindowSize& window)
    : page_rows_(page_rows),
      has_states_(states > 0),
      states_(kFirstState, static_cast<int32_t>(states)),
      window_(window, pages),
      pages_(static_cast<size_t>(pages)) {
  for (auto number = static_cast<int32_t>(pages); number-- > 0;) free_.push_back(number);  // the first one on top
}

PageRun PagePool::find(std::span<const int32_t> tokens, const PrefixReuse& reuse, std::vector<PageCopy>& copies) {
  PageRun run;
  run.owner_ = reuse.owner;
  const Beginning found = longest(tokens, reuse);
  for (int32_t number = found.page; number != kNone; number = page(number).parent) run.pages_.push_back(number);
  std::reverse(run.pages_.begin(), run.pages_.end());
  for (int32_t number : run.pages_) {
    use(number);
    page(number).last_use = ++clock_;
    const auto taken = page(number).tokens.begin();
    const int64_t rest = found.tokens - run.size();
    run.tokens_.insert(run.tokens_.end(), taken, taken + std::min(rest, page_rows_));
  }
  if (has_states_ && found.page != kNone) add_state(run, run.size(), page(found.page).state);
  if (window_.is_used()) run.first_local_ = run.end_local_ = std::ssize(run.pages_);
  hold_window(run);
  keep_window(run, run.size());
  const int64_t part = found.tokens % page_rows_;
  if (part == 0) return run;
  if (available() > 0)
    copies.push_back(copy_page(run, std::ssize(run.pages_) - 1));
  else
    rewind(run, run.size() - part);
  return run;
}

// A sequence gets a page of its own in place of one that it shares.
PageCopy PagePool::copy_page(PageRun& run, int64_t index) {
  int32_t& number = run.pages_[static_cast<size_t>(index)];
  PageCopy copy{.from = number, .to = take()};
  if (holds(run, index)) {
    window_.take(copy.to);
    copy.local_from = window_.of(copy.from), copy.local_to = window_.of(copy.to);
    window_.let_go(copy.from);
  }
  drop(number);
  number = copy.to;
  return copy;
}

// Pages may have the same tokens and differ in how these came, so all branches are looked at.
PagePool::Beginning PagePool::longest(std::span<const int32_t> tokens, const PrefixReuse& reuse) const {
  Beginning best;
  std::vector<Beginning> open{best};
  while (!open.empty()) {
    const Beginning at = open.back();
    open.pop_back();
    const bool is_better = at.tokens > best.tokens || (at.tokens == best.tokens && at.generated < best.generated);
    if (is_better && can_go_on(at)) best = at;
    if (at.tokens % page_rows_ != 0) continue;
    for (int32_t child : children_of(at.page, reuse.owner)) {
      const auto [shared, generated] = common_beginning(page(child).tokens, tokens.subspan(at.tokens), reuse.generated);
      const bool is_whole = shared == static_cast<int64_t>(page(child).tokens.size());
      if (shared == 0 || (has_states_ && !is_whole)) continue;
      const bool has_local = !window_.is_used() || window_.is_there(child);
      open.push_back({.page = child,
                      .tokens = at.tokens + shared,
                      .generated = at.generated + generated,
                      .first_local = has_local ? at.first_local : pages_for(at.tokens + shared)});
    }
  }
  return best;
}

PageRun PagePool::fork(const PageRun& run) {
  PageRun other = run;
  other.pages_.resize(static_cast<size_t>(pages_for(run.size())));
  for (int32_t number : other.pages_) use(number);
  other.end_local_ = std::min(run.end_local_, std::ssize(other.pages_));
  for (int64_t i = other.first_local_; i < other.end_local_; ++i) window_.hold(other.pages_[static_cast<size_t>(i)]);
  other.states_.clear(), other.next_states_.clear();
  if (has_states_ && run.size() > 0) add_state(other, run.size(), run.state());
  return other;
}

bool PagePool::reserve(PageRun& run, int64_t tokens, std::vector<PageCopy>& copies) {
  const auto wanted = static_cast<size_t>(pages_for(run.size() + tokens));
  const auto partial = static_cast<size_t>(run.size() / page_rows_);  // where the first of them goes
  const bool is_written = tokens > 0 && partial < run.pages_.size();
  const bool is_shared = is_written && page(run.pages_[partial]).users > 1;
  const int64_t needed =
      std::max<int64_t>(0, static_cast<int64_t>(wanted - std::min(wanted, run.pages_.size()))) + (is_shared ? 1 : 0);
  if (needed > available()) return false;
  if (is_shared) {
    copies.push_back(copy_page(run, static_cast<int64_t>(partial)));
  } else if (is_written && page(run.pages_[partial]).is_published) {
    withdraw(run.pages_[partial]);
  }
  while (run.pages_.size() < wanted) run.pages_.push_back(take());
  return true;
}

void PagePool::append(PageRun& run, std::span<const CachedToken> tokens) {
  ENSURE(run.size() + static_cast<int64_t>(tokens.size()) <= static_cast<int64_t>(run.pages_.size()) * page_rows_,
         "tokens without room in the cache");
  int64_t whole = run.size() / page_rows_;
  run.tokens_.insert(run.tokens_.end(), tokens.begin(), tokens.end());
  if (has_states_) {
    ENSURE(!run.next_states_.empty(), "tokens without room for the state behind them");
    run.states_.push_back({run.size(), run.next_states_.front()});
    run.next_states_.erase(run.next_states_.begin());
  }
  for (; whole < run.size() / page_rows_; ++whole) publish(run, whole);
}

void PagePool::rewind(PageRun& run, int64_t size) {
  ENSURE(size >= 0 && size <= run.size(), "a position that is not in the sequence");
  drop_next_states(run);
  const int64_t place = last_place(run, size);
  drop_states_behind(run, place);
  if (has_states_ && place > 0 && (run.states_.empty() || run.states_.back().tokens < place))
    add_state(run, place, page(page_before(run, place)).state);
  cut(run, place);
  hold_window(run);
}

void PagePool::cut(PageRun& run, int64_t size) {
  run.tokens_.resize(static_cast<size_t>(size));
  if (size <= run.trusted_) run.trusted_ = PageRun::kAll;
  const auto needed = static_cast<size_t>(pages_for(size));
  let_go_behind(run, pages_for(size));
  while (run.pages_.size() > needed) {
    drop(run.pages_.back());
    run.pages_.pop_back();
  }
}

void PagePool::release(PageRun& run) {
  rewind(run, run.size());
  if (run.size() % page_rows_ != 0) publish(run, run.size() / page_rows_);
  if (has_states_ && run.size() > 0) give_state(run);
  keep_states(run, 0);
  keep_window(run, run.size());
  let_go_behind(run, 0);
  while (!run.pages_.empty()) {
    drop(run.pages_.back());
    run.pages_.pop_back();
  }
  run.tokens_.clear();
  run.trusted_ = PageRun::kAll;
}

// --- recurrent states

void PagePool::reserve_states(PageRun& run, int64_t count) {
  while (has_states_ && std::ssize(run.next_states_) < count) {
    std::optional<int32_t> place;
    while (!(place = states_.take())) {
      ENSURE(!kept_.empty(), "more states are in use than sequences have");
      forget_state(kept_.front());
    }
    run.next_states_.push_back(*place);
  }
}

void PagePool::keep_states(PageRun& run, int64_t count) {
  for (; std::ssize(run.states_) > count; run.states_.erase(run.states_.begin()))
    states_.drop(run.states_.front().place);
}

void PagePool::drop_states_behind(PageRun& run, int64_t tokens) {
  for (; !run.states_.empty() && run.states_.back().tokens > tokens; run.states_.pop_back())
    states_.drop(run.states_.back().place);
}

void PagePool::drop_next_states(PageRun& run) {
  for (int32_t place : std::exchange(run.next_states_, {})) states_.drop(place);
}

void PagePool::keep_state(const PageRun& run) {
  if (has_states_ && run.size() > 0 && run.size() % page_rows_ == 0) give_state(run);
}

// The page may have become another one of the same tokens, or of more of them, which has no place for this state.
void PagePool::give_state(const PageRun& run) {
  const int32_t number = page_before(run, run.size());
  Page& p = page(number);
  const bool ends_here = static_cast<int64_t>(p.tokens.size()) == (run.size() - 1) % page_rows_ + 1;
  if (!p.is_published || !ends_here || p.state != kZeroState) return;
  states_.use(run.state());
  p.state = run.state();
  kept_.push_back(number);
}

void PagePool::forget_state(int32_t number) {
  if (page(number).state == kZeroState) return;
  states_.drop(std::exchange(page(number).state, kZeroState));
  std::erase(kept_, number);
}

// Behind the tokens of a sequence, or in between.
bool PagePool::can_go_on(const PageRun& run, int64_t size) const {
  const auto is_there = [&](const PageRun::State& state) { return state.tokens == size; };
  const bool has_state = !has_states_ || size == 0 || std::any_of(run.states_.begin(), run.states_.end(), is_there) ||
                         (size % page_rows_ == 0 && page(page_before(run, size)).state != kZeroState);
  return has_state && has_window(run, size);
}

// Up to `size` tokens. In front of a place inside of a page the next one may be the page's begin, as others before see
// more local pages, or a state that the sequence has.
int64_t PagePool::last_place(const PageRun& run, int64_t size) const {
  if (can_go_on(run, size)) return size;
  int64_t place = (size - 1) / page_rows_ * page_rows_;
  while (!can_go_on(run, place)) place -= page_rows_;
  for (const PageRun::State& state : run.states_)
    if (state.tokens < size && can_go_on(run, state.tokens)) place = std::max(place, state.tokens);
  return place;
}

// Another state of a sequence; it is used as late as the page that keeps it.
void PagePool::add_state(PageRun& run, int64_t tokens, int32_t state) {
  states_.use(state);
  run.states_.push_back({tokens, state});
  const auto keeps = [&](int32_t number) { return page(number).state == state; };
  const auto kept = std::find_if(kept_.begin(), kept_.end(), keeps);
  if (kept != kept_.end()) std::rotate(kept, kept + 1, kept_.end());
}

// --- windows

bool PagePool::has_window(const PageRun& run, int64_t size) const {
  if (!window_.is_used()) return true;
  for (int64_t i = first_of_window(size); i < pages_for(size); ++i)
    if (!window_.is_there(run.pages_[static_cast<size_t>(i)])) return false;
  return true;
}

// That of its next token, which is there. What it holds ends with its pages already.
void PagePool::hold_window(PageRun& run) {
  if (!window_.is_used()) return;
  for (const int64_t first = first_of_window(run.size()); run.first_local_ > first; --run.first_local_)
    window_.hold(run.pages_[static_cast<size_t>(run.first_local_ - 1)]);
}

// The local pages from index `end` on.
void PagePool::let_go_behind(PageRun& run, int64_t end) {
  for (; run.end_local_ > std::max(end, run.first_local_); --run.end_local_)
    window_.let_go(run.pages_[static_cast<size_t>(run.end_local_ - 1)]);
  run.first_local_ = std::min(run.first_local_, end);
  run.end_local_ = std::min(run.end_local_, end);
}

void PagePool::reserve_window(PageRun& run, int64_t end, std::vector<int64_t>& taken) {
  if (!window_.is_used()) return;
  ENSURE(end <= std::ssize(run.pages_) * page_rows_, "local pages for tokens without room");
  for (; run.end_local_ < pages_for(end); ++run.end_local_) {
    window_.take(run.pages_[static_cast<size_t>(run.end_local_)]);
    taken.push_back(run.end_local_);
  }
}

void PagePool::leave_behind(PageRun& run, int64_t position) {
  if (!window_.is_used()) return;
  for (const int64_t first = std::min(first_held(position), run.end_local_); run.first_local_ < first;
       ++run.first_local_)
    window_.let_go(run.pages_[static_cast<size_t>(run.first_local_)]);
}

void PagePool::keep_window(const PageRun& run, int64_t position) {
  if (!window_.is_used()) return;
  for (int64_t i = first_held(position); i < pages_for(position); ++i) window_.keep(run.pages_[static_cast<size_t>(i)]);
}

void PagePool::begin_window(PageRun& run, int64_t pages, int64_t size) {
  ENSURE(run.size() == 0 && pages <= pages_for(size), "a window in front of its sequence");
  if (window_.is_used()) run.first_local_ = run.end_local_ = pages_for(size) - pages;
}

bool PagePool::may_write(const PageRun& run, int64_t position) const {
  const auto index = static_cast<size_t>(position / page_rows_);
  if (position < run.size() || index >= run.pages_.size()) return false;
  const int32_t number = run.pages_[index];
  return number >= 0 && number < pages() && page(number).users == 1 && !page(number).is_published;
}

std::span<const int32_t> PagePool::children_of(int32_t parent, uint64_t owner) const {
  if (parent != kNone) return page(parent).children;
  const auto roots = roots_.find(owner);
  return roots == roots_.end() ? std::span<const int32_t>() : roots->second;
}

void PagePool::add_child(int32_t number) {
  const Page& p = page(number);
  (p.parent == kNone ? roots_[p.owner] : page(p.parent).children).push_back(number);
}

void PagePool::remove_child(int32_t number) {
  const Page& p = page(number);
  if (p.parent != kNone) {
    std::erase(page(p.parent).children, number);
    return;
  }
  std::vector<int32_t>& roots = roots_.at(p.owner);
  std::erase(roots, number);
  if (roots.empty()) roots_.erase(p.owner);
}

std::pair<int32_t, int64_t> PagePool::best_child(int32_t parent, const PageRun& run,
                                                 std::span<const CachedToken> tokens) const {
  std::pair<int32_t, int64_t> best = {kNone, 0};
  for (int32_t child : children_of(parent, run.owner_))
    if (const int64_t shared = common_prefix(page(child).tokens, tokens); shared > best.second) best = {child, shared};
  return best;
}

int32_t PagePool::take() {
  if (free_.empty()) {
    ENSURE(!order_.empty(), "no page of the cache is available");
    withdraw(order_.begin()->second);
  }
  const int32_t number = free_.back();
  free_.pop_back();
  page(number).users = 1;
  return number;
}

void PagePool::use(int32_t number) {
  Page& p = page(number);
  if (p.users++ == 0) --unused_;
  update_order(number);
}

void PagePool::drop(int32_t number) {
  Page& p = page(number);
  if (--p.users > 0) return;
  if (!p.is_published) return free(number);
  ++unused_;
  p.last_use = ++clock_;
  update_order(number);
}

void PagePool::free(int32_t number) {
  window_.forget(number);
  free_.push_back(number);
}

// Another sequence may have computed the same rows, with the same bits: then one of the two pages is enough.
void PagePool::publish(PageRun& run, int64_t index) {
  const int32_t number = run.pages_[static_cast<size_t>(index)];
  if (page(number).is_published || page(number).users > 1) return;
  if (std::min(run.size(), (index + 1) * page_rows_) > run.trusted_) return;
  const int32_t parent = index == 0 ? kNone : run.pages_[static_cast<size_t>(index - 1)];
  ENSURE(parent == kNone || page(parent).is_published, "a page of the cache behind one that is not full");
  const auto tokens = run.tokens().subspan(static_cast<size_t>(index * page_rows_));
  const auto mine = tokens.first(std::min<size_t>(tokens.size(), static_cast<size_t>(page_rows_)));
  const auto [child, shared] = best_child(parent, run, mine);
  if (shared == static_cast<int64_t>(mine.size())) {
    use(child);
    if (holds(run, index)) window_.let_go(number);
    window_.give(number, child);
    if (holds(run, index)) window_.hold(child);
    run.pages_[static_cast<size_t>(index)] = child;
    return drop(number);
  }
  // One that ends earlier has nothing that this one has not, but for its state.
  if (child != kNone && shared == static_cast<int64_t>(page(child).tokens.size()) && page(child).users == 0 &&
      page(child).state == kZeroState)
    withdraw(child);
  Page& p = page(number);
  p.is_published = true;
  p.owner = run.owner_;
  p.parent = parent;
  p.tokens.assign(mine.begin(), mine.end());
  add_child(number);
  if (parent != kNone) update_order(parent);
}

void PagePool::withdraw(int32_t number) {
  while (!page(number).children.empty()) withdraw(page(number).children.back());
  Page& p = page(number);
  forget_state(number);
  remove_child(number);
  order_.erase({p.last_use, number});
  const int32_t parent = p.parent;
  p.is_published = false;
  p.parent = kNone;
  p.tokens.clear();
  if (p.users == 0) {
    --unused_;
    free(number);
  }
  if (parent != kNone) update_order(parent);
}

bool PagePool::can_go(int32_t number) const {
  const Page& p = page(number);
  return p.is_published && p.users == 0 && p.children.empty();
}

void PagePool::update_order(int32_t number) {
  const std::pair<uint64_t, int32_t> entry = {page(number).last_use, number};
  if (can_go(number))
    order_.insert(entry);
  else
    order_.erase(entry);
}

}  // namespace smelt
