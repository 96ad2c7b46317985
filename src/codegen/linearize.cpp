#include "codegen/linearize.h"

#include <algorithm>
#include <map>

#include "codegen/block_threads.h"
#include "codegen/nest_emitter.h"
#include "codegen/place_barriers.h"
#include "graph/rules_algebra.h"
#include "schedule/tiles.h"

namespace smelt {
namespace {

// How many of the first nests run together.
size_t size_of_tile(std::span<const ExpandedNest> nests) {
  size_t n = 1;
  while (n < nests.size() && run_together(nests[0].stores, nests[n].stores)) ++n;
  return n;
}

constexpr int64_t kMostTasks = 1 << 24;

Ref count_of(const Refs& tasks) {
  Ref count = constant(1);
  for (Ref r : tasks) count = simplify(count * RangeView(r).size);
  return count;
}

// What nests have to share out. Steps that go over the same tasks in turn want the same worker for each of them.
class TaskCount {
 public:
  explicit TaskCount(bool is_block) : is_block_(is_block) {}

  // The tasks in front of those of the nest.
  Ref before(const ExpandedNest& nest) {
    if (nest.is_local) return constant(0);
    const Refs ranges = task_ranges(nest.stores);
    if (tile_ranges(nest.stores).empty() || ranges != last_) before_ = all_, all_ = simplify(all_ + count_of(ranges));
    last_ = ranges;
    most_ = std::max(most_, limited(count_of(ranges)));
    return before_;
  }

  // That workers can share, at most.
  int64_t most() const { return is_block_ ? limited(all_) : most_; }

 private:
  static int64_t limited(Ref count) { return std::clamp<int64_t>(count->max, 1, kMostTasks); }

  const bool is_block_;
  Refs last_;
  Ref before_ = constant(0), all_ = constant(0);
  int64_t most_ = 1;
};

// Where launches overlap: what is done before the launch before has ended.
Code code_before_others_end(std::span<const ExpandedNest> nests, const Machine& machine, Program& program,
                            ScratchMap& scratch, int& next_id) {
  Code code;
  if (!machine.overlaps_launches || program.threads == 1) return code;
  TaskCount tasks(true);
  while (!nests.empty()) {
    const auto tile = nests.first(size_of_tile(nests));
    nests = nests.subspan(tile.size());
    Code part = NestEmitter(tile, machine, tasks.before(tile[0]), program, scratch, next_id).ask_early();
    code.insert(code.end(), std::make_move_iterator(part.begin()), std::make_move_iterator(part.end()));
  }
  code.push_back({{.kind = Inst::Await}, next_id++});
  return code;
}

}  // namespace

Program linearize(std::span<const ExpandedNest> nests, const Machine& machine, std::string name,
                  std::vector<std::string> symbols) {
  Program program{.name = std::move(name), .symbols = std::move(symbols)};
  for (const ExpandedNest& nest : nests) program.threads = std::max(program.threads, threads_of(nest.stores));
  ScratchMap scratch;
  TaskCount tasks(program.threads > 1);
  int next_id = 0;
  Code code = code_before_others_end(nests, machine, program, scratch, next_id);
  while (!nests.empty()) {
    const auto tile = nests.first(size_of_tile(nests));
    nests = nests.subspan(tile.size());
    Code part = NestEmitter(tile, machine, tasks.before(tile[0]), program, scratch, next_id).run();
    code.insert(code.end(), std::make_move_iterator(part.begin()), std::make_move_iterator(part.end()));
  }
  program.tasks = tasks.most();
  std::vector<int> position(next_id, -1);
  for (size_t i = 0; i < code.size(); ++i) position[code[i].id] = static_cast<int>(i);
  for (Emitted& e : code) {
    for (int& s : e.instruction.src) s = position[s];
    if (e.instruction.kind == Inst::Buffer)
      program.buffers = std::max(program.buffers, static_cast<int>(e.instruction.arg.i) + 1);
    program.code.push_back(std::move(e.instruction));
  }
  if (program.threads > 1) place_barriers(program);
  return program;
}

}  // namespace smelt
