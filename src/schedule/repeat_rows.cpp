#include <algorithm>
#include <optional>
#include <set>

#include "graph/index_sum.h"
#include "graph/rules_algebra.h"
#include "graph/views.h"
#include "schedule/operations.h"
#include "schedule/passes.h"
#include "schedule/row_tiles.h"

namespace smelt {
namespace {

// Rows of a tile, `count` of them from `first` on, that a task of another tile reads.
struct RowsRead {
  Ref first;
  int64_t count = 0;
};

// A tile whose rows another one may make.
struct Source {
  std::vector<int> items;  // in order
  Ref rows;                // the loop that they share
};

class RowRepeater {
 public:
  explicit RowRepeater(ScheduleState& state) : state_(state) {}

  void run() {
    if (state_.machine.small_kernel_local_operations == 0) return;
    std::set<int> seen;
    bool is_changed = false;
    for (const Item& item : state_.items)
      if (item.tile >= 0 && seen.insert(item.tile).second) is_changed |= repeat_for(items_of(item.tile));
    if (!is_changed) return;
    for (Item& item : state_.items) item.level = -1;
    for (Item& item : state_.items) (void)level_of(state_.items, item);
  }

 private:
  std::vector<int> items_of(int tile) const {
    std::vector<int> items;
    for (int i = 0; i < static_cast<int>(state_.items.size()); ++i)
      if (state_.item(i).tile == tile) items.push_back(i);
    std::stable_sort(items.begin(), items.end(),
                     [&](int a, int b) { return state_.item(a).order < state_.item(b).order; });
    return items;
  }

  // Whether the tile makes for itself now what it has read of another one.
  bool repeat_for(const std::vector<int>& readers) {
    const Ref tasks = rows_of(readers);
    const auto source = tasks && const_int(RangeView(tasks).size) ? source_of(readers) : std::nullopt;
    const auto read = source ? rows_read(readers, tasks, *source) : std::nullopt;
    if (!read || 2 * read->count > *const_int(RangeView(source->rows).size)) return false;
    const Refs stores = repeated(*source, tasks, *read);
    const std::vector<BufferRow> rows = rows_of_task(*source, *read);
    const double most = static_cast<double>(state_.machine.small_kernel_local_operations);
    if (operations_of_all(stores) > most * static_cast<double>(*const_int(RangeView(tasks).size)) ||
        !is_of_task(readers, *source, stores, rows))
      return false;
    take_in(readers, *source, stores, rows);
    return true;
  }

  static double operations_of_all(const Refs& stores) {
    double total = 0;
    for (Ref s : stores) total += operations_of(s);
    return total;
  }

  // The loop over rows of a tile of these, if it is one.
  Ref rows_of(const std::vector<int>& items) const {
    Ref rows;
    for (int i : items) {
      const Ref own = state_.item(i).store ? shared_rows(state_.item(i).store) : Ref();
      if (!own || (rows && own != rows)) return Ref();
      rows = own;
    }
    return rows;
  }

  // The tile that these wait for, if they wait for nothing else and nobody else reads what it leaves in memory.
  std::optional<Source> source_of(const std::vector<int>& readers) const {
    const Item& reader = state_.item(readers.front());
    int tile = -1;
    for (int r : readers)
      for (int i : state_.item(r).needs) {
        const Item& need = state_.item(i);
        if (is_same_tile(need, reader) || level_after(need) < reader.level) continue;
        if (need.on_chip || need.tile < 0 || (tile >= 0 && need.tile != tile)) return std::nullopt;
        tile = need.tile;
      }
    if (tile < 0) return std::nullopt;
    Source source{.items = items_of(tile), .rows = {}};
    source.rows = rows_of(source.items);
    if (!source.rows || !const_int(RangeView(source.rows).size)) return std::nullopt;
    const auto is_theirs = [&](int i) {
      const Ref memory = state_.memory_of(state_.item(i));
      return memory && memory->op == Op::Temp &&
             std::all_of(state_.items.begin(), state_.items.end(), [&](const Item& item) {
               return !reads(item, i) || item.tile == tile || is_same_tile(item, reader);
             });
    };
    return std::all_of(source.items.begin(), source.items.end(), is_theirs) ? std::optional(source) : std::nullopt;
  }

  // What the item leaves in memory, row behind row; nothing if it lies otherwise.
  std::optional<BufferRow> row_of(int item, Ref rows) const {
    auto row = row_of_buffer(state_.item(item).store, rows, state_.machine.row_bytes);
    const bool is_behind_row = row && row->pieces == 1 && simplify(row->begin) == simplify(rows * row->bytes());
    return is_behind_row ? row : std::nullopt;
  }

