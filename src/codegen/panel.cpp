#include "codegen/panel.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/ensure.h"
#include "codegen/dependence.h"
#include "codegen/packed_bytes.h"
#include "codegen/passes.h"
#include "codegen/products_of_halves.h"
#include "graph/on_chip.h"
#include "graph/operands.h"
#include "graph/rules_algebra.h"
#include "graph/views.h"

namespace smelt {
namespace {

constexpr int64_t kCell = 4;                     // bytes
constexpr int64_t kPanelIds = int64_t{1} << 62;  // numbers of panels are below this
constexpr int64_t kTokensAtOnce[] = {16, 8};     // iterations of the axis inside of a tile, where no other loop is

// A wide integer that is never more than a byte holds is one there.
DType dtype_in_panel(Ref value) {
  const bool is_small = is_int(value->dtype) && !is_byte(value->dtype) && value->min >= 0 && value->max <= 255;
  return is_small ? DType::U8 : value->dtype;
}
bool is_byte_in_panel(Ref value) { return is_byte(dtype_in_panel(value)); }
bool is_half_in_panel(Ref value) { return dtype_in_panel(value) == DType::BF16; }
int64_t size_in_panel(Ref value) { return size_of(dtype_in_panel(value)); }

// What an unsigned byte of a panel is at most: sums of products of small ones take fewer instructions.
int64_t most_in_panel(Ref value) { return dtype_in_panel(value) == DType::U8 && value->max < 255 ? value->max : 0; }

Refs output_ranges(const Refs& stores) { return own_ranges(stores[0]); }

// Finds what a panel along an axis can hold.
class Search {
 public:
  Search(const Refs& stores, Ref axis) : axis_(axis), outputs_(output_ranges(stores)) {
    for (Ref s : stores) look(StoreView(s).value);
  }
  const Refs& values() const { return values_; }

 private:
  void look(Ref n) {
    if (!seen_.insert(n.get()).second) return;
    if (is_elementwise(n->op) && is_shared(n)) return add(n);
    if (n->op == Op::Load || n->op == Op::Range) return;
    for (Ref s : n->src) look(s);
  }

  // An integer is kept in as few bytes as it has. What is loaded as it is, is not worth a copy.
  void add(Ref n) {
    while (n->op == Op::Cast && is_int(n->dtype) && is_int(operand_of(n)->dtype) &&
           size_of(operand_of(n)->dtype) <= size_of(n->dtype))
      n = operand_of(n);
    if (is_half(n) && operand_of(n)->op == Op::Cast) n = operand_of(n);
    const DType kept = dtype_in_panel(n);
    const bool is_cell = is_byte(kept) || kept == DType::F32 || kept == DType::BF16;
    if (is_cell && n->op != Op::Load && !contains(values_, n)) values_.push_back(n);
  }

  bool is_shared(Ref n) {
    const Dependence d = dependence_of(n);
    const auto is_output = [&](Ref r) { return contains(outputs_, r); };
    if (contains(d.direct, axis_) || !std::any_of(d.direct.begin(), d.direct.end(), is_output) ||
        std::all_of(d.direct.begin(), d.direct.end(), is_output))
      return false;
    const Refs nodes = toposort(n);
    return std::none_of(nodes.begin(), nodes.end(), [](Ref x) { return is_reduce(x->op); });
  }

