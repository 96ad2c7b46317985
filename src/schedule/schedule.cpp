#include "schedule/schedule.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>

#include "base/ensure.h"
#include "graph/rules_algebra.h"
#include "graph/tensor.h"
#include "schedule/fold_chunks.h"
#include "schedule/follow_rows.h"
#include "schedule/items.h"
#include "schedule/lower.h"
#include "schedule/memory_plan.h"
#include "schedule/split_reduce.h"
#include "schedule/streams.h"
#include "schedule/tiles.h"

namespace smelt {
namespace {

class Scheduler {
 public:
  Scheduler(Ref root, const PlacementOptions& options) {
    on_chip_bytes_ = options.on_chip_bytes;
    const SplitGraph split = split_reduce(root);
    root_ = split.root;
    places_ = choose_places(split, options);
    for (const TileTensors& tensors : split.tiles) {
      Tile tile{.shape = shape_of_tile(tensors, options.tile_bytes),
                .scores = tensors.inner.front()};
      if (const auto ends = ends_of_sums(tensors, tile.shape, root_, places_)) {
        tile.shape.has_all_chunks = true;
        tile.sums = tensors.sums;
        tile.ends = *ends;
        for (Ref n : tensors.results) places_.erase(n.get());
        for (Ref n : tile.sums) places_[n.get()] = Where::InTile;
      }
      const std::initializer_list<const Refs*> lists{&tensors.inner, &tensors.results, &tile.sums,
                                                     &tile.ends};
      for (const Refs* members : lists)
        for (Ref n : *members) tile_of_[n.get()] = static_cast<int>(tiles_.size());
      tiles_.push_back(std::move(tile));
    }
  }

  Schedule run() {
    collect_items();
    assign_buffers();
    for (Item& item : items_) find_needs(item);
    for (Item& item : items_) item.store = lower(item);
    for (const Tile& tile : tiles_) join(tile);
    follow();
    build_kernels();
    plan();
    return std::move(schedule_);
  }

 private:
  struct Tile {
    TileShape shape;
    Ref scores;
    Refs sums, ends;           // if it has all chunks: see fold_chunks.h
    std::vector<int> members;  // items, in order
  };

  void collect_items() {
    for (Ref n : toposort(root_)) {
      const bool copies = n->op == Op::Output && !places_.contains(n->src[0].get());
      if (!places_.contains(n.get()) && n->op != Op::Write && !copies) continue;
      auto it = places_.find(n.get());
      item_of_[n.get()] = static_cast<int>(items_.size());
      items_.push_back({.node = n, .on_chip = it != places_.end() && it->second == Where::OnChip});
      if (const auto t = tile_of_.find(n.get()); t != tile_of_.end()) {
        items_.back().tile = t->second;
        tiles_[static_cast<size_t>(t->second)].members.push_back(item_of_[n.get()]);
      }
    }
  }

  void assign_buffers() {
    std::unordered_map<const Node*, Ref> output_slot;
    for (Ref n : toposort(root_)) {
      if (n->op != Op::Output) continue;
      if (!output_slot.contains(n->src[0].get()))
        output_slot[n->src[0].get()] = output_buffer(n);
      else
        copies_.push_back(n);
    }
    for (Item& item : items_) {
      if (item.node->op == Op::Write) continue;
      Ref buffer;
      if (item.node->op == Op::Output)
        buffer = output_buffer(item.node);
      else if (output_slot.contains(item.node.get()))
        buffer = output_slot[item.node.get()];
      else if (is_inside_tile(item)) {
        place_inside_tile(item);
        continue;
      } else if (item.on_chip)
        buffer = new_local(item.node->dtype, greatest_bytes(item.node));
      else
        buffer = new_temp(item.node);
      buffers_[item.node.get()] = buffer;
      if (item.node->op != Op::Output) lowering_.place(item.node, buffer);
    }
    ENSURE(copies_.empty(), "one tensor is the output of two slots");
  }

  static Ref output_buffer(Ref output) {
    return make(Op::Param, output->dtype, {}, {.i = output->arg.i}, output->shape);
  }

  static int64_t greatest_bytes(Ref n) {
    const Ref count = element_count(n->shape);
    return count->max * size_of(n->dtype);
  }

  Ref new_local(DType dtype, int64_t bytes) {
    return make(Op::Local, dtype, {}, {.i = locals_++, .list = {bytes}});
  }

