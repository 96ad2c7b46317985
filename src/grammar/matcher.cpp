#include "grammar/matcher.h"

#include <algorithm>
#include <unordered_set>

namespace smelt {
namespace {

constexpr size_t kMostStacks = 4096;    // of a state
constexpr size_t kManyStates = 30'000;  // about a kilobyte each
constexpr Matcher::State kNotKnown = -1;

uint64_t key_of(int32_t position, int32_t below) {
  return static_cast<uint64_t>(static_cast<uint32_t>(position)) << 32 | static_cast<uint32_t>(below);
}

uint64_t hash_of(const std::vector<int32_t>& stacks, bool is_complete, bool leaves) {
  uint64_t h = 2 * is_complete + leaves + 0x9E3779B97F4A7C15u;
  for (int32_t s : stacks) h = (h ^ static_cast<uint32_t>(s)) * 0x100000001B3u, h ^= h >> 29;
  return h;
}

}  // namespace

// All that can be reached without a byte.
struct Matcher::Closure {
  std::vector<Frame> open;
  std::unordered_set<uint64_t> seen;
  Info result;
};

Matcher::Matcher(const Automaton& automaton) : automaton_(automaton) { reset(); }

void Matcher::reset() {
  frames_.clear();
  frame_of_.clear();
  states_.clear();
  state_of_.clear();
  Closure nothing;
  close(nothing);  // kDead
}

bool Matcher::forget_if_large() {
  if (states_.size() < kManyStates && frames_.size() < 16 * kManyStates) return false;
  reset();
  return true;
}

int32_t Matcher::frame(int32_t position, int32_t below) {
  const auto [it, is_new] = frame_of_.try_emplace(key_of(position, below), static_cast<int32_t>(frames_.size()));
  if (is_new) frames_.push_back({position, below});
  return it->second;
}

void Matcher::open(Closure& c, int32_t position, int32_t below) {
  if (c.seen.size() < 16 * kMostStacks) {
    if (c.seen.insert(key_of(position, below)).second) c.open.push_back({position, below});
  } else {
    too_ambiguous_ = true;
  }
}

void Matcher::finish_rule(Closure& c, Frame f) {
  switch (f.below) {
    case kEndOfText: c.result.is_complete = true; return;
    case kUnknown: c.result.leaves = true; return;
    case kAnyCaller: {
      const int32_t rule = automaton_.at(f.position).rule;
      for (int32_t after : automaton_.callers(rule)) open(c, after, kAnyCaller);
      if (rule == automaton_.at(automaton_.start()).rule) c.result.is_complete = true;
      return;
    }
    default: {
      const Frame below = frames_[static_cast<size_t>(f.below)];
      open(c, below.position, below.below);
    }
  }
}

void Matcher::expand(Closure& c, Frame f) {
  const Automaton::Position& p = automaton_.at(f.position);
  for (int32_t n : p.next) open(c, n, f.below);
  if (p.is_end) finish_rule(c, f);
  if (p.call >= 0) {
    // A call at the very end of a rule comes back to where the rule comes back to: lists do not grow the stack.
    const bool returns_below = automaton_.at(p.after).only_returns && f.below != kAnyCaller;
    open(c, automaton_.start_of(p.call), returns_below ? f.below : frame(p.after, f.below));
  }
  if (!p.edges.empty()) c.result.stacks.push_back(frame(f.position, f.below));
}

Matcher::State Matcher::close(Closure& c) {
  while (!c.open.empty()) {
    const Frame f = c.open.back();
    c.open.pop_back();
    expand(c, f);
  }
  std::vector<int32_t>& stacks = c.result.stacks;
  std::sort(stacks.begin(), stacks.end());
  if (stacks.size() > kMostStacks) too_ambiguous_ = true;
  if (too_ambiguous_ && !states_.empty()) return kDead;
  const uint64_t hash = hash_of(stacks, c.result.is_complete, c.result.leaves);
  for (auto [it, end] = state_of_.equal_range(hash); it != end; ++it) {
    const Info& other = info(it->second);
    if (other.stacks == stacks && other.is_complete == c.result.is_complete && other.leaves == c.result.leaves)
      return it->second;
  }
  states_.push_back(std::move(c.result));
  const auto number = static_cast<State>(states_.size()) - 1;
  state_of_.emplace(hash, number);
  return number;
}

Matcher::State Matcher::at(int32_t position, Bottom bottom) {
  Closure c;
  open(c, position, bottom);
  return close(c);
}

Matcher::State Matcher::step(State state, uint8_t byte) {
  auto& table = states_[static_cast<size_t>(state)].next;
  if (!table) {
    table = std::make_unique<std::array<State, 256>>();
    table->fill(kNotKnown);
  }
  if (const State known = (*table)[byte]; known != kNotKnown) return known;
  Closure c;
  for (int32_t top : info(state).stacks) {
    const Frame f = frames_[static_cast<size_t>(top)];
    for (const Automaton::Edge& e : automaton_.at(f.position).edges)
      if (e.first <= byte && byte <= e.last) open(c, e.to, f.below);
  }
  const State to = close(c);
  (*states_[static_cast<size_t>(state)].next)[byte] = to;  // states_ may have moved
  return to;
}

std::vector<int32_t> Matcher::positions(State s) const {
  std::vector<int32_t> positions;
  for (int32_t top : info(s).stacks) positions.push_back(frames_[static_cast<size_t>(top)].position);
  std::sort(positions.begin(), positions.end());
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
  return positions;
}

}  // namespace smelt