  Ref axis_;
  Refs outputs_, values_;
  std::set<const Node*> seen_;
};

// The loops that a value depends on.
Refs ranges_of_value(Ref value) {
  const Dependence d = dependence_of(value);
  Refs ranges = d.direct;
  for (Ref r : d.jumps)
    if (!contains(ranges, r)) ranges.push_back(r);
  return ranges;
}

// The loops of the reductions between n and a value below it, outer ones first. False if it is not below n. Reductions
// side by side may share some loops and not others, so there is no order for all values.
bool find_loops_around(Ref n, Ref value, std::set<const Node*>& seen, Refs& loops) {
  if (n == value) return true;
  if (!seen.insert(n.get()).second || n->op == Op::Load || n->op == Op::Range) return false;
  const size_t outer = loops.size();
  if (is_reduce(n->op))
    for (Ref r : own_ranges(n))
      if (!contains(loops, r)) loops.push_back(r);
  if (std::any_of(n->src.begin(), n->src.end(), [&](Ref s) { return find_loops_around(s, value, seen, loops); }))
    return true;
  loops.resize(outer);
  return false;
}

// How the loops of a nest divide.
struct Loops {
  Refs panels;      // over panels
  Refs tile;        // those, and inside of them the loop that shares a panel
  Refs rows;        // inside of a panel
  Replacements by;  // the ranges that were cut
  Refs inner;       // those of the nest that are left inside a tile
  int64_t row_count = 1;
};

class PanelMaker {
 public:
  PanelMaker(const Refs& stores, const Opt& opt)
      : stores_(stores), axis_(axis_of(stores, opt.axis)), rows_(opt.amount) {
    values_ = Search(stores, axis_).values();
    for (Ref v : values_)
      for (Ref r : ranges_of_value(v))
        if (r != axis_ && contains(output_ranges(stores), r) && !contains(row_ranges_, r)) row_ranges_.push_back(r);
    for (Ref v : values_)
      for (Ref load : dependence_of(v).indices)
        if (depends_on(LoadView(load).offset, axis_) && !contains(indices_, load)) indices_.push_back(load);
    // The bulk first: its reads bring the lines of memory into a cache, where the rest (scales) is found then.
    std::stable_sort(values_.begin(), values_.end(),
                     [](Ref a, Ref b) { return is_byte_in_panel(a) && !is_byte_in_panel(b); });
    for (Ref v : values_) terms_[v.get()] = find_terms(v);
    divide();
  }

  std::string why_not() const {
    if (values_.empty() || values_.size() + 1 > kMostPanelLocals)
      return "nothing that its iterations share is computed";
    if (loops_.row_count % kPanelLanes != 0 || loops_.row_count != rows_)
      return std::to_string(rows_) + " rows do not make a panel";
    for (Ref v : values_) {
      if (!fills_words(v)) return "bytes of a panel do not fill words";
      for (Ref r : terms_of(v))
        if (!is_const(size_of_loop(r))) return "a panel of symbolic size";
    }
    if (loops_.tile.empty()) return "no loop over panels is left";
    __int128 ids = 1;
    for (Ref part : parts_of_id()) {
      ids *= static_cast<__int128>(part->max) + 1;
      for (Ref r : ranges_of(part))
        if (!contains(loops_.tile, r)) return "an index differs inside of a panel";
    }
    if (ids > kPanelIds) return "panels cannot be numbered";
    return "";
  }

  // On chip, with what it remembers of itself.
  int64_t room() const {
    int64_t room = room_of_local(current_panel(0));
    for (Ref v : values_) room += room_of_local(part_of_panel(v, 0));
    return room;
  }

  Panel panel() const {
    Panel panel{.bytes_of_row = bytes_of_row(),
                .jumps = !indices_.empty(),
                .holds_halves = std::any_of(values_.begin(), values_.end(), is_half_in_panel)};
    for (Ref r : row_ranges_) panel.rows *= RangeView(r).most();
    for (Ref r : output_ranges(stores_))
      if (r != axis_ && !contains(row_ranges_, r)) panel.shared_by *= const_int(RangeView(r).size).value_or(1);
    return panel;
  }