  bool is_inside_tile(const Item& item) const {
    const auto it = places_.find(item.node.get());
    return it != places_.end() && it->second == Where::InTile;
  }

  void place_inside_tile(const Item& item) {
    const Ref n = item.node;
    const Tile& tile = tiles_[static_cast<size_t>(item.tile)];
    std::vector<int64_t> extents = extents_in_tile(tile.shape, n, contains(tile.sums, n));
    int64_t bytes = size_of(n->dtype);
    for (int64_t e : extents) bytes *= e;
    buffers_[n.get()] = new_local(n->dtype, bytes);
    lowering_.place(n, buffers_[n.get()], std::move(extents));
  }

  Ref new_temp(Ref n) {
    lifetimes_.push_back({.bytes = greatest_bytes(n)});
    return make(Op::Temp, n->dtype, {}, {.i = static_cast<int64_t>(lifetimes_.size()) - 1});
  }

  // Items whose results the item reads: a walk that stops at other items.
  void find_needs(Item& item) {
    std::set<int> needs;
    std::unordered_map<const Node*, bool> seen;
    const std::function<void(Ref)> visit = [&](Ref n) {
      if (seen[n.get()]) return;
      seen[n.get()] = true;
      if (n.get() != item.node.get() && item_of_.contains(n.get())) {
        needs.insert(item_of_.at(n.get()));
        // A chain of writes to one buffer: reading it needs all of them.
        if (n->op == Op::Write && n->src[0]->op == Op::Write) visit(n->src[0]);
        return;
      }
      for (size_t i = 0; i < n->src.size(); ++i) {
        const bool earlier_rows =
            n->op == Op::Write && i == 0;  // other rows of the buffer are not read
        if (!earlier_rows) visit(n->src[i]);
      }
    };
    visit(item.node);
    item.needs.assign(needs.begin(), needs.end());
  }

  // The sums of a tile have several stores: see join().
  Ref lower(const Item& item) {
    if (item.tile >= 0 && contains(tiles_[static_cast<size_t>(item.tile)].sums, item.node))
      return Ref();
    if (item.node->op == Op::Write) return lowering_.store_rows(item.node);
    if (item.node->op == Op::Output)
      return lowering_.store(item.node->src[0], buffers_.at(item.node.get()));
    return lowering_.store(item.node, buffers_.at(item.node.get()));
  }

  // Gives the stores of a tile the loops that they share.
  void join(const Tile& tile) {
    TileStores stores;
    std::vector<int> chunk, after;
    for (int i : tile.members) {
      const Item& item = items_[static_cast<size_t>(i)];
      if (contains(tile.ends, item.node))
        after.push_back(i);
      else if (item.store && item.node == tile.scores)
        chunk.insert(chunk.begin(), i);
      else if (item.store)
        chunk.push_back(i);
    }
    for (int i : chunk) stores.chunk.push_back(items_[static_cast<size_t>(i)].store);
    for (int i : after) stores.after.push_back(items_[static_cast<size_t>(i)].store);
    if (tile.shape.has_all_chunks) add_fold(tile, stores);
    put_in_order(chunk, after, share_loops(tile.shape, stores));
  }

  // Stores that belong to no item yet get one.
  void put_in_order(const std::vector<int>& chunk, const std::vector<int>& after,
                    const TileStores& stores) {
    const Item like = items_[static_cast<size_t>(chunk[0])];
    int order = 0;
    const auto append = [&](const Refs& more) {
      for (Ref store : more) {
        items_.push_back(like);
        items_.back().store = store;
        items_.back().order = order++;
      }
    };
    const auto set = [&](const std::vector<int>& members, const Refs& in_order) {
      for (size_t i = 0; i < members.size(); ++i) {
        Item& item = items_[static_cast<size_t>(members[i])];
        item.store = in_order[i];
        item.order = order++;
      }
    };
    append(stores.before);
    set(chunk, stores.chunk);
    append(stores.combine);
    set(after, stores.after);
  }

  void add_fold(const Tile& tile, TileStores& stores) {
    const Ref maximum = maximum_below(tile.sums[0]);
    const Item& maxima = items_[static_cast<size_t>(item_of_.at(maximum.get()))];
    const auto local = [&] {
      return new_local(DType::F32, store_buffer(maxima.store)->arg.list[0]);
    };
    const RunningBuffers running{.maximum = local(), .keep = local(), .gain = local()};
    FoldStores fold = fold_stores(lowering_, maxima.store, tile.sums, tile.shape.axis, running);
    stores.before = std::move(fold.before);
    stores.combine = std::move(fold.chunk);
  }

