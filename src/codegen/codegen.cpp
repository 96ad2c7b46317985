#include "codegen/codegen.h"

#include <algorithm>
#include <optional>

#include "base/ensure.h"
#include "base/resident_blocks.h"
#include "codegen/block_threads.h"
#include "codegen/instruction_views.h"
#include "codegen/linearize.h"
#include "codegen/load_early.h"
#include "codegen/matrix_halves.h"
#include "codegen/narrow_indices.h"
#include "codegen/panel.h"
#include "codegen/passes.h"
#include "codegen/sum_order.h"
#include "codegen/write_out_rounds.h"
#include "graph/matrix_shape.h"
#include "graph/on_chip.h"
#include "graph/rules_algebra.h"
#include "graph/views.h"
#include "schedule/schedule.h"
#include "schedule/tiles.h"

namespace smelt {
namespace {

constexpr int64_t kLeastThreads = 128;    // of a block, for the nests that have little to do
constexpr double kManyTerms = 1 << 18;    // of sums, for each processor: some microseconds of a matrix unit
constexpr int64_t kSignalRoom = 1 << 10;  // on chip, for signals of a ring and what is lost between buffers
constexpr int64_t kPassedOn = 32 << 10;   // on chip, that threads pass on to each other, at most

}  // namespace

Phase phase_behind(std::string_view pass) {
  const bool is_expanded =
      pass == "expand" || pass == "rounds of a softmax" || pass == "coalesce loads" || pass == "look up words";
  return is_expanded ? Phase::Expanded : Phase::Kernel;
}

Refs prepare_nest(Ref nest, const Machine& machine, const PassObserver& observe) {
  Refs stores = stores_of(nest);
  const auto step = [&](const char* pass, Refs after) {
    stores = std::move(after);
    if (observe) observe(pass, stores);
  };
  step("bound masks", bound_masks(stores));    // first: it reads masks as the model wrote them
  step("split ranges", split_ranges(stores));  // options then see the natural axes of block formats
  step("order sums", order_sums(stores, machine, is_local_nest(nest)));
  step("hoist factors", hoist_factors(stores));  // when it is known which ranges are of partial sums
  step("fuse multiply-adds", fuse_multiply_adds(stores));
  return stores;
}

namespace {

int64_t first_free_local(Ref tree) {
  int64_t first = 0;
  for (Ref n : toposort(tree))
    if (n->op == Op::Local) first = std::max(first, number_of_buffer(n) + 1);
  return first;
}

// What becomes of the stores of a nest, pass by pass.
class NestPasses {
 public:
  NestPasses(const CodegenRequest& request, std::vector<ExpandedNest>& out) : request_(request), out_(out) {}

  // These and the ones below have the options of the nest.
  void add(const Refs& stores, bool is_local) { out_.push_back(expanded(stores, is_local)); }

  ExpandedNest expanded(Refs stores, bool is_local, bool has_halves = false) {
    stores = step("options", stores);
    stores = step("pack dots", pack_dots(stores));
    stores = matrix_dots(stores, lane_rules(request_.machine));
    stores = step("matrix dots", has_halves ? halves_dots(stores) : stores);
    stores = step("expand", expand(stores, request_.machine));
    stores = step("rounds of a softmax", softmax_rounds(stores, request_.machine));
    stores = step("coalesce loads",
                  coalesce_loads(stores));  // after expand, when the byte of a word is known
    stores = step("look up words", look_up_words(stores, request_.machine));
    return {.stores = stores, .is_local = is_local};
  }

  // Products of halves want their columns on chip, which is where a tile has those that it makes.
  void add_of_tile(const Refs& stores) {
    ExpandedNest nest = expanded(stores, false, true);
    out_.push_back(have_columns_on_chip(nest.stores) ? std::move(nest) : expanded(stores, false));
  }

  // Where reads are staged, on-chip memory from number `local` on is theirs, if `room` is enough. Returns what they
  // take of it.
  int64_t add_staged(const Refs& stores, const std::vector<Opt>& opts, bool is_local, int64_t local, int64_t room) {
    if (!tile_ranges(stores).empty()) {
      add_of_tile(stores);
      return 0;
    }
    if (is_local || request_.machine.ring_bytes == 0) {
      add(stores, is_local);
      return 0;
    }
    const auto is_group = [](const Opt& opt) { return opt.kind == OptKind::Group; };
    if (std::any_of(opts.begin(), opts.end(), is_group)) room = std::min(room, room_of_resident_block(stores));
    ExpandedNest nest = expanded(stores, is_local, true);
    Machine machine = request_.machine;
    machine.ring_bytes = std::min(machine.ring_bytes, room);
    auto [staged, staging] = stage_reads(nest.stores, machine, local);
    if (!staging) nest = expanded(stores, is_local);  // products of halves want their columns on chip
    if (staging) nest.stores = std::move(staged);
    nest.staging = std::move(staging);
    out_.push_back(nest);
    if (!nest.staging) return 0;
    return room_of_local(nest.staging->ring) + (nest.staging->signals ? room_of_local(nest.staging->signals) : 0);
  }

