// Matcher: runs an automaton over bytes. It follows all ways at once: a state is the set of stacks that the text so far
// can have led to. States are numbered when they first appear, and a step that was taken once is a look-up.
//
// Not thread-safe: one for each text that is being written. States stay valid until forget().
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "grammar/automaton.h"

namespace smelt {

class Matcher {
 public:
  using State = int32_t;
  static constexpr State kDead = 0;  // no text of the grammar begins like this

  // What lies below the last stack entry: where the end of its rule leads.
  enum Bottom : int32_t {
    kEndOfText = -1,
    kUnknown = -2,    // nobody knows: see leaves()
    kAnyCaller = -3,  // behind any of the rule's calls: more texts than there are
  };

  // REQUIRES: `automaton` outlives this.
  explicit Matcher(const Automaton& automaton);

  State start() { return at(automaton_.start(), kEndOfText); }
  State at(int32_t position, Bottom bottom);
  State step(State state, uint8_t byte);

  bool is_complete(State s) const { return info(s).is_complete; }  // the text may end here
  bool leaves(State s) const { return info(s).leaves; }            // a rule above kUnknown may end here
  // The positions that wait for a byte, at the tops of its stacks.
  std::vector<int32_t> positions(State s) const;

  // A text that has more ways to be read than this is given up: the state is dead and this is true.
  bool is_too_ambiguous() const { return too_ambiguous_; }
  // Forgets all states, if they have become many. Returns whether it did.
  bool forget_if_large();

 private:
  struct Frame {
    int32_t position, below;  // below: a frame, or a Bottom
  };
  struct Info {
    std::vector<int32_t> stacks;  // their top frames, ascending
    bool is_complete = false, leaves = false;
    std::unique_ptr<std::array<State, 256>> next;
  };
  struct Closure;

  const Info& info(State s) const { return states_[static_cast<size_t>(s)]; }
  int32_t frame(int32_t position, int32_t below);
  void open(Closure& c, int32_t position, int32_t below);
  State close(Closure& c);
  void expand(Closure& c, Frame f);
  void finish_rule(Closure& c, Frame f);
  void reset();

  const Automaton& automaton_;
  std::vector<Frame> frames_;
  std::unordered_map<uint64_t, int32_t> frame_of_;
  std::vector<Info> states_;
  std::unordered_multimap<uint64_t, State> state_of_;  // by the hash of stacks and flags
  bool too_ambiguous_ = false;
};

}  // namespace smelt
