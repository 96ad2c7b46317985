#include "engine/window_pages.h"

#include <utility>

#include "base/ensure.h"

namespace smelt {

WindowPages::WindowPages(const WindowSize& size, int64_t pages) : size_(size) {
  if (!is_used()) return;
  entries_.resize(static_cast<size_t>(pages));
  for (auto number = static_cast<int32_t>(size.pages); number-- > 0;) free_.push_back(number);  // the first one on top
}

void WindowPages::change_holders(int32_t page, int by) {
  Entry& e = entry(page);
  ENSURE(e.local != kNone && e.holders + by >= 0, "a local page that is not there is held");
  if (e.holders == 0) order_.erase(place(page));
  e.holders += by;
  if (e.holders > 0) return;
  e.last_use = ++clock_;
  order_.insert(place(page));
}

int32_t WindowPages::take_number() {
  if (free_.empty()) {
    ENSURE(!order_.empty(), "sequences hold more local pages than they need");
    forget(std::get<int32_t>(*order_.begin()));
  }
  const int32_t number = free_.back();
  free_.pop_back();
  return number;
}

void WindowPages::take(int32_t page) {
  ENSURE(!is_there(page), "a page has one local page");
  const int32_t number = take_number();
  entry(page) = {.local = number, .holders = 1};
}

void WindowPages::hold(int32_t page) { change_holders(page, 1); }

void WindowPages::let_go(int32_t page) { change_holders(page, -1); }

void WindowPages::keep(int32_t page) {
  Entry& e = entry(page);
  if (!is_used() || e.local == kNone || e.is_kept) return;
  const bool is_in_order = order_.erase(place(page)) > 0;
  e.is_kept = true;
  if (is_in_order) order_.insert(place(page));
}

void WindowPages::forget(int32_t page) {
  if (!is_used() || !is_there(page)) return;
  ENSURE(entry(page).holders == 0, "a local page that a sequence needs");
  order_.erase(place(page));
  free_.push_back(std::exchange(entry(page), {}).local);
}

void WindowPages::give(int32_t from, int32_t to) {
  if (!is_used() || !is_there(from) || is_there(to)) return;
  order_.erase(place(from));
  entry(to) = std::exchange(entry(from), {});
  order_.insert(place(to));
}

}  // namespace smelt