  // What a block may take that keeps no other one from its processor: as many are there as its registers allow. Warps
  // that share sums have little to do in a round, so the rounds of several blocks hide what each of them waits for.
  int64_t room_of_resident_block(const Refs& stores) const {
    const Machine& machine = request_.machine;
    const int threads = threads_of(stores);
    return machine.processor_memory_bytes / resident_blocks(threads, true) - exchange_bytes(stores, threads) -
           kSignalRoom;
  }

  // What tasks of the last nest read goes to on-chip memory from number `local` on, if `room` is enough. Returns what
  // it takes of that.
  int64_t add_task_copies(int64_t local, int64_t room) {
    ExpandedNest& nest = out_.back();
    if (nest.is_local || nest.staging || !products_of_halves(nest.stores).empty()) return 0;
    auto [stores, copies] = copy_for_tasks(nest.stores, request_.machine, local, room);
    if (!copies) return 0;
    nest.stores = std::move(stores);
    nest.copies = std::move(copies);
    return nest.copies->bytes();
  }

  // Nests run one after the other, so their rings lie in the same memory: as much as the largest one takes.
  void share_rings() {
    int64_t ring = 0, signals = 0;
    for (const ExpandedNest& nest : out_) {
      if (!nest.staging) continue;
      ring = std::max(ring, local_bytes(nest.staging->ring));
      if (nest.staging->signals) signals = std::max(signals, local_bytes(nest.staging->signals));
    }
    for (ExpandedNest& nest : out_) {
      if (!nest.staging) continue;
      grow(nest, nest.staging->ring, ring);
      if (nest.staging->signals) grow(nest, nest.staging->signals, signals);
    }
  }

  // The nests of a panel come before the nest that uses it. `stores`: without options. Returns what the panel takes on
  // chip.
  int64_t add_with_panel(const Refs& stores, const std::vector<Opt>& opts, int64_t first_local) {
    const auto panel = opts.begin() + static_cast<std::ptrdiff_t>(place_of_panel(opts));
    const LaneRules rules = lane_rules(request_.machine);
    const NestWithPanel made = with_panel(apply_opts(stores, {opts.begin(), panel}, rules), *panel, first_local);
    add(made.reset, true);
    for (const Refs& panel : made.panels) add(choose_and_apply(panel, request_.machine, false).stores, false);
    add(apply_opts(made.main, {panel + 1, opts.end()}, rules), false);
    out_.back().ahead = made.next;
    return bytes_on_chip(made.main) + bytes_on_chip(made.reset) - bytes_on_chip(stores);
  }

  Refs step(const char* pass, const Refs& stores) const {
    if (request_.observe) request_.observe(pass, stores);
    return stores;
  }

 private:
  static void grow(ExpandedNest& nest, Ref& local, int64_t bytes) {
    const Ref larger = make_local(number_of_buffer(local), local->dtype, bytes);
    for (Ref& s : nest.stores) s = substitute(s, {{local, larger}});
    local = larger;
  }

  const CodegenRequest& request_;
  std::vector<ExpandedNest>& out_;
};

// Rows of products of matrices are on the stack of a worker, and count as if they were in its scratch memory.
int64_t bytes_of_matrix_rows(const Program& program) {
  int64_t bytes = 0;
  for (const Instruction& x : program.code)
    if (x.kind == Inst::MatrixDot && !matrix_shape(x).in_fragments) bytes += kMatrixRowBytes * matrix_shape(x).items();
  return bytes;
}

// The machine with the on-chip memory that is left to a nest beside `others`, what else the kernel keeps there.
Machine left_beside(int64_t others, Machine machine) {
  machine.block_memory_bytes = std::max<int64_t>(1, machine.block_memory_bytes - others);
  return machine;
}

// Terms of the largest sum of the nest, or stores if it has none, over all outputs; symbolic sizes at their greatest.
double terms_of(const Refs& stores) {
  const auto count = [](const Refs& ranges) {
    double terms = 1;
    for (Ref r : ranges) terms *= static_cast<double>(std::max<int64_t>(RangeView(r).size->max, 1));
    return terms;
  };
  double most = 1;
  for (Ref s : stores)
    for (Ref n : toposort(s)) {
      if (n->op != Op::Store && !is_reduce(n->op)) continue;
      Refs ranges = ranges_of(n);
      for (Ref own : own_ranges(n))
        if (!contains(ranges, own)) ranges.push_back(own);
      most = std::max(most, count(ranges));
    }
  return most;
}

// The options of each nest of a kernel, chosen or given.
class NestOpts {
 public:
  explicit NestOpts(const CodegenRequest& request) : request_(request), chosen_(request.tree->src.size()) {
    for (Ref nest : request.tree->src) prepared_.push_back(prepare_nest(nest, request.machine));
    threads_ = request.opts.empty() ? most_threads() : 1;
  }

  // Of nest i, as options find them.
  const Refs& stores(size_t i) const { return prepared_[i]; }

