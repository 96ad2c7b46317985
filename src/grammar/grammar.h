// Grammar: which texts a model may write, as rules over bytes.
//
//   GBNF text, a regular expression or a JSON schema  ->  Grammar  ->  Automaton  ->  masks over a vocabulary
//
// Expressions live in the grammar that made them and are named by numbers; they are shared freely and never change.
// Nothing here is recursive at run time on what a user wrote: readers bound the depth of what they build (limits
// below).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/codepoints.h"

namespace smelt {

// Limits of what one grammar may ask for. A reader that meets one says so in a sentence.
constexpr size_t kLongestGrammar = 256 << 10;  // bytes of GBNF, regular expression or schema
constexpr int kDeepestGrammar = 256;           // nested groups, schemas
constexpr int kMostPositions = 100'000;        // of the automaton, repetitions written out

class Grammar {
 public:
  using Expr = int32_t;
  enum class Kind : uint8_t { Bytes, Sequence, Choice, Repeat, Rule, Graph };

  // Ways from state 0 to one of the ends, each edge a text of its label.
  struct Graph {
    struct Edge {
      int from;
      Expr label;
      int to;
    };
    int states = 1;
    std::vector<Edge> edges;
    std::vector<int> ends;
  };

  struct Node {
    Kind kind;
    ByteRange bytes{};          // Bytes: one byte of this range
    std::vector<Expr> parts{};  // Sequence (empty: the empty text), Choice (empty: no text at all), Repeat (one)
    int least = 0, most = 0;    // Repeat; most < 0: without end
    int rule = -1;              // Rule
    int graph = -1;             // Graph
  };

  static constexpr Expr kEmpty = 0;    // the empty text
  static constexpr Expr kNothing = 1;  // no text at all

  Grammar();

  Expr literal(std::string_view bytes);
  Expr bytes(ByteRange range) { return add({.kind = Kind::Bytes, .bytes = range}); }  // one byte
  Expr characters(const Codepoints& set);  // one character of the set, as UTF-8
  Expr sequence(std::vector<Expr> parts);
  Expr choice(std::vector<Expr> parts);
  Expr repeat(Expr part, int least, int most = -1);
  Expr graph(Graph graph);
  Expr optional(Expr part) { return repeat(part, 0, 1); }

  // A rule may be used before it is defined, also in its own definition.
  int add_rule(std::string name);
  void define(int rule, Expr body);
  bool is_defined(int rule) const { return bodies_[static_cast<size_t>(rule)] >= 0; }
  Expr use(int rule);

  // What a whole text is.
  void set_root(Expr root) { root_ = root; }
  Expr root() const { return root_; }

  const Node& node(Expr e) const { return nodes_[static_cast<size_t>(e)]; }
  const Graph& graph_of(const Node& n) const { return graphs_[static_cast<size_t>(n.graph)]; }
  int rules() const { return static_cast<int>(bodies_.size()); }
  const std::string& rule_name(int rule) const { return names_[static_cast<size_t>(rule)]; }
  Expr body(int rule) const { return bodies_[static_cast<size_t>(rule)]; }
  size_t size() const { return nodes_.size(); }

 private:
  Expr add(Node node);

  std::vector<Node> nodes_;
  std::vector<Graph> graphs_;
  std::vector<std::string> names_;
  std::vector<Expr> bodies_;  // -1: not defined yet
  Expr root_ = kEmpty;
};

}  // namespace smelt
