#include "schedule/copy_columns.h"

#include <algorithm>
#include <optional>

#include "graph/index_sum.h"
#include "graph/rules_algebra.h"
#include "graph/views.h"

namespace smelt {
namespace {

constexpr int64_t kWord = 4;      // bytes of one that is copied
constexpr int64_t kBanks = 64;    // bytes of on-chip memory: of columns whose runs are multiples, threads would wait
constexpr int64_t kPadding = 16;  // for each other

// What warps read of columns of so many bytes they find in the caches; more of them they would read again and again.
constexpr int64_t kShortColumn = 256;

bool depends_on_any(Ref n, RangeKind kind) {
  const Refs ranges = ranges_of(n);
  return std::any_of(ranges.begin(), ranges.end(), [&](Ref r) { return kind_of(r) == kind; });
}

bool reads_memory(Ref offset) {
  const Refs nodes = toposort(offset);
  return std::any_of(nodes.begin(), nodes.end(), [](Ref n) { return n->op == Op::Load; });
}

// What a load reads of a column: runs of bytes, `count` of them, `stride` apart.
struct Runs {
  IndexSum begin;   // what the task and the column decide
  IndexSum inside;  // of a run
  Ref number;       // of the run; 0 if there is one
  int64_t count = 1, stride = 0;
  int64_t bytes = 0;  // of a run
};

// Takes a term that moves with the terms of a sum: it is inside of a run, or leads from run to run.
bool add_term(const IndexTerm& term, int64_t size, Runs& runs) {
  if (term.product->min != 0 || term.times < 0) return false;
  if (term.times <= max_of(runs.inside) + size) {
    runs.inside.terms.push_back(term);
    return true;
  }
  if (runs.count > 1) return false;
  runs.number = term.product, runs.count = term.product->max + 1, runs.stride = term.times;
  return true;
}

std::optional<Runs> runs_of(Ref load) {
  const auto sum = index_sum(LoadView(load).offset);
  if (!sum || sum->constant % kWord != 0) return std::nullopt;
  Runs runs{.begin = {.constant = sum->constant}, .inside = {}, .number = constant(0)};
  std::vector<IndexTerm> inner;
  for (const IndexTerm& term : sum->terms) {
    const bool is_inner = depends_on_any(term.product, RangeKind::Reduce);
    const bool is_of_task =
        depends_on_any(term.product, RangeKind::Loop) || depends_on_any(term.product, RangeKind::Tile);
    if ((is_inner && is_of_task) || (!is_inner && term.times % kWord != 0)) return std::nullopt;
    (is_inner ? inner : runs.begin.terms).push_back(term);
  }
  std::sort(inner.begin(), inner.end(), [](const IndexTerm& a, const IndexTerm& b) { return a.times < b.times; });
  const int64_t size = size_of(load->dtype);
  if (!std::all_of(inner.begin(), inner.end(), [&](const IndexTerm& t) { return add_term(t, size, runs); }))
    return std::nullopt;
  runs.bytes = max_of(runs.inside) + size;
  return runs.bytes % kWord == 0 && runs.stride % kWord == 0 ? std::optional(std::move(runs)) : std::nullopt;
}

// Of memory, and of no other loop of the store than the columns, nor of the chunks.
bool is_of_columns(Ref load, Ref columns, int chunks) {
  const auto [buffer, offset] = LoadView(load);
  if (buffer->op == Op::Local || reads_memory(offset)) return false;
  const Refs ranges = ranges_of(offset);
  return contains(ranges, columns) && std::all_of(ranges.begin(), ranges.end(), [&](Ref r) {
           return r == columns || (kind_of(r) != RangeKind::Loop && RangeView(r).number != output_range(chunks));
         });
}

// The copy of what a load reads: runs of all columns side by side, then the next ones.
class Copy {
 public:
  Copy(Ref load, const Runs& runs, Ref column, int chunks)
      : load_(load),
        runs_(runs),
        column_(column),
        number_(make_range(output_range(chunks + 1), constant(runs.count), RangeKind::Loop)),
        word_(make_range(output_range(chunks + 2), constant(runs.bytes / kWord), RangeKind::Loop)),
        run_(runs.bytes % kBanks == 0 ? runs.bytes + kPadding : runs.bytes) {}

  int64_t bytes() const { return round() * runs_.count; }

  Ref store(Ref local, Refs ranges) const {
    const bool has_runs = runs_.count > 1;
    const Ref number = has_runs ? number_ : constant(0), byte = word_ * constant(kWord);
    if (has_runs) ranges.push_back(number_);
    ranges.push_back(column_);
    ranges.push_back(word_);
    const Ref from = to_node(runs_.begin) + number * constant(runs_.stride) + byte;
    return make_store(local, at(number, byte), make_load(DType::I32, LoadView(load_).buffer, simplify(from)), ranges);
  }

  Ref load(Ref local) const {
    return make_load(load_->dtype, local, at(runs_.number, to_node(runs_.inside)), most_loaded(load_));
  }

 private:
  int64_t round() const { return run_ * RangeView(column_).count(); }
  Ref at(Ref number, Ref inside) const {
    return simplify(number * constant(round()) + column_ * constant(run_) + inside);
  }

  Ref load_;
  const Runs& runs_;
  Ref column_, number_, word_;
  int64_t run_;
};

}  // namespace

CopiedColumns copy_columns(Ref node, int chunks, const std::function<Ref(int64_t bytes)>& new_local) {
  const StoreView store(node);
  CopiedColumns out{.copies = {}, .store = node};
  const Ref columns = first_of_kind(store.ranges, RangeKind::Loop);
  if (!columns || !const_int(RangeView(columns).size)) return out;
  const Refs tile = all_of_kind(store.ranges, RangeKind::Tile);
  std::vector<std::pair<Ref, Runs>> read;
  int64_t bytes = 0;  // of a column
  for (Ref n : toposort(store.value)) {
    const auto runs = n->op == Op::Load && is_of_columns(n, columns, chunks) ? runs_of(n) : std::nullopt;
    if (!runs) continue;
    read.emplace_back(n, *runs);
    bytes += runs->bytes * runs->count;
  }
  if (bytes <= kShortColumn) return out;
  Replacements by;
  for (const auto& [load, runs] : read) {
    const Copy copy(load, runs, columns, chunks);
    const Ref local = new_local(copy.bytes());
    out.copies.push_back(copy.store(local, tile));
    by[load] = copy.load(local);
  }
  out.store = make_store(store.buffer, store.offset, substitute(store.value, by), store.ranges);
  return out;
}

}  // namespace smelt