  // `on_chip`: what the rest of the kernel keeps there.
  ChosenOpts of(size_t i, int64_t on_chip) const {
    const Machine& machine = request_.machine;
    if (request_.opts.empty()) return choose(i, left_beside(on_chip, machine));
    const std::vector<Opt>& given = request_.opts[i];
    return {given, has_panel(given) ? Refs{} : apply_opts(prepared_[i], given, lane_rules(machine))};
  }

 private:
  ChosenOpts choose(size_t i, Machine left) const {
    const bool is_local = is_local_nest(request_.tree->src[i]), is_known = chosen_[i] && left == request_.machine;
    ChosenOpts chosen = is_known && !request_.observe_options
                            ? *chosen_[i]
                            : choose_and_apply(prepared_[i], left, is_local, request_.observe_options);
    if (!left.has_threads() || threads_of(chosen.stores) <= threads_) return chosen;
    left.block_threads = threads_;
    return choose_and_apply(prepared_[i], left, is_local, request_.observe_options);
  }

  // As many threads as the nest wants that has most to do: those that another nest wants besides would idle in it, and
  // keep the registers of a multiprocessor from further blocks. Nests of a tile share what they have to do, and wait
  // for each other: they keep their threads unless all processors have much to do for that nest.
  int64_t most_threads() {
    const Machine& machine = request_.machine;
    if (!machine.has_threads()) return 1;
    double most = 0;
    int64_t threads = machine.block_threads;
    bool has_tile = false;
    for (size_t i = 0; i < prepared_.size(); ++i) {
      const bool is_of_tile = !tile_ranges(prepared_[i]).empty();
      has_tile |= is_of_tile;
      if (is_local_nest(request_.tree->src[i]) || terms_of(prepared_[i]) <= most) continue;
      most = terms_of(prepared_[i]);
      if (!is_of_tile) chosen_[i] = choose_and_apply(prepared_[i], machine, false);
      threads = is_of_tile ? machine.block_threads : threads_of(chosen_[i]->stores);
    }
    if (has_tile && most < kManyTerms * static_cast<double>(machine.processors)) return machine.block_threads;
    return std::max(threads, std::min(kLeastThreads, machine.block_threads));
  }

  const CodegenRequest& request_;
  std::vector<Refs> prepared_;
  std::vector<std::optional<ChosenOpts>> chosen_;  // on a machine with nothing else on chip, where that was asked for
  int64_t threads_;                                // of a block, at most
};

}  // namespace

CodegenResult generate(const CodegenRequest& request) {
  const EnsureNote note("generating kernel " + request.name);
  ENSURE(request.opts.empty() || request.opts.size() == request.tree->src.size(),
         "options for another number of nests");
  CodegenResult result;
  std::vector<ExpandedNest> nests;
  NestPasses passes(request, nests);
  const int64_t ring_local = first_free_local(request.tree);
  int64_t next_local = ring_local + kMostStagingLocals, ring_bytes = 0;
  int64_t copy_room = request.machine.overlaps_launches ? request.machine.task_copy_bytes : 0;
  int64_t on_chip = bytes_on_chip({&request.tree, 1});
  const NestOpts nest_opts(request);
  for (size_t i = 0; i < request.tree->src.size(); ++i) {
    const Ref nest = request.tree->src[i];
    const bool is_local = is_local_nest(nest);
    if (request.observe) prepare_nest(nest, request.machine, request.observe);  // once more, for who wants to see it
    const Refs& stores = nest_opts.stores(i);
    ChosenOpts chosen = nest_opts.of(i, on_chip - bytes_on_chip(stores));
    const std::vector<Opt>& opts = result.opts.emplace_back(std::move(chosen.opts));
    if (!has_panel(opts)) {
      const int64_t room = request.machine.block_memory_bytes - (on_chip - ring_bytes) - kSignalRoom,
                    bytes = passes.add_staged(chosen.stores, opts, is_local, ring_local, room);
      on_chip += std::max<int64_t>(0, bytes - ring_bytes);
      ring_bytes = std::max(ring_bytes, bytes);
      const int64_t copied = passes.add_task_copies(
          next_local, std::min(copy_room, request.machine.block_memory_bytes - on_chip - kPassedOn));
      next_local += kMostTaskCopyLocals;
      copy_room -= copied;
      on_chip += copied;
    } else {
      on_chip += passes.add_with_panel(stores, opts, next_local);
      next_local += kMostPanelLocals;
    }
  }
  passes.share_rings();
  result.program = linearize(nests, request.machine, request.name, request.symbols);
  write_out_rounds(result.program);
  load_early(result.program);
  narrow_indices(result.program, request.machine);  // when all of them are there
  // A GPU refuses a launch that takes too much; memory of a worker would overflow.
  const int64_t bytes = result.program.scratch_bytes + bytes_of_matrix_rows(result.program);
  const std::string reason = why_too_much_on_chip(bytes, on_chip_scope(request.machine));
  ENSURE(reason.empty(), reason);
  return result;
}

}  // namespace smelt
