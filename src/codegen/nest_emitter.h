// The instructions of one nest, or of the nests of a tile: where each value is computed and which loops are open.
//
// nest_emitter.cpp: scopes, task loops and stores; emit_values.cpp: what is computed; emit_reductions.cpp: loops of
// sums.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/linearize.h"
#include "codegen/nest_facts.h"

namespace smelt {

// Instructions under construction are named by ids that do not change when code moves.
struct Emitted {
  Instruction instruction;
  int id;
};
using Code = std::vector<Emitted>;

struct Value {  // what an instruction of `lanes` lanes, in the loop of this depth, gives
  int id = -1;
  int depth = 0;
  int lanes = 1;
};

class NestEmitter {
 public:
  // `nests` are one, or those of a tile.
  NestEmitter(std::span<const ExpandedNest> nests, std::vector<std::string>& symbols,
              std::map<int64_t, int64_t>& scratch, int64_t& scratch_bytes, int& next_id)
      : nests_(nests),
        symbols_(symbols),
        scratch_(scratch),
        scratch_bytes_(scratch_bytes),
        next_id_(next_id) {}

  Code run();

 private:
  // An open loop. Its Loop instruction is written when it closes: until then invariants still go in front of it.
  struct Scope {
    Code code;
    int begin = -1, end = -1, loop = -1;
    int64_t rounds = 0;  // at most
  };

  struct GroupKey {
    Refs ranges;
    int height;
    bool operator<(const GroupKey& o) const {
      const auto key = [](const Refs& r) {
        std::vector<uint64_t> k;
        for (Ref x : r) k.push_back(x->key);
        return k;
      };
      return std::make_pair(key(ranges), height) < std::make_pair(key(o.ranges), o.height);
    }
  };

  void enter(const ExpandedNest& nest);
  void find_siblings(const Refs& stores);
  void find_shared(const Refs& stores);

  // --- loops
  int add(int depth, Instruction instruction);
  int top() const;
  void open_scope(int begin, int end);
  void close_scope();
  void open_loop(Ref range);
  Refs loops_of(Ref store, RangeKind kind) const;
  size_t open_task_loops();
  std::vector<Refs> groups_by_loops(const Refs& stores) const;
  void emit_stores(const Refs& group);
  void ask_ahead();
  void emit_store(Ref store, Value v);

  // --- values
  Value alu(Op op, DType dtype, const std::vector<Value>& src, Arg arg = {});
  Value integer(int64_t x);
  Value number(double x, DType dtype);
  Value value(Ref n);
  void compute_together(Refs nodes);
  Value compute(Ref n);
  Value symbol(const std::string& name);
  Value local(Ref n);
  Value lane_index(Ref range);
  Value load(Ref n);
  Value matrix_dot(Ref n);
  Value matrix_row(Ref n);
  bool is_from_memory(Ref load) const;
  bool is_tile() const;
  static bool is_word(Ref load);
  // To ask for when it happens; 0: nothing.
  int64_t bytes_ahead(Ref load, Ref offset, int depth);
  bool is_in_reduction(Ref offset);
  void prefetch(Value pointer, Value at, int64_t bytes);
  Value lane_reduce(Ref n);

  // --- reductions
  int depth_of(const RangeSet& ranges) const;
  int depth_of_reduction(Ref n);
  void emit_reductions(Ref first);
  bool all_known(const RangeSet& ranges) const;
  int new_accumulator(int depth, Value initial, DType dtype, int lanes);
  Value get(int accumulator, DType dtype, int lanes);
  void set(int accumulator, Value v, DType dtype, int lanes);
  Value identity(Op op, DType dtype);
  Ref greatest_score(const Refs& terms);
  void emit_loop_of(const Refs& group, int depth);
  struct Addend {
    Ref value;
    Op sign;  // Add or Sub
  };
  std::vector<Addend> addends_of(Ref term) const;
  void compute_addends(const Refs& terms);
  Value sum_of(Value sum, const std::vector<Addend>& addends, DType dtype);
  Value exp_of_difference(Value x, Value y, DType dtype);
  Value softmax_step(Ref n, const Refs& terms, Value sum, Value old_max, Value new_max);
  static Ref flat_index(const Refs& ranges);
  std::vector<Value> topk_step(Ref term, Value index, int64_t k, const Value* old);

  std::span<const ExpandedNest> nests_;
  std::set<const Node*> written_;  // buffers that nests of a tile pass on
  Ref step_;                       // the loop that is open around some nests of the tile
  int floor_ = 0;                  // depth of the loops around the nest
  std::vector<std::string>& symbols_;
  std::map<int64_t, int64_t>& scratch_;  // byte offset by Local number
  int64_t& scratch_bytes_;
  int& next_id_;
  const Ahead* ahead_ = nullptr;  // of the nest under way
  NestFacts facts_;
  std::set<const Node*> reductions_, shared_;
  std::set<const Node*>
      passed_on_;  // nodes of the nest made of what nests of the tile have written
  std::map<GroupKey, Refs> siblings_;
  std::vector<Scope> scopes_;
  std::unordered_map<const Node*, Value> values_;
  std::map<std::pair<const Node*, int64_t>, Value> topk_items_;
  std::map<std::pair<int, int>, Value> rescale_;
};

// The Tile ranges of a nest: those of neighbours that are the same run together.
Refs tile_ranges_of(const ExpandedNest& nest);

// The Step range of a nest; null if it has none.
Ref step_range_of(const ExpandedNest& nest);

}  // namespace smelt
