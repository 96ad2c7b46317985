#include "grammar/automaton.h"

#include <string>
#include <utility>

namespace smelt {

class AutomatonBuilder {
 public:
  explicit AutomatonBuilder(const Grammar& grammar) : grammar_(grammar) {}

  Result<Automaton> build() {
    for (int rule = 0; rule <= grammar_.rules(); ++rule) {
      const Grammar::Expr body = rule < grammar_.rules() ? grammar_.body(rule) : grammar_.root();
      if (body < 0) return Error{"[grammar] rule '" + name(rule) + "' is used, but not defined"};
      rule_ = rule;
      out_.starts_.push_back(add());
      const int32_t end = append(body, out_.starts_.back());
      if (is_full()) return too_large();
      position(end).is_end = true;
    }
    SMELT_CHECK(refuse_left_recursion());
    cut_dead_ends();
    if (!is_live(out_.start())) return Error{"[grammar] no text can satisfy this grammar"};
    find_callers();
    find_returns();
    return std::move(out_);
  }

 private:
  using Kind = Grammar::Kind;

  Automaton::Position& position(int32_t p) { return out_.positions_[static_cast<size_t>(p)]; }
  std::string name(int32_t rule) const { return rule < grammar_.rules() ? grammar_.rule_name(rule) : "root"; }
  bool is_full() const { return out_.size() > kMostPositions; }

  static Error too_large() {
    return {"[grammar] the grammar needs more than " + std::to_string(kMostPositions) +
            " positions; use smaller repetition counts or lengths"};
  }

  int32_t add() {
    out_.positions_.push_back({.rule = rule_});
    return out_.size() - 1;
  }

  // Writes the expression behind `from`; returns where it ends. Once the automaton is too large, nothing more is
  // written.
  int32_t append(Grammar::Expr e, int32_t from) {
    if (is_full()) return from;
    const Grammar::Node& node = grammar_.node(e);
    switch (node.kind) {
      case Kind::Bytes: {
        const int32_t to = add();
        position(from).edges.push_back({node.bytes.first, node.bytes.last, to});
        return to;
      }
      case Kind::Sequence:
        for (Grammar::Expr part : node.parts) from = append(part, from);
        return from;
      case Kind::Choice: return append_choice(node, from);
      case Kind::Repeat: return append_repeat(node, from);
      case Kind::Graph: return append_graph(grammar_.graph_of(node), from);
      case Kind::Rule: {
        const int32_t call = add();
        position(from).next.push_back(call);
        const int32_t after = add();
        position(call).call = node.rule;
        position(call).after = after;
        return after;
      }
    }
    return from;
  }

  int32_t append_choice(const Grammar::Node& node, int32_t from) {
    const int32_t end = add();
    for (Grammar::Expr part : node.parts) {
      const int32_t last = append(part, from);
      position(last).next.push_back(end);
      if (is_full()) break;
    }
    return end;
  }

  int32_t append_repeat(const Grammar::Node& node, int32_t from) {
    for (int i = 0; i < node.least && !is_full(); ++i) from = append(node.parts[0], from);
    if (node.most < 0) {
      const int32_t loop = add();
      position(from).next.push_back(loop);
      const int32_t last = append(node.parts[0], loop);
      position(last).next.push_back(loop);
      return loop;
    }
    const int32_t end = add();
    for (int i = node.least; i < node.most && !is_full(); ++i) {
      position(from).next.push_back(end);
      from = append(node.parts[0], from);
    }
    position(from).next.push_back(end);
    return end;
  }

  int32_t append_graph(const Grammar::Graph& graph, int32_t from) {
    std::vector<int32_t> at;
    for (int s = 0; s < graph.states && !is_full(); ++s) at.push_back(add());
    const int32_t end = add();
    if (is_full()) return end;
    position(from).next.push_back(at[0]);
    for (const Grammar::Graph::Edge& e : graph.edges) {
      const int32_t begin = at[static_cast<size_t>(e.from)], to = at[static_cast<size_t>(e.to)];
      const Grammar::Node& label = grammar_.node(e.label);
      if (label.kind == Kind::Bytes)
        position(begin).edges.push_back({label.bytes.first, label.bytes.last, to});
      else
        position(append(e.label, begin)).next.push_back(to);
      if (is_full()) break;
    }
    for (int s : graph.ends) position(at[static_cast<size_t>(s)]).next.push_back(end);
    return end;
  }

  // --- walks over all rules at once, from their starts. A call is passed once the rule that it calls can be.

  struct Walk {
    std::vector<char> seen;                     // by position
    std::vector<char> passable;                 // by rule: its end was reached
    std::vector<std::vector<int32_t>> waiting;  // by rule: what comes behind its calls
    std::vector<int32_t> open;
  };

  void visit(Walk& w, int32_t p) const {
    if (w.seen[static_cast<size_t>(p)]) return;
    w.seen[static_cast<size_t>(p)] = 1;
    w.open.push_back(p);
  }