  NestWithPanel run(int64_t first_local) const {
    NestWithPanel out;
    const Ref current = current_panel(first_local);
    const auto write_down = [&](Ref id, const Refs& ranges) { return make_store(current, constant(0), id, ranges); };
    const Ref id = id_of_panel();
    const Ref there = make_load(DType::I64, current, constant(0));
    const Ref is_other = binary(Op::Lt, there, id), is_older = binary(Op::Lt, id, there);
    const Ref is_wanted = binary(Op::Or, is_other, is_older);
    out.reset = {write_down(constant(-1), {})};
    Replacements loaded;
    for (Ref v : values_) {
      const Ref local = part_of_panel(v, ++first_local);
      loaded[v] =
          cast(make_load(dtype_in_panel(v), local, substitute(offset_of(v), loops_.by), most_in_panel(v)), v->dtype);
      out.panels.push_back(split_ranges({panel_store(v, local, is_wanted)}));
    }
    out.panels.push_back({write_down(id, loops_.tile)});
    out.main = split_ranges(merge_ranges(main_stores(loaded)));
    out.next = next_panel();
    return out;
  }

 private:
  bool fills_words(Ref value) const {
    const int64_t each = kCell / size_in_panel(value);
    if (each == 1) return true;
    const auto size = terms_of(value).empty() ? std::nullopt : const_int(size_of_loop(terms_of(value).back()));
    return size && *size % each == 0;
  }

  static Ref current_panel(int64_t number) { return make_local(number, DType::Void, 8); }
  Ref part_of_panel(Ref value, int64_t number) const { return make_local(number, DType::Void, bytes_of(value)); }

  int64_t bytes_of_row() const {
    int64_t bytes = 0;
    for (Ref v : values_) {
      int64_t each = size_in_panel(v);
      for (Ref r : terms_of(v)) each *= const_int(size_of_loop(r)).value_or(0);
      bytes += each;
    }
    return bytes;
  }

  // Rows of a panel are counted from the innermost loop on.
  void divide() {
    const Refs outputs = output_ranges(stores_);
    Refs tile_rows, tile_axis;
    std::vector<Refs> inner(outputs.size());
    int64_t rows = 1;
    bool is_full = false;
    for (size_t i = outputs.size(); i-- > 0;) {
      const Ref r = outputs[i];
      if (r == axis_) {
        cut(r, is_axis_alone() ? tokens_at_once(r) : 1, tile_axis, inner[i]);
        continue;
      }
      if (!contains(row_ranges_, r)) {
        inner[i] = {r};
        continue;
      }
      const auto size = const_int(RangeView(r).size);
      int64_t inside = 1;
      if (!is_full && size && rows * *size <= rows_)
        inside = *size;
      else if (!is_full && rows_ % rows == 0 && known_divisor(RangeView(r).size) % (rows_ / rows) == 0)
        inside = rows_ / rows;
      is_full |= !size || inside < *size;
      rows *= inside;
      cut(r, inside, tile_rows, inner[i]);
      if (!inner[i].empty()) loops_.rows.insert(loops_.rows.begin(), inner[i].back());
    }
    loops_.panels = loops_.tile = tile_rows;
    loops_.tile.insert(loops_.tile.end(), tile_axis.begin(), tile_axis.end());
    for (const Refs& part : inner) loops_.inner.insert(loops_.inner.end(), part.begin(), part.end());
    loops_.row_count = rows;
  }

  // Whether no other loop shares the panel: then several iterations of the axis belong into a tile.
  bool is_axis_alone() const {
    if (!indices_.empty()) return false;
    const Refs outputs = output_ranges(stores_);
    return std::none_of(outputs.begin(), outputs.end(), [&](Ref r) { return r != axis_ && !contains(row_ranges_, r); });
  }

  static int64_t tokens_at_once(Ref axis) {
    for (int64_t tokens : kTokensAtOnce)
      if (known_divisor(RangeView(axis).size) % tokens == 0) return tokens;
    return 1;
  }

  void cut(Ref range, int64_t inside, Refs& tile, Refs& inner) {
    const RangeView whole(range);
    if (is_const(whole.size, inside)) {
      inner = {range};
    } else if (inside == 1) {
      tile.insert(tile.begin(), with_kind(range, RangeKind::Tile));
      loops_.by[range] = tile.front();
    } else {
      const Ref size = simplify(whole.size / constant(inside));
      tile.insert(tile.begin(), make_range(outer_part(whole.number), size, RangeKind::Tile));
      inner = {make_range(inner_part(whole.number), constant(inside), RangeKind::Loop)};
      loops_.by[range] = simplify(tile.front() * constant(inside) + inner[0]);
    }
  }

