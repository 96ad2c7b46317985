#include "codegen/linearize.h"

#include <algorithm>
#include <map>
#include <set>

#include "codegen/block_threads.h"
#include "codegen/keep_in_registers.h"
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
// For each processor, where each task has a block of its own: as many in each launch, or where their number grows with
// tokens or positions. Of these many may be none, whose blocks come all the same, when others have ended.
constexpr int64_t kMostTasksOfBlocks = 4, kMostVaryingTasksOfBlocks = 2;

Ref count_of(const Refs& tasks) {
  Ref count = constant(1);
  for (Ref r : tasks) count = simplify(count * RangeView(r).size);
  return count;
}

// Nests that run together, and what they have to share out.
struct Tile {
  std::span<const ExpandedNest> nests;
  TaskShare tasks = {constant(0), constant(0)};
  // Where not all blocks need it: the tasks for which a block runs it. None: all do.
  std::vector<TaskShare> readers = {};
  bool is_local() const { return nests[0].is_local; }
};

bool has_unit(const Tile& tile) {
  const auto is_of_unit = [](Ref store) {
    const Refs nodes = toposort(store);
    return std::any_of(nodes.begin(), nodes.end(), [](Ref n) { return n->op == Op::MatrixItem; });
  };
  return std::any_of(tile.nests.begin(), tile.nests.end(), [&](const ExpandedNest& nest) {
    return std::any_of(nest.stores.begin(), nest.stores.end(), is_of_unit);
  });
}

// Tiles that go over the same tasks in turn: they want the same worker for each of them.
struct Tasks {
  Ref count;
  std::vector<size_t> tiles = {};
  bool have_unit = false;
};

std::vector<Tasks> tasks_of(std::span<const Tile> tiles) {
  std::vector<Tasks> tasks;
  Refs last;
  for (size_t i = 0; i < tiles.size(); ++i) {
    if (tiles[i].is_local()) continue;
    const Refs& stores = tiles[i].nests[0].stores;
    const Refs ranges = task_ranges(stores);
    if (tile_ranges(stores).empty() || ranges != last) tasks.push_back({count_of(ranges)});
    last = ranges;
    tasks.back().tiles.push_back(i);
    tasks.back().have_unit |= has_unit(tiles[i]);
  }
  return tasks;
}

// Where a kernel has products by a unit, a processor holds few of its blocks, as their threads have many registers, and
// not all of them may find room at once. Blocks come in the order of their numbers: these products, which take longest,
// are the first ones.
std::vector<Tile> tiles_of(std::span<const ExpandedNest> nests) {
  std::vector<Tile> tiles;
  for (; !nests.empty(); nests = nests.subspan(tiles.back().nests.size()))
    tiles.push_back(Tile{nests.first(size_of_tile(nests))});
  std::vector<Tasks> tasks = tasks_of(tiles);
  std::ranges::stable_partition(tasks, &Tasks::have_unit);
  Ref before = constant(0);
  for (const Tasks& t : tasks) {
    for (size_t i : t.tiles) tiles[i].tasks = {before, t.count};
    before = simplify(before + t.count);
  }
  return tiles;
}

// That workers can share, at most: blocks share those of all nests, other workers those of each.
int64_t most_tasks(std::span<const Tile> tiles, bool is_block) {
  int64_t most = 1;
  for (const Tile& tile : tiles) {
    const Ref end = is_block ? simplify(tile.tasks.before + tile.tasks.count) : tile.tasks.count;
    most = std::max(most, std::clamp<int64_t>(end->max, 1, kMostTasks));
  }
  return most;
}

bool has_fixed_tasks(std::span<const Tile> tiles) {
  return std::all_of(tiles.begin(), tiles.end(), [](const Tile& t) { return is_const(t.tasks.count); });
}

// Of all nests, as blocks share them out.
Ref all_tasks(std::span<const Tile> tiles) {
  Ref all = constant(0);
  for (const Tasks& t : tasks_of(tiles)) all = simplify(all + t.count);
  return is_const(all, 0) ? constant(1) : all;
}

std::set<int64_t> locals_read(const Tile& tile) {
  std::set<int64_t> numbers;
  for (const ExpandedNest& nest : tile.nests)
    for (Ref s : nest.stores)
      for (Ref n : toposort(s))
        if (n->op == Op::Load && LoadView(n).buffer->op == Op::Local)
          numbers.insert(number_of_buffer(LoadView(n).buffer));
  return numbers;
}

std::set<int64_t> locals_stored(const Tile& tile) {
  std::set<int64_t> numbers;
  for (const ExpandedNest& nest : tile.nests)
    for (Ref s : nest.stores)
      if (StoreView(s).buffer->op == Op::Local) numbers.insert(number_of_buffer(StoreView(s).buffer));
  return numbers;
}

