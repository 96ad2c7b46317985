// The instructions of one nest, or of the nests of a tile: where each value is computed and which loops are open.
//
// nest_emitter.cpp: scopes, task loops and stores; ask_early.cpp: what is asked for before all else; emit_values.cpp:
// what is computed; emit_reductions.cpp: loops of sums; emit_copies.cpp: what is sent ahead to on-chip memory, and
// emit_task_copies.cpp: what is sent there for a task; emit_threads.cpp: lanes that are threads of a block.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "codegen/early_regions.h"
#include "codegen/instruction_views.h"
#include "codegen/linearize.h"
#include "codegen/nest_facts.h"
#include "graph/matrix_shape.h"

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

// Where the scratch memory of a program lies.
struct ScratchMap {
  std::map<int64_t, int64_t> locals;  // byte offset by Local number
  // Memory through which threads pass values to each other: by bytes of a value, and how many a nest has before.
  std::map<std::pair<int64_t, int>, int64_t> exchanges;
};

// Tasks of a nest, and those of the nests before it, whose blocks come first: values of the launch.
struct TaskShare {
  Ref before, count;
};

class NestEmitter {
 public:
  // `nests` are one, or those of a tile. Into `program` go its symbols and scratch memory. `tasks_before`: what nests
  // before have, as blocks that they leave idle come first here.
  NestEmitter(std::span<const ExpandedNest> nests, const Machine& machine, Ref tasks_before, Program& program,
              ScratchMap& scratch, int& next_id)
      : nests_(nests),
        machine_(machine),
        tasks_before_(std::move(tasks_before)),
        program_(program),
        scratch_(scratch),
        next_id_(next_id) {}

  Code run();
  // The same, but run only by blocks that have tasks of one of these.
  Code run_for(std::span<const TaskShare> readers);
  // The same by the first part that a worker takes: the others find it in its scratch memory.
  Code run_once();
  // Asks for what the first task of the nest will read of large buffers, as far as that is known early
  // (early_regions.h), or sends it on chip: a part of the program before Inst::Await. Instead of run().
  Code ask_early();
  // What stands behind that, if launches overlap. `tasks`: of all nests of the program.
  Code await(Ref tasks);

 private:
  // An open loop. Its Loop instruction is written when it closes: until then invariants still go in front of it.
  struct Scope {
    Code code;
    int begin = -1, end = -1, loop = -1;
    int64_t rounds = 0;                // at most
    int64_t threads = 0;               // see Inst::Loop
    std::vector<int64_t> within = {};  // both bounds of the loop, see Inst::Loop
    Refs ranges = {};                  // that it goes through, outermost first: those of a tile are one loop
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
  void open_scope(int begin, int end, Ref size);
  void close_scope();
  void open_loop(Ref range);
  size_t open_task_loops();
  Value open_loop_over_share(Value total, Ref count);
  Value open_loop_of_block(Value total, Ref count, Value part, Value parts);
  Value of_part(PartValue value);
  Code under(Code code, Value rounds);
  Value total_of(const Refs& tasks);
  Value first_task(Ref before, Value part, Value parts);
  void know_tasks(const Refs& tasks, Value number);
  void know_first_task(const Refs& tasks);
  void ask_for_pages(const EarlyRegion& region, const EarlyPages& pages, int64_t before, Value at, const Refs& tasks);
  std::vector<Refs> groups_by_loops(const Refs& stores) const;
  void emit_stores(const Refs& group);
  void load_before_sums(const Refs& stored);
  void ask_ahead();
  void send_for_first_task(const TaskCopies& copies, const Refs& tasks);
  void send_for_task(const TaskCopies& copies, Value round);
  void send_in_bulk(const TaskCopies& copies, const TaskCopy& copy, Value is_wanted);
  void send_by_threads(const TaskCopy& copy);
  bool is_staged(const Refs& ranges) const;
  bool sends_weights_early(const ExpandedNest& nest) const;
  Value begins_with(const Refs& tasks);
  Value lacks_weights(Value round);
  void send_first_weights(const ExpandedNest& nest, const Refs& tasks);
  void init_signals(const std::optional<Value>& is_wanted);
  void send_first_rounds();
  void send_next_round();
  std::optional<Value> is_round(Value round);
  std::optional<Value> both(const std::optional<Value>& x, const std::optional<Value>& y);
  void send_round(Value round, Value slot, const std::optional<Value>& wants_weights = std::nullopt);
  Value begin_of(const StagedRegion& region, Value round);
  void wait_for_signal(Value round);
  void send_in_bulk(const StagedRegion& region, Value round, Value slot, const std::optional<Value>& is_round);
  void send(const StagedRegion& region, Value round, Value slot, const std::optional<Value>& is_wanted);
  void emit_store(Ref store, Value v);

