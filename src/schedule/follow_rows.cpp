#include <algorithm>
#include <optional>

#include "graph/rules_algebra.h"
#include "graph/tensor.h"
#include "schedule/passes.h"
#include "schedule/row_tiles.h"

namespace smelt {
namespace {

constexpr int64_t kLeastRows = 4;  // of one token, so that some processors have work

class RowFollower {
 public:
  explicit RowFollower(ScheduleState& state)
      : state_(state), items_(state.items), tensors_(static_cast<int>(state.item_of.size())) {
    for (const Item& item : items_) tiles_ = std::max(tiles_, item.tile + 1);
  }

  void run() {
    forget_levels();
    const bool is_early = has_early_levels();
    for (int i = 0; i < tensors_; ++i) {
      if (is_early) state_.item(i).level = -1;
      (void)level_of(items_, state_.item(i));
      follow_source(state_.item(i));
    }
    if (is_early) forget_levels();
    for (Item& item : items_) (void)level_of(items_, item);
  }

 private:
  void forget_levels() {
    for (Item& item : items_) item.level = -1;
  }

  // Where a tile of one chunk keeps its rows on chip, its first items have asked for the levels of those that its last
  // ones need, before these followed others: so levels are found anew.
  bool has_early_levels() const {
    return std::any_of(state_.tiles.begin(), state_.tiles.end(),
                       [](const PlannedTile& tile) { return !tile.rows.empty() && !tile.shape.has_all_chunks; });
  }

  Ref loop_of(Ref store) const {
    return loop_over_rows(store, state_.machine.row_bytes, state_.machine.has_threads() ? kLeastRows : 0);
  }
  Ref loop_of(const Item& item) const { return loop_of(item.store); }

  // The loop over rows of an item that others follow or may follow.
  Ref rows_of(const Item& item) const {
    if (&item == divided_) return StoreView(item.store).ranges.front();
    if (item.tile < 0) return loop_of(item);
    return shared_rows(item.store);
  }

  // Puts the item behind the one that makes its rows, if there is one: all that it waits for is that item, or of its
  // tile, and it reads only its own row of them.
  void follow_source(Item& item) {
    if (!item.store || item.on_chip || item.tile >= 0 || !(loop_of(item) || may_split(item))) return;
    Item* source = nullptr;
    for (int i : item.needs) {
      Item& need = state_.item(i);
      if (level_after(need) < item.level) continue;
      if (need.on_chip || (source && !is_same_tile(*source, need))) return;
      source = &need;
    }
    if (!source || !source->store) return;
    const bool may_divide = rows_to_divide(*source, item) >= state_.machine.tasks;
    if (may_divide && has_few_rows(*source) && follow_divided(item, *source)) return;
    const Ref whole = source->store;
    if (follow_in_more_rows(item, *source)) return;
    if (!rows_of(*source) && may_split(*source)) source->store = in_fitting_rows(whole, state_.machine.row_bytes);
    if (follow(item, *source)) return;
    source->store = whole;
    if (may_divide) follow_divided(item, *source);
  }

  // A first loop of a few rows goes with those behind it: 8 tokens side by side are one row of what is made of them,
  // and a group of 32 numbers of each is one as well.
  bool follow_in_more_rows(Item& item, Item& source) {
    if (!state_.machine.has_threads() || source.tile >= 0 || is_of_batch(source.store)) return false;
    const Ref whole = source.store, rows = leading_rows(source, state_.machine.tasks / 2);
    if (!rows) return false;
    source.store = in_rows_of(whole, rows);
    const bool follows = source.store != whole && follow(item, source);
    if (!follows) source.store = whole;
    return follows;
  }

  // As few first loops of a store, as one, as have so many iterations; nothing where the first one has, or none have.
  // Of a loop whose iterations would each make the same sum, as elements of a norm, only as many parts as it takes.
  static Ref leading_rows(const Item& item, int64_t least) {
    const auto ranges = StoreView(item.store).ranges;
    int64_t rows = 1;
    size_t loops = 0;
    for (; loops < ranges.size() && rows > 0 && rows < least; ++loops) {
      const int64_t size = const_int(RangeView(ranges[loops]).size).value_or(0);
      int64_t parts = size;
      if (loops > 0 && shares_sum(item.store, ranges[loops]))
        for (parts = 1; parts < size && (size % parts != 0 || rows * parts < least);) ++parts;
      rows *= parts;
    }
    if (loops < 2 || rows < least) return Ref();
    return make_range(RangeView(ranges.front()).number, constant(rows), RangeKind::Loop);
  }

  static bool shares_sum(Ref store, Ref range) {
    const Refs nodes = toposort(StoreView(store).value);
    return std::any_of(nodes.begin(), nodes.end(), [&](Ref n) { return is_reduce(n->op) && !depends_on(n, range); });
  }

  bool follow_divided(Item& item, Item& source) {
    const Ref whole = source.store;
    source.store = in_rows_of(whole, divided_rows(source, item));
    divided_ = &source;
    const bool follows = source.store != whole && follow(item, source);
    divided_ = nullptr;
    if (!follows) source.store = whole;
    return follows;
  }