  void follow() {
    const RowsRequest request{
        .lowered = item_of_.size(),  // behind these are stores that tiles have added
        .buffers = buffers_,
        .new_local = [&](DType dtype, int64_t bytes) { return new_local(dtype, bytes); }};
    for (Ref unread : follow_rows(items_, request))
      lifetimes_[static_cast<size_t>(unread->arg.i)].bytes = 0;
  }

  // All on-chip items that the item reads, directly or through others, sources first.
  void gather_on_chip(const Item& item, std::set<int>& out) {
    for (int i : item.needs)
      if (items_[i].on_chip && out.insert(i).second) gather_on_chip(items_[i], out);
  }

  void build_kernels() {
    std::map<int, std::vector<int>> by_level;
    for (size_t i = 0; i < items_.size(); ++i)
      if (!items_[i].on_chip && items_[i].store)
        by_level[items_[i].level].push_back(static_cast<int>(i));
    for (auto& [level, members] : by_level) {
      std::set<int> local;
      for (int i : members) gather_on_chip(items_[i], local);
      Refs nests;
      for (int i : local) nests.push_back(sink({items_[i].store}));
      // Nests of a tile follow each other, in the order in which they need each other.
      std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
        return std::pair(items_[a].tile, items_[a].order) <
               std::pair(items_[b].tile, items_[b].order);
      });
      for (const Refs& stores : group_stores(members))
        for (Ref nest : in_streams(sink(stores))) nests.push_back(nest);
      add_kernel(sink(nests), level);
      for (int i : members)
        schedule_.kernels.back().values.push_back(last_reduction(items_[i].node));
    }
  }

  Refs in_streams(Ref nest) {
    if (!tile_ranges(nest).empty()) return {nest};
    return one_stream_at_a_time(
        nest, on_chip_bytes_, [&](DType dtype, int64_t bytes) { return new_local(dtype, bytes); });
  }

  // What people mean by the tensor of an item: where operators have added or scaled results, the nearest reduction of
  // this kernel below them.
  Ref last_reduction(Ref item) const {
    const auto is_made_by_operators = [](Ref n) {
      return n->op == Op::Output || is_move(n->op) || (is_elementwise(n->op) && n->op != Op::Place);
    };
    std::vector<Ref> next{item};
    std::set<const Node*> seen;
    for (size_t i = 0; i < next.size(); ++i) {
      if (is_reduce(next[i]->op)) return next[i];
      if (!is_made_by_operators(next[i])) continue;
      for (Ref source : next[i]->src) {
        const auto known = item_of_.find(source.get());
        const bool is_here =
            known == item_of_.end() || items_[static_cast<size_t>(known->second)].on_chip;
        if (is_here && seen.insert(source.get()).second) next.push_back(source);
      }
    }
    return item;
  }

  // Stores that repeat a reduction of each other run in one nest, where it is computed once.
  std::vector<Refs> group_stores(const std::vector<int>& members) {
    std::vector<Refs> groups;
    std::vector<std::set<const Node*>> reductions;
    for (int i : members) {
      const Ref store = items_[i].store;
      std::set<const Node*> mine;
      for (Ref n : toposort(store_value(store)))
        if (is_reduce(n->op)) mine.insert(n.get());
      size_t g = items_[i].tile >= 0 ? groups.size() : 0;
      for (; g < groups.size(); ++g) {
        const bool shares = std::any_of(mine.begin(), mine.end(),
                                        [&](const Node* n) { return reductions[g].contains(n); });
        if (shares && loops_fit(groups[g][0], store)) break;
      }
      if (g == groups.size()) {
        groups.emplace_back();
        reductions.emplace_back();
      }
      groups[g].push_back(store);
      if (items_[i].copy) groups[g].push_back(items_[i].copy);
      reductions[g].merge(mine);
    }
    return groups;
  }

  static bool loops_fit(Ref a, Ref b) {
    const Refs ra = store_ranges(a), rb = store_ranges(b);
    const size_t n = std::min(ra.size(), rb.size());
    return std::equal(ra.begin(), ra.begin() + n, rb.begin());
  }