  Walk walk(bool over_bytes) {
    Walk w;
    w.seen.resize(out_.positions_.size());
    w.passable.resize(out_.starts_.size());
    w.waiting.resize(out_.starts_.size());
    for (int32_t start : out_.starts_) visit(w, start);
    while (!w.open.empty()) {
      const Automaton::Position& p = position(w.open.back());
      w.open.pop_back();
      for (int32_t n : p.next) visit(w, n);
      if (over_bytes)
        for (const Automaton::Edge& e : p.edges) visit(w, e.to);
      if (p.call >= 0) {
        if (w.passable[static_cast<size_t>(p.call)]) visit(w, p.after);
        w.waiting[static_cast<size_t>(p.call)].push_back(p.after);
      }
      if (p.is_end && !w.passable[static_cast<size_t>(p.rule)]) {
        w.passable[static_cast<size_t>(p.rule)] = 1;
        for (int32_t after : w.waiting[static_cast<size_t>(p.rule)]) visit(w, after);
      }
    }
    return w;
  }

  // A rule that calls itself before any byte would never come to an end.
  Status refuse_left_recursion() {
    const Walk w = walk(false);
    std::vector<std::vector<int32_t>> calls(out_.starts_.size());
    for (int32_t p = 0; p < out_.size(); ++p)
      if (w.seen[static_cast<size_t>(p)] && position(p).call >= 0)
        calls[static_cast<size_t>(position(p).rule)].push_back(position(p).call);
    std::vector<char> state(calls.size());  // 0 not seen, 1 on the path, 2 done
    for (size_t root = 0; root < calls.size(); ++root) {
      std::vector<std::pair<size_t, size_t>> path;
      if (state[root] == 0) path.push_back({root, 0}), state[root] = 1;
      while (!path.empty()) {
        auto& [rule, next] = path.back();
        if (next == calls[rule].size()) {
          state[rule] = 2;
          path.pop_back();
          continue;
        }
        const auto called = static_cast<size_t>(calls[rule][next++]);
        if (state[called] == 1)
          return Error{"[grammar] rule '" + name(static_cast<int32_t>(called)) +
                       "' begins with itself; write the repetition behind something (a ::= b a*)"};
        if (state[called] == 0) path.push_back({called, 0}), state[called] = 1;
      }
    }
    return {};
  }

  bool is_live(int32_t p) const { return live_[static_cast<size_t>(p)]; }

  // Marks the positions from which their rule can end, and forgets the ways to all others.
  void cut_dead_ends() {
    const Walk productive = walk(true);
    std::vector<std::vector<int32_t>> before(out_.positions_.size());
    std::vector<int32_t> open;
    live_.assign(out_.positions_.size(), 0);
    const auto mark = [&](int32_t p) {
      if (!live_[static_cast<size_t>(p)]) live_[static_cast<size_t>(p)] = 1, open.push_back(p);
    };
    for (int32_t p = 0; p < out_.size(); ++p) {
      const Automaton::Position& at = position(p);
      for (int32_t n : at.next) before[static_cast<size_t>(n)].push_back(p);
      for (const Automaton::Edge& e : at.edges) before[static_cast<size_t>(e.to)].push_back(p);
      if (at.call >= 0 && productive.passable[static_cast<size_t>(at.call)])
        before[static_cast<size_t>(at.after)].push_back(p);
    }
    for (int32_t p = 0; p < out_.size(); ++p)
      if (position(p).is_end) mark(p);
    while (!open.empty()) {
      const int32_t p = open.back();
      open.pop_back();
      for (int32_t b : before[static_cast<size_t>(p)]) mark(b);
    }
    for (Automaton::Position& p : out_.positions_) {
      std::erase_if(p.next, [&](int32_t n) { return !is_live(n); });
      std::erase_if(p.edges, [&](const Automaton::Edge& e) { return !is_live(e.to); });
      if (p.call >= 0 && (!is_live(p.after) || !productive.passable[static_cast<size_t>(p.call)]))
        p.call = p.after = -1;
    }
  }

  void find_callers() {
    out_.callers_.resize(out_.starts_.size());
    for (const Automaton::Position& p : out_.positions_)
      if (p.call >= 0) out_.callers_[static_cast<size_t>(p.call)].push_back(p.after);
  }

  void find_returns() {
    for (Automaton::Position& p : out_.positions_) {
      const Automaton::Position* at = &p;
      while (!at->is_end && at->next.size() == 1 && at->edges.empty() && at->call < 0) at = &position(at->next[0]);
      p.only_returns = at->is_end && at->next.empty() && at->edges.empty() && at->call < 0;
    }
  }

  const Grammar& grammar_;
  Automaton out_;
  std::vector<char> live_;  // by position
  int32_t rule_ = 0;        // that is being written
};

Result<Automaton> Automaton::from(const Grammar& grammar) { return AutomatonBuilder(grammar).build(); }

}  // namespace smelt