  // The loops of reductions that a value is a term of, outermost first.
  const Refs& terms_of(Ref value) const { return terms_.at(value.get()); }

  Refs find_terms(Ref value) const {
    const Refs mine = ranges_of_value(value);
    Refs terms;
    std::set<const Node*> seen;
    for (Ref s : stores_)
      if (find_loops_around(StoreView(s).value, value, seen, terms)) break;
    std::erase_if(terms, [&](Ref r) { return !contains(mine, r); });
    return terms;
  }

  // The greatest trip count: where a mask ends a loop early, a panel has room for all of it.
  static Ref size_of_loop(Ref range) {
    const Ref size = RangeView(range).size;
    if (is_const(size)) return size;
    const int64_t whole = known_divisor(size);
    return size->max == whole ? constant(whole) : size;
  }

  static Ref flat(const Refs& ranges) {
    Ref index = constant(0);
    for (Ref r : ranges) index = index * size_of_loop(r) + r;
    return index;
  }

  int64_t bytes_of(Ref value) const {
    int64_t bytes = loops_.row_count * size_in_panel(value);
    for (Ref r : terms_of(value)) bytes *= *const_int(size_of_loop(r));
    return bytes;
  }

  // Of a value in its panel: [rows / lanes][terms, by words][lanes][bytes of a word].
  Ref offset_of(Ref value) const {
    const Ref row = flat(loops_.rows), term = flat(terms_of(value));
    const int64_t each = kCell / size_in_panel(value);
    const int64_t cells = bytes_of(value) / kCell / loops_.row_count;
    const Ref cell = (row / kPanelLanes * cells + term / each) * kPanelLanes + row % kPanelLanes;
    return simplify(cell * kCell + term % each * size_in_panel(value));
  }

  Refs parts_of_id() const {
    Refs parts = loops_.panels;
    for (Ref load : indices_) parts.push_back(substitute(cast(load, DType::I64), loops_.by));
    return parts;
  }

  Ref id_of_panel() const {
    Ref id = constant(0);
    for (Ref part : parts_of_id()) id = id * (part->max + 1) + part;
    return simplify(id);
  }

  Ref panel_store(Ref value, Ref local, Ref is_wanted) const {
    Refs loops(loops_.rows.begin(), loops_.rows.end() - 1);
    Replacements by = loops_.by;
    for (Ref r : terms_of(value)) {
      loops.push_back(make_range(RangeView(r).number, size_of_loop(r), RangeKind::Loop));
      by[r] = loops.back();
    }
    loops.push_back(loops_.rows.back());
    // The trip count is 0 where the panel is there already.
    const Ref first = loops[0];
    loops[0] = with_size(first, simplify(cast(is_wanted, DType::I64) * RangeView(first).size));
    const Replacements guarded{{first, loops[0]}};
    loops.insert(loops.begin(), loops_.tile.begin(), loops_.tile.end());
    const auto changed = [&](Ref x) { return substitute(substitute(x, by), guarded); };
    if (!is_half_in_panel(value))
      return make_store(local, changed(offset_of(value)), changed(cast(value, dtype_in_panel(value))), loops);
    return store_of_words(local, changed(offset_of(value)), changed(operand_of(value)), by[terms_of(value).back()],
                          std::move(loops));
  }

  // Halves of two neighbouring terms at once.
  static Ref store_of_words(Ref local, Ref offset, Ref number, Ref term, Refs loops) {
    const RangeView whole(term);
    const Ref pair = make_range(whole.number, simplify(whole.size / constant(2)), RangeKind::Loop);
    std::replace(loops.begin(), loops.end(), term, pair);
    const auto at = [&](Ref x, int64_t i) { return simplify(substitute(x, {{term, pair * 2 + i}})); };
    return make_store(local, at(offset, 0), make(Op::Halves, DType::U32, {at(number, 0), at(number, 1)}), loops);
  }