  void add_kernel(Ref tree, int level) {
    Kernel kernel{.level = level};
    std::unordered_map<const Node*, Ref> buffers;
    int64_t locals = 0;
    // Terms of sums are in an order that depends on the buffers that they load from: first these lose their shapes,
    // which are others for each length of context, then they are numbered.
    const Ref shapeless = rebuild(tree, [&](Ref original, Ref node) {
      if (original->op == Op::Var) return with_room(original);
      if (original->op != Op::Param && original->op != Op::Temp) return node;
      const Ref plain = make(original->op, DType::Void, {}, {.i = original->arg.i});
      buffers[plain.get()] = original;
      return plain;
    });
    const Ref nameless = rebuild(simplify(shapeless), [&](Ref original, Ref node) {
      if (const auto buffer = buffers.find(original.get()); buffer != buffers.end()) {
        kernel.buffers.push_back(buffer->second);
        const auto position = static_cast<int64_t>(kernel.buffers.size()) - 1;
        return make(Op::Param, DType::Void, {}, {.i = position});
      }
      if (original->op == Op::Local)
        return make(Op::Local, DType::Void, {}, {.i = locals++, .list = original->arg.list});
      return node;
    });
    kernel.tree = simplify(nameless);
    schedule_.kernels.push_back(std::move(kernel));
  }

  // How large a symbolic size may get is seldom of interest to code, and is another number for each length of context.
  // So kernels are made for the next power of two, and all short contexts and prompts share theirs.
  static Ref with_room(Ref variable) {
    const auto most = static_cast<uint64_t>(std::max(variable->max, kRoomOfSizes));
    return smelt::variable(variable->arg.name, variable->min,
                           static_cast<int64_t>(std::bit_ceil(most)));
  }

  void plan() {
    for (Lifetime& l : lifetimes_) l.first = 1 << 30;
    for (const Kernel& k : schedule_.kernels)
      for (Ref b : k.buffers) {
        if (b->op != Op::Temp) continue;
        Lifetime& l = lifetimes_[b->arg.i];
        l.first = std::min(l.first, k.level);
        l.last = std::max(l.last, k.level);
      }
    MemoryPlan memory = plan_memory(lifetimes_);
    schedule_.temps = std::move(memory.buffers);
    schedule_.arena_bytes = memory.bytes;
  }

  Ref root_;
  int64_t on_chip_bytes_ = 0;
  std::unordered_map<const Node*, Where> places_;
  std::vector<Item> items_;
  std::vector<Tile> tiles_;
  std::unordered_map<const Node*, int> tile_of_;
  std::unordered_map<const Node*, int> item_of_;
  std::unordered_map<const Node*, Ref> buffers_;
  Refs copies_;
  std::vector<Lifetime> lifetimes_;
  int64_t locals_ = 0;
  Lowering lowering_;
  Schedule schedule_;
};

std::string describe_store(Ref store) {
  std::string ops;
  for (Ref n : toposort(store_value(store))) {
    if (!is_reduce(n->op)) continue;
    if (!ops.empty()) ops += "+";
    ops += name_of(n->op);
  }
  if (ops.empty()) ops = name_of(store_value(store)->op);
  std::string sizes;
  for (Ref r : store_ranges(store)) {
    if (!sizes.empty()) sizes += ",";
    const auto n = const_int(r->src[0]);
    sizes += n ? std::to_string(*n) : "?";
  }
  return (store_buffer(store)->op == Op::Local ? "local " : "") + ops + "[" + sizes + "]";
}

}  // namespace

const Refs& nests_of(const Kernel& kernel) { return kernel.tree->src; }
bool is_local_nest(Ref nest) {
  return store_buffer(nest->src[0])->op == Op::Local && tile_ranges(nest).empty();
}

Schedule make_schedule(Ref root, const PlacementOptions& options) {
  return Scheduler(root, options).run();
}

std::string summary(const Schedule& schedule) {
  std::string text;
  for (const Kernel& k : schedule.kernels) {
    std::string line;
    for (Ref nest : nests_of(k)) {
      if (!line.empty()) line += " | ";
      for (size_t i = 0; i < nest->src.size(); ++i)
        line += (i ? " & " : "") + describe_store(nest->src[i]);
    }
    text += line + "\n";
  }
  return text;
}

}  // namespace smelt