bool meet(const std::set<int64_t>& a, const std::set<int64_t>& b) {
  return std::any_of(a.begin(), a.end(), [&](int64_t x) { return b.contains(x); });
}

// What a block makes for itself it needs for some of its tasks only: nests that no other one of the kernel wants are
// left out by the others. What is made of what the nest before makes goes along with it, so that values can stay in
// registers between them (keep_in_registers.h).
void find_readers(std::vector<Tile>& tiles) {
  std::map<int64_t, std::set<size_t>> readers;  // by Local: tiles with tasks that read it, or what is made of it
  std::vector<std::set<size_t>> of_tile(tiles.size());
  size_t with_tasks = 0;
  for (size_t i = tiles.size(); i-- > 0;) {
    std::set<size_t>& mine = of_tile[i];
    if (tiles[i].is_local()) {
      for (int64_t local : locals_stored(tiles[i])) mine.merge(std::set(readers[local]));
    } else {
      mine = {i};
      ++with_tasks;
    }
    for (int64_t local : locals_read(tiles[i])) readers[local].insert(mine.begin(), mine.end());
  }
  std::map<int64_t, std::set<size_t>> made_for;  // by Local
  for (size_t i = 0; i < tiles.size(); ++i) {
    if (!tiles[i].is_local()) continue;
    if (i > 0 && tiles[i - 1].is_local()) {
      std::set<size_t> both = of_tile[i];
      both.insert(of_tile[i - 1].begin(), of_tile[i - 1].end());
      const std::set<int64_t> reads = locals_read(tiles[i]);
      const bool finds_all = std::all_of(reads.begin(), reads.end(), [&](int64_t local) {
        return std::includes(made_for[local].begin(), made_for[local].end(), both.begin(), both.end());
      });
      if (meet(locals_stored(tiles[i - 1]), reads) && finds_all) of_tile[i] = std::move(both);
    }
    for (int64_t local : locals_stored(tiles[i])) made_for[local] = of_tile[i];
    if (of_tile[i].size() < with_tasks)
      for (size_t reader : of_tile[i]) tiles[i].readers.push_back(tiles[reader].tasks);
  }
  // What is not there must not be read, not even where it is of no use.
  std::set<int64_t> left_out;
  for (Tile& tile : tiles) {
    if (tile.is_local() && !tile.readers.empty()) left_out.merge(locals_stored(tile));
    const std::set<int64_t> reads = locals_read(tile);
    if (!tile.is_local() && std::any_of(reads.begin(), reads.end(), [&](int64_t l) { return left_out.contains(l); }))
      tile.readers = {tile.tasks};
  }
}

}  // namespace

Program linearize(std::span<const ExpandedNest> nests, const Machine& machine, std::string name,
                  std::vector<std::string> symbols) {
  Program program{.name = std::move(name), .symbols = std::move(symbols)};
  for (const ExpandedNest& nest : nests) program.threads = std::max(program.threads, threads_of(nest.stores));
  const bool is_block = program.threads > 1;
  std::vector<Tile> tiles = tiles_of(nests);
  if (is_block) find_readers(tiles);
  program.tasks = most_tasks(tiles, is_block);
  const int64_t most_blocks = has_fixed_tasks(tiles) ? kMostTasksOfBlocks : kMostVaryingTasksOfBlocks;
  if (is_block && program.tasks <= most_blocks * machine.processors) program.blocks = program.tasks;
  program.has_prologue = std::any_of(tiles.begin(), tiles.end(), [](const Tile& t) { return t.is_local(); });
  ScratchMap scratch;
  Code code;
  int next_id = 0;
  const auto emitter = [&](const Tile& tile) {
    return NestEmitter(tile.nests, machine, tile.tasks.before, program, scratch, next_id);
  };
  const auto append = [&](Code part) {
    code.insert(code.end(), std::make_move_iterator(part.begin()), std::make_move_iterator(part.end()));
  };
  if (is_block && machine.overlaps_launches) {
    for (const Tile& tile : tiles) append(emitter(tile).ask_early());
    append(emitter(tiles.back()).await(all_tasks(tiles)));
  }
  for (const Tile& tile : tiles) {
    if (tile.is_local() && !machine.has_threads())
      append(emitter(tile).run_once());
    else
      append(tile.readers.empty() ? emitter(tile).run() : emitter(tile).run_for(tile.readers));
  }
  std::vector<int> position(next_id, -1);
  for (size_t i = 0; i < code.size(); ++i) position[code[i].id] = static_cast<int>(i);
  for (Emitted& e : code) {
    for (int& s : e.instruction.src) s = position[s];
    if (e.instruction.kind == Inst::Buffer)
      program.buffers = std::max(program.buffers, static_cast<int>(e.instruction.arg.i) + 1);
    program.code.push_back(std::move(e.instruction));
  }
  if (is_block) {
    keep_in_registers(program);
    place_barriers(program);
  }
  return program;
}

}  // namespace smelt