  // The panel after this one: of the next index, or of the next rows.
  std::optional<Ahead> next_panel() const {
    Ref load;
    for (Ref n : toposort(values_[0]))
      if (n->op == Op::Load && LoadView(n).buffer->op == Op::Param && !contains(indices_, n)) load = n;
    if (!load || (indices_.empty() && loops_.panels.empty())) return std::nullopt;
    Replacements terms, rows;
    for (Ref r : terms_of(values_[0])) terms[r] = constant(0);
    for (Ref r : loops_.rows) rows[r] = constant(0);
    const Ref whole = substitute(LoadView(load).offset, loops_.by);
    const Ref first = substitute(substitute(substitute(LoadView(load).offset, terms), loops_.by), rows);
    // From the first element to each of the panel: rows may lie in any order, as those turned by a rotation do.
    const Ref way = simplify(whole - first);
    for (Ref r : ranges_of(way))
      if (!contains(loops_.rows, r) && !terms.contains(r)) return std::nullopt;
    // An index behind the last one must not be loaded.
    if (indices_.empty() && !dependence_of(load).indices.empty()) return std::nullopt;
    Replacements next;
    if (indices_.empty()) next[loops_.panels.back()] = loops_.panels.back() + 1;
    for (Ref index : indices_) {
      const Ref value = substitute(index, loops_.by);
      next[cast(value, DType::I64)] = cast(value, DType::I64) + 1;
    }
    return Ahead{.buffer = LoadView(load).buffer,
                 .offset = substitute(first, next) + constant(way->min),
                 .bytes = way->max - way->min + size_of(load->dtype),
                 .turn = loops_.tile.back()};
  }

  Refs main_stores(const Replacements& loaded) const {
    Refs out;
    Refs loops = loops_.tile;
    loops.insert(loops.end(), loops_.inner.begin(), loops_.inner.end());
    const auto changed = [&](Ref x) { return substitute(substitute(x, loaded), loops_.by); };
    for (Ref store : stores_) {
      const StoreView s(store);
      out.push_back(make_store(s.buffer, changed(s.offset), changed(s.value), loops));
    }
    return out;
  }

  const Refs& stores_;
  Ref axis_;
  int64_t rows_;
  Refs values_, row_ranges_, indices_;
  std::map<const Node*, Refs> terms_;  // by value
  Loops loops_;
};

bool is_plain(const Refs& stores) {
  for (Ref r : axes_of(stores))
    if (!is_serial(r)) return false;
  return std::all_of(stores.begin(), stores.end(), [&](Ref s) {
    return StoreView(s).buffer->op != Op::Local && output_ranges({s}) == output_ranges(stores);
  });
}

}  // namespace

std::string why_not_panel(const Refs& stores, const Opt& opt, const OnChipScope& scope) {
  if (!is_plain(stores)) return "it comes before options that take axes, for stores with the same loops";
  if (opt.amount < kPanelLanes) return "a panel has " + std::to_string(kPanelLanes) + " rows or more";
  const PanelMaker maker(stores, opt);
  if (std::string reason = maker.why_not(); !reason.empty()) return reason;
  return why_too_much_on_chip(bytes_on_chip(stores) + maker.room(), scope);
}

size_t place_of_panel(const std::vector<Opt>& opts) {
  const auto is_panel = [](const Opt& opt) { return opt.kind == OptKind::Panel; };
  return static_cast<size_t>(std::find_if(opts.begin(), opts.end(), is_panel) - opts.begin());
}

bool has_panel(const std::vector<Opt>& opts) { return place_of_panel(opts) < opts.size(); }

NestWithPanel with_panel(const Refs& stores, const Opt& opt, int64_t first_local) {
  return PanelMaker(stores, opt).run(first_local);
}

Panel panel_of(const Refs& stores, RangeId axis) {
  return is_plain(stores) ? PanelMaker(stores, {OptKind::Panel, axis, kPanelLanes}).panel() : Panel{};
}

}  // namespace smelt