  // --- values
  std::vector<size_t> order_of_operands(Ref n);
  Value alu(Op op, DType dtype, const std::vector<Value>& src, Arg arg = {});
  Value integer(int64_t x);
  Value number(double x, DType dtype);
  Value value(Ref n);
  void compute_together(Refs nodes);
  Value compute(Ref n);
  Value symbol(Ref variable);
  Value local(Ref n);
  Value lane_index(Ref range);
  Value load(Ref n);
  Value matrix_dot(Ref n, const std::vector<Value>& sums);
  Value matrix_item(Ref n, Value product);
  bool is_from_memory(Ref buffer, Ref offset) const;
  bool is_tile() const;
  static bool is_word(Ref load);
  // To ask for when it happens; 0: nothing.
  int64_t bytes_ahead(Ref load, Ref offset, int depth);
  int64_t bytes_ahead_in_tile(Ref offset, int depth);
  bool is_hinted(Ref buffer, Ref offset, int64_t bytes, int64_t ahead);
  bool is_in_reduction(Ref offset);
  std::optional<int64_t> bytes_to_next_output(Ref offset, int depth);
  MatrixShape with_rows_ahead(Ref product, MatrixShape shape) const;
  void ask_for_columns(Ref product, const MatrixShape& shape, int depth);
  void prefetch(Value pointer, Value at, int64_t bytes);
  Value lane_reduce(Ref n);

  // --- threads of a block
  bool is_block() const { return program_.threads > 1; }
  int64_t idle_threads() const;
  int threads_of_some(const ExpandedNest& nest) const;
  bool goes_on_with_some(const ExpandedNest& nest) const;
  void open_scope_of_some(const ExpandedNest& nest);
  void close_scope_of_some();
  bool is_over_threads(Ref n);
  Value thread();
  Value thread_lane(Ref range);
  std::optional<Value> storing_threads(const Refs& lanes);
  Value combined(Op reduce, Value x, Value y, DType dtype);
  Value halves(Op reduce, std::vector<Value> terms, DType dtype);
  struct Exchange {
    int pointer = -1;
    int depth = 0;
  };
  Exchange store_for_others(Value x, DType dtype);
  Value reduce_exchanged(Ref reduction, const Exchange& exchange, int64_t stride, int64_t count);
  Value reduce_in_warp(Ref reduction, Value x, int64_t stride, int64_t count);
  void reduce_threads(Refs reductions);
  void exchange_together(const Refs& stored);

  // --- reductions
  class ReductionLoop;
  int depth_of(const RangeSet& ranges) const;
  int depth_of_reduction(Ref n);
  static bool is_all_or_none(Ref range);
  void emit_reductions(Ref first);
  bool all_known(const RangeSet& ranges) const;
  int new_accumulator(int depth, Value initial, DType dtype, int lanes);
  Value get(int accumulator, DType dtype, int lanes);
  void set(int accumulator, Value v, DType dtype, int lanes);
  Value identity(Op op, DType dtype);
  void compute_terms(const Refs& terms);
  Value sum_with(Value sum, Ref term);
  Value exp_of_difference(Value x, Value y, DType dtype);
  Value of_other_thread(Inst which, Value x, DType dtype, int64_t number);
  Value softmax_step(Ref n, std::span<const Ref> terms, Value sum, Value old_max, Value new_max);
  static Ref flat_index(const Refs& ranges);
  std::vector<Value> topk_step(Ref term, Value index, int64_t k, const Value* old);

  std::span<const ExpandedNest> nests_;
  const Machine& machine_;
  const Ref tasks_before_;
  std::set<const Node*> written_;  // buffers between nests of a tile, and those that have what a task reads
  Ref chunks_;                     // the loop that is open around some nests of the tile
  int floor_ = 0;                  // depth of the loops around the nest
  int threads_of_some_ = 0;        // of the block that run the scope which is open; 0: all do
  int least_depth_ = 0;            // of what is computed inside of a loop that is a condition
  Program& program_;
  ScratchMap& scratch_;
  int exchanges_ = 0;  // in use by the nest
  int& next_id_;
  const Ahead* ahead_ = nullptr;  // of the nest under way
  const Staging* staging_ = nullptr;
  // Whether the first rounds of a task have to send their weights, and to make the signals; none: all have to.
  std::optional<Value> wants_weights_;
  int64_t nest_threads_ = 0;
  bool has_halves_ = false;  // the nest has products of these
  NestFacts facts_;
  std::set<const Node*> reductions_, shared_;
  std::set<const Node*> asked_;  // offsets of columns in the nest that were asked for
  // Constants of the offsets that have a hint, by buffer, what else is in the offset, and distance.
  std::map<std::tuple<const Node*, const Node*, int64_t>, std::set<int64_t>> hinted_;
  std::set<const Node*> passed_on_;  // nodes of the nest that depend on these buffers
  std::map<GroupKey, Refs> siblings_;
  std::vector<Scope> scopes_;
  std::unordered_map<const Node*, Value> values_;
  std::map<std::pair<const Node*, int64_t>, Value> topk_items_;
  std::map<std::pair<int, int>, Value> rescale_;
};

// The ranges whose iterations together are the tasks of a nest, or of the nests of a tile.
Refs task_ranges(const Refs& stores);

}  // namespace smelt