  // Nothing if tasks do not read the same number of neighbouring rows each, known from the number of the task.
  std::optional<RowsRead> rows_read(const std::vector<int>& readers, Ref tasks, const Source& source) const {
    RowsRead all;
    for (int i : source.items) {
      const auto row = row_of(i, source.rows);
      if (!row) return std::nullopt;
      for (int r : readers)
        for (Ref n : toposort(StoreView(state_.item(r).store).value)) {
          if (n->op != Op::Load || LoadView(n).buffer != state_.memory_of(state_.item(i))) continue;
          const auto read = rows_of_load(n, tasks, row->bytes());
          if (!read || (all.first && read->first != all.first)) return std::nullopt;
          all = {read->first, std::max(all.count, read->count)};
        }
    }
    return all.first ? std::optional(all) : std::nullopt;
  }

  static std::optional<RowsRead> rows_of_load(Ref load, Ref tasks, int64_t row_bytes) {
    const Ref offset = LoadView(load).offset;
    const Refs nodes = toposort(offset);
    if (std::any_of(nodes.begin(), nodes.end(), [](Ref n) { return n->op == Op::Load; })) return std::nullopt;
    Replacements begin;
    for (Ref r : ranges_of(offset))
      if (r != tasks) begin[r] = constant(0);
    const Ref first = simplify(substitute(offset, begin));
    const auto all = index_sum(offset), from = index_sum(first);
    const auto rest = all && from ? add(*all, *from, -1) : std::nullopt;
    if (!rest || min_of(*rest) < 0 || depends_on(to_node(*rest), tasks)) return std::nullopt;
    const Ref row = simplify(first / row_bytes);
    if (!is_const(simplify(row * row_bytes - first), 0)) return std::nullopt;
    return RowsRead{row, (max_of(*rest) + size_of(load->dtype) + row_bytes - 1) / row_bytes};
  }

  // The stores of the source as the tasks that read these rows make them, still in memory.
  Refs repeated(const Source& source, Ref tasks, const RowsRead& read) const {
    const Ref row = make_range(free_number(source), constant(read.count), RangeKind::Loop);
    const Replacements by{{source.rows, simplify(read.first + row)}};
    Refs stores;
    for (int i : source.items) {
      const StoreView store(state_.item(i).store);
      Refs ranges{tasks, row};
      for (Ref r : store.ranges)
        if (r != source.rows) ranges.push_back(r);
      stores.push_back(make_store(store.buffer, simplify(substitute(store.offset, by)),
                                  simplify(substitute(store.value, by)), ranges));
    }
    return stores;
  }

  // That no loop of the source has.
  int64_t free_number(const Source& source) const {
    std::set<int64_t> taken;
    for (int i : source.items)
      for (Ref n : toposort(state_.item(i).store))
        if (n->op == Op::Range) taken.insert(RangeView(n).number);
    int64_t number = inner_part(RangeView(source.rows).number);
    while (taken.contains(number)) number = inner_part(number);
    return number;
  }

  // What a task has of each item's buffer.
  std::vector<BufferRow> rows_of_task(const Source& source, const RowsRead& read) const {
    std::vector<BufferRow> rows;
    for (int i : source.items) {
      rows.push_back(*row_of(i, source.rows));
      rows.back().begin = simplify(read.first * rows.back().bytes());
      rows.back().piece_bytes *= read.count;
    }
    return rows;
  }

  // Whether it stores and reads nothing else of them.
  bool is_of_task(const std::vector<int>& readers, const Source& source, const Refs& stores,
                  const std::vector<BufferRow>& rows) const {
    for (size_t k = 0; k < stores.size(); ++k) {
      const Ref memory = state_.memory_of(state_.item(source.items[k]));
      const auto reads = [&](Ref store) { return reads_own_row(store, memory, rows[k]); };
      const bool are_read =
          std::all_of(stores.begin(), stores.end(), reads) &&
          std::all_of(readers.begin(), readers.end(), [&](int r) { return reads(state_.item(r).store); });
      if (!are_read || !stores_own_row(stores[k], rows[k])) return false;
    }
    return true;
  }

  // The items of the source become the first ones of the tile, and what they make is on chip.
  void take_in(const std::vector<int>& readers, const Source& source, Refs stores, const std::vector<BufferRow>& rows) {
    const int tile = state_.item(readers.front()).tile;
    for (int r : readers) state_.item(r).order += static_cast<int>(source.items.size());
    for (size_t k = 0; k < source.items.size(); ++k) {
      Item& item = state_.item(source.items[k]);
      const Ref memory = state_.memory_of(item), local = state_.new_local(item.node->dtype, rows[k].bytes());
      for (size_t j = k + 1; j < stores.size(); ++j) stores[j] = read_on_chip(stores[j], memory, local, rows[k]);
      for (int r : readers) state_.item(r).store = read_on_chip(state_.item(r).store, memory, local, rows[k]);
      item.store = store_on_chip(stores[k], local, rows[k]);
      item.tile = tile, item.order = static_cast<int>(k);
      state_.buffers[item.node.get()] = local;
      state_.temps[static_cast<size_t>(number_of_buffer(memory))].bytes = 0;
    }
  }

  ScheduleState& state_;
};

}  // namespace

void repeat_rows(ScheduleState& state) { RowRepeater(state).run(); }

}  // namespace smelt
