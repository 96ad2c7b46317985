#include "egraph/extract.h"

#include <algorithm>

#include "base/ensure.h"

namespace smelt::egraph {
namespace {

// Classes that get another node together.
using Move = std::vector<std::pair<int, size_t>>;

class Search {
 public:
  Search(const EGraph& g, ClassId root, const CostModel& model, const Choice& fixed)
      : coster_(g, model), root_(coster_.index(g.find(root))) {
    std::vector<bool> is_fixed(coster_.classes().size(), false);
    for (const auto& [id, node] : fixed) {
      const int c = coster_.index(g.find(id));
      coster_.choice[c] = node;
      is_fixed[c] = true;
    }
    collect_moves(is_fixed);
  }

  Extraction run() {
    auto first = coster_.cost(root_);
    ENSURE(first, "the fixed nodes make a cycle");
    best_ = *first;
    note_used();
    while (improve_by_one() || improve_by_two()) {
    }
    Extraction result{.choice = {}, .cost = best_};
    for (size_t c = 0; c < coster_.choice.size(); ++c)
      if (coster_.choice[c]) result.choice[coster_.classes()[c].id] = coster_.choice[c];
    return result;
  }

 private:
  void collect_moves(const std::vector<bool>& is_fixed) {
    const auto& classes = coster_.classes();
    std::vector<Move> readers(classes.size());
    for (int c = 0; c < static_cast<int>(classes.size()); ++c) {
      if (is_fixed[c] || classes[c].nodes.size() < 2) continue;
      for (size_t n = 0; n < classes[c].nodes.size(); ++n) {
        moves_.push_back({{c, n}});
        for (int s : classes[c].nodes[n].src)
          if (readers[s].empty() || readers[s].back().first != c) readers[s].emplace_back(c, n);
      }
    }
    for (Move& move : readers)
      if (move.size() > 1) moves_.push_back(std::move(move));
  }

  // Makes the move; the move back.
  Move make(const Move& move) {
    Move back;
    for (const auto& [c, node] : move) {
      back.emplace_back(c, coster_.choice[c]);
      coster_.choice[c] = node;
    }
    std::ranges::reverse(back);
    return back;
  }

  void note_used() {
    used_.assign(coster_.classes().size(), false);
    for (int c : coster_.order()) used_[c] = true;
  }

  // Whether the move changes anything that the program uses.
  bool matters(const Move& move) const {
    return std::ranges::any_of(move,
                               [&](const auto& m) { return used_[m.first] && coster_.choice[m.first] != m.second; });
  }

  bool accept_if_better() {
    const auto cost = coster_.cost(root_);
    if (!cost || cost->total >= best_.total) return false;
    best_ = *cost;
    note_used();
    return true;
  }

  bool improve_by_one() {
    bool improved = false;
    for (const Move& move : moves_) {
      if (!matters(move)) continue;
      const Move back = make(move);
      if (accept_if_better())
        improved = true;
      else
        make(back);
    }
    return improved;
  }

  bool improve_by_two() {
    for (size_t i = 0; i < moves_.size(); ++i) {
      if (!matters(moves_[i])) continue;
      const Move back = make(moves_[i]);
      const auto first = coster_.cost(root_);
      const std::vector<bool> used_before = used_;
      if (first) {
        note_used();
        for (const Move& move : moves_) {
          if (!matters(move)) continue;
          const Move second_back = make(move);
          if (accept_if_better()) return true;
          make(second_back);
        }
      }
      used_ = used_before;
      make(back);
    }
    return false;
  }

  Coster coster_;
  int root_;
  std::vector<Move> moves_;
  std::vector<bool> used_;  // by class: in the program of the moment
  Cost best_;
};

}  // namespace

Extraction extract(const EGraph& g, ClassId root, const CostModel& model, const Choice& fixed) {
  return Search(g, root, model, fixed).run();
}

}  // namespace smelt::egraph