  // All loops of a store as one.
  static Ref all_rows(const Item& item) {
    const auto ranges = StoreView(item.store).ranges;
    int64_t rows = 1;
    for (Ref r : ranges) rows *= const_int(RangeView(r).size).value_or(0);
    return make_range(RangeView(ranges.front()).number, constant(rows), RangeKind::Loop);
  }

  // What has few rows of its own, or none that fit, as a product of one token, may go by those of what follows.
  int64_t rows_to_divide(const Item& source, const Item& item) const {
    if (!state_.machine.has_threads() || source.tile >= 0 || is_of_batch(source.store)) return 0;
    return const_int(RangeView(divided_rows(source, item)).size).value_or(0);
  }
  // Of a norm, whose parts each make the sum of their token again, as few as all processors want.
  Ref divided_rows(const Item& source, const Item& item) const {
    const bool has_rows = static_cast<bool>(rows_of(source));
    const Ref few = has_rows ? leading_rows(source, state_.machine.tasks) : Ref();
    return few && shares_sum(source.store, StoreView(source.store).ranges.back()) ? few : all_rows(item);
  }
  bool has_few_rows(const Item& source) const {
    const Ref own = rows_of(source);
    return own && const_int(RangeView(own).size).value_or(state_.machine.tasks) < state_.machine.tasks;
  }

  // A product of so many tokens that a unit takes them together: the rows of its matrix, which another loop goes
  // through, are the same for all of them. The tokens are the first loop, or those behind a first loop over matrices.
  bool is_of_batch(Ref node) const {
    const StoreView store(node);
    if (!unit_for_bytes(state_.machine) || store.ranges.empty() || !multiplies_with_matrix(node)) return false;
    return std::any_of(store.ranges.begin(), store.ranges.end(), [&](Ref r) { return are_tokens(r, store); });
  }

  bool are_tokens(Ref tokens, const StoreView& store) const {
    if (const_int(RangeView(tokens).size).value_or(0) < unit_for_bytes(state_.machine)->n) return false;
    const Ref first = store.ranges.front();
    const auto behind_tokens = std::find(store.ranges.begin(), store.ranges.end(), tokens) + 1;
    const auto is_of_matrix = [&](Ref n) {
      if (n->op != Op::Load || depends_on(n, tokens) || (tokens != first && !depends_on(n, first))) return false;
      return std::any_of(behind_tokens, store.ranges.end(), [&](Ref row) { return depends_on(n, row); });
    };
    const Refs nodes = toposort(store.value);
    return std::any_of(nodes.begin(), nodes.end(), is_of_matrix);
  }

  // A first loop may become one over parts of its iterations, as over those of tokens that lie side by side.
  bool may_split(const Item& item) const {
    if (!state_.machine.has_threads() || item.tile >= 0 || !item.store) return false;
    const StoreView store(item.store);
    return !store.ranges.empty() && !multiplies_with_matrix(item.store);
  }

  // False: nothing is changed.
  bool follow(Item& item, Item& source) {
    const Ref loop = rows_of(source);
    if (!loop) return false;
    if (follow_in_order(item, item.store, source, loop)) return true;
    if (!state_.machine.has_threads() || multiplies_with_matrix(item.store)) return false;
    const Refs orders = other_orders(item.store);
    return std::any_of(orders.begin(), orders.end(),
                       [&](Ref order) { return follow_in_order(item, order, source, loop); });
  }

  // `order`: the item's store, or that with its loops in another order.
  bool follow_in_order(Item& item, Ref order, Item& source, Ref loop) {
    const Ref store = in_rows_of(order, loop), rows = StoreView(store).ranges.front();
    if (!loop_of(store)) return false;
    for (int i : item.needs) {
      const Item& need = state_.item(i);
      const bool is_before = &need == &source || is_same_tile(source, need);
      if (is_before && !passes_rows(need, store, rows)) return false;
      // What is gathered for 8 tokens side by side goes by itself: of each there are many blocks.
      if (is_before && store != item.store && takes_index_from(store, state_.memory_of(need))) return false;
    }
    item.store = store;
    if (source.tile < 0) add_to_tile(source, tiles_++);
    add_to_tile(item, source.tile);
    item.level = source.level;
    return true;
  }

  bool passes_rows(const Item& from, Ref to, Ref rows) const {
    const Ref buffer = state_.memory_of(from), loop = from.store ? rows_of(from) : Ref();
    if (!buffer || !loop || tile_of_rows(loop) != tile_of_rows(rows)) return false;
    auto row = row_of_buffer(from.store, loop, state_.machine.row_bytes);
    if (!row) return false;
    row->begin = substitute(row->begin, {{loop, rows}});
    return reads_own_row(to, buffer, *row);
  }

  void add_to_tile(Item& item, int tile) {
    item.store = in_tile_of_rows(item.store, rows_of(item));
    for (const Item& other : items_)
      if (other.tile == tile) item.order = std::max(item.order, other.order + 1);
    item.tile = tile;
  }

  ScheduleState& state_;
  std::vector<Item>& items_;
  const int tensors_;              // items that may follow others; behind these are stores that tiles have added
  const Item* divided_ = nullptr;  // the product that goes row by row for the item under way
  int tiles_ = 0;
};

}  // namespace

void follow_rows(ScheduleState& state) { RowFollower(state).run(); }

}  // namespace smelt
