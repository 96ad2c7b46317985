#include "codegen/opt.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <unordered_set>

#include "base/ensure.h"
#include "codegen/matrix_rows.h"
#include "codegen/packed_bytes.h"
#include "codegen/stage.h"
#include "graph/matrix_shape.h"
#include "graph/rules_algebra.h"

namespace smelt {
namespace {

constexpr std::array<std::string_view, kOptKinds> kNames{"local", "group",  "upcast", "unroll",
                                                         "dot",   "matrix", "pack",   "split",
                                                         "front", "task",   "stage"};

Refs ranges_of_store(Ref store) { return Refs(store->src.begin() + 3, store->src.end()); }

const Ref& widest(const Refs& stores) {
  return *std::max_element(stores.begin(), stores.end(),
                           [](Ref a, Ref b) { return a->src.size() < b->src.size(); });
}

// A range inside a store or reduction is replaced by several (or none), its index by an expression of them.
Ref replace_range(Ref node, Ref range, const Refs& by, const Replacements& index) {
  const auto f = [&](Ref, Ref n) {
    const size_t first = n->op == Op::Store ? 3 : 0;
    if (n->op != Op::Store && !is_reduce(n->op)) return n;
    Refs src;
    for (size_t i = 0; i < n->src.size(); ++i) {
      if (i >= first && n->src[i] == range)
        src.insert(src.end(), by.begin(), by.end());
      else
        src.push_back(n->src[i]);
    }
    return with_sources(n, std::move(src));
  };
  return substitute(rebuild(node, f), index);
}

bool wants_output_axis(OptKind kind) {
  return kind == OptKind::Local || kind == OptKind::Upcast || kind == OptKind::Matrix ||
         kind == OptKind::Pack || kind == OptKind::Front || kind == OptKind::Task ||
         kind == OptKind::Stage;
}

bool wants_reduce_axis(OptKind kind) {
  return kind == OptKind::Group || kind == OptKind::Unroll || kind == OptKind::Dot;
}

RangeKind inner_kind(OptKind kind, RangeKind plain) {
  switch (kind) {
    case OptKind::Local:
    case OptKind::Group: return RangeKind::Lane;
    case OptKind::Upcast:
    case OptKind::Unroll: return RangeKind::Unroll;
    case OptKind::Dot:
    case OptKind::Pack: return RangeKind::Packed;
    case OptKind::Matrix: return RangeKind::Row;
    default: return plain;
  }
}

bool is_plain(Ref range) {
  return kind_of(range) == RangeKind::Loop || kind_of(range) == RangeKind::Reduce;
}

// Reductions that run over `range`.
Refs reductions_over(const Refs& stores, Ref range) {
  Refs found;
  for (Ref s : stores)
    for (Ref n : toposort(s))
      if (is_reduce(n->op) && contains(n->src, range)) found.push_back(n);
  return found;
}

bool is_packed(Ref store) {
  const Refs ranges = ranges_of_store(store);
  return std::any_of(ranges.begin(), ranges.end(),
                     [](Ref r) { return kind_of(r) == RangeKind::Packed; });
}

std::string why_not_lanes(const Refs& stores, const Opt& opt, Ref range) {
  for (Ref n : reductions_over(stores, range)) {
    if (n->op != Op::ReduceSum && n->op != Op::ReduceMax)
      return "lanes of a " + std::string(name_of(n->op)) + " are not combined";
    for (Ref r : ranges_of(n))
      if (kind_of(r) == RangeKind::Lane && depends_on(n, r))
        return "the reduction already has lanes";
  }
  for (Ref s : stores)
    for (Ref n : toposort(s)) {
      if (n->op == Op::TopK && depends_on(n, range)) return "a topk takes one element at a time";
      if (n->op == Op::Range && depends_on(n->src[0], range))
        return "a loop inside has another length for each lane";
    }
  if (opt.kind != OptKind::Local) return "";
  for (Ref s : stores)
    for (Ref r : ranges_of(s))
      if (kind_of(r) == RangeKind::Lane) return "the nest already has lanes";
  for (Ref s : stores)
    if (depends_on(s, range) &&
        stride(s->src[1], range) != (is_packed(s) ? 4 : size_of(s->src[2]->dtype)))
      return "neighbours along axis " + std::to_string(opt.axis) + " are not stored side by side";
  return "";
}

std::string axis_text(const Opt& opt, Ref size) {
  const auto n = const_int(size);
  return "axis " + std::to_string(opt.axis) + " of " + (n ? std::to_string(*n) : "symbolic size");
}

Refs with_kind(const Refs& stores, Ref range, RangeKind kind) {
  const Ref changed = make_range(range->arg.i, range->src[0], kind);
  Refs out;
  for (Ref s : stores) out.push_back(replace_range(s, range, {changed}, {{range, changed}}));
  return out;
}

Refs move_to_front(const Refs& stores, Ref range) {
  Refs out;
  for (Ref s : stores) {
    Refs src = s->src;
    auto it = std::find(src.begin() + 3, src.end(), range);
    if (it != src.end()) std::rotate(src.begin() + 3, it, it + 1);
    out.push_back(with_sources(s, std::move(src)));
  }
  return out;
}

// The range in two, the inner one of the kind that the option makes.
Refs cut(const Refs& stores, Ref range, const Opt& opt) {
  const RangeKind plain = kind_of(range);
  const Ref amount = constant(opt.amount);
  const Ref rest = simplify(range->src[0] / amount);
  const Ref inner = make_range(2 * range->arg.i + 1, amount, inner_kind(opt.kind, plain));
  Refs by;
  Ref index = inner;
  if (!is_const(rest, 1)) {
    const Ref outer = make_range(2 * range->arg.i, rest, plain);
    by.push_back(outer);
    index = outer * amount + inner;
  }
  by.push_back(inner);
  Refs out;
  for (Ref s : stores) out.push_back(replace_range(s, range, by, {{range, index}}));
  return out;
}

// Every reduction over the range must be a sum of products of bytes.
std::string why_not_dot(const Refs& stores, const Opt& opt, Ref range) {
  if (opt.amount != 4) return "a word has 4 bytes";
  bool found = false;
  for (Ref s : cut(stores, range, opt))
    for (Ref n : toposort(s)) {
      if (!is_reduce(n->op)) continue;
      const Refs ranges(n->src.begin(), n->src.end());
      const auto packed = std::find_if(ranges.begin(), ranges.end(), [](Ref r) {
        return r->op == Op::Range && kind_of(r) == RangeKind::Packed;
      });
      if (packed == ranges.end()) continue;
      if (std::count_if(ranges.begin(), ranges.end(), [](Ref r) {
            return r->op == Op::Range && kind_of(r) == RangeKind::Packed;
          }) > 1)
        return "the reduction has a packed axis";
      if (n->op != Op::ReduceSum || !packed_dot(n->src[0], *packed))
        return "axis " + std::to_string(opt.axis) + " is not one of sums of products of bytes";
      found = true;
    }
  return found ? "" : "no reduction is left over axis " + std::to_string(opt.axis);
}

// Every store must be one of bytes side by side.
std::string why_not_pack(const Refs& stores, const Opt& opt, Ref range) {
  if (opt.amount != 4) return "a word has 4 bytes";
  for (Ref s : stores)
    if (is_packed(s)) return "the nest has a packed axis";
  for (Ref s : cut(stores, range, opt)) {
    const Refs ranges = ranges_of_store(s);
    const auto packed = std::find_if(ranges.begin(), ranges.end(),
                                     [](Ref r) { return kind_of(r) == RangeKind::Packed; });
    if (packed == ranges.end() || stride(s->src[1], *packed) != 1 ||
        !packed_bytes(s->src[2], *packed))
      return "axis " + std::to_string(opt.axis) + " is not one of bytes side by side";
  }
  return "";
}

// At least one sum must become a row of a matrix.
std::string why_not_matrix(const Refs& stores, const Opt& opt, Ref range) {
  if (opt.amount > kMatrixRows)
    return "a matrix has at most " + std::to_string(kMatrixRows) + " rows";
  std::string reason;
  matrix_products(cut(stores, range, opt), &reason);
  return reason;
}

}  // namespace

std::string to_string(const Opt& opt) {
  std::string text(kNames[static_cast<size_t>(opt.kind)]);
  text += "(" + std::to_string(opt.axis);
  if (opt.amount) text += "," + std::to_string(opt.amount);
  return text + ")";
}

std::string to_string(const std::vector<Opt>& opts) {
  std::string text;
  for (const Opt& o : opts) text += (text.empty() ? "" : " ") + to_string(o);
  return text;
}

Result<std::vector<Opt>> parse_opts(std::string_view text) {
  std::vector<Opt> opts;
  while (true) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\n')) text.remove_prefix(1);
    if (text.empty()) return opts;
    const size_t open = text.find('('), close = text.find(')');
    const auto bad = [&] {
      return Error{"[opt] " + std::string(text.substr(0, 40)) +
                   ": expected name(axis) or name(axis,amount)"};
    };
    if (open == std::string_view::npos || close == std::string_view::npos || close < open)
      return bad();
    const auto name = std::find(kNames.begin(), kNames.end(), text.substr(0, open));
    if (name == kNames.end()) return bad();
    Opt opt{.kind = static_cast<OptKind>(name - kNames.begin())};
    const char* end = text.data() + close;
    auto [p, error] = std::from_chars(text.data() + open + 1, end, opt.axis);
    if (error != std::errc()) return bad();
    if (p != end && (*p != ',' || std::from_chars(p + 1, end, opt.amount).ptr != end)) return bad();
    opts.push_back(opt);
    text.remove_prefix(close + 1);
  }
}

bool varies_in_lanes(Ref value) {
  const Refs ranges = ranges_of(value);
  return std::any_of(ranges.begin(), ranges.end(),
                     [](Ref r) { return kind_of(r) == RangeKind::Lane; });
}

int64_t known_divisor(Ref size) {
  if (const auto n = const_int(size)) return *n;
  if (size->op == Op::Mul) {
    __int128 product =
        static_cast<__int128>(known_divisor(size->src[0])) * known_divisor(size->src[1]);
    return product > (int64_t{1} << 40) ? 1 : static_cast<int64_t>(product);
  }
  // The smaller or greater of two numbers is one of them.
  if (size->op == Op::Add || size->op == Op::Min || size->op == Op::Max)
    return std::gcd(known_divisor(size->src[0]), known_divisor(size->src[1]));
  return 1;
}

Refs axes_of(const Refs& stores) {
  Refs axes = ranges_of_store(widest(stores));
  std::unordered_set<const Node*> seen;
  for (Ref r : axes) seen.insert(r.get());
  Refs reduce;
  for (Ref s : stores)
    for (Ref r : ranges_of(s))
      if (seen.insert(r.get()).second) reduce.push_back(r);
  std::sort(reduce.begin(), reduce.end(), [](Ref a, Ref b) {
    const int64_t x = range_order(a->arg.i), y = range_order(b->arg.i);
    return x != y ? x < y : structurally_less(a, b);
  });
  axes.insert(axes.end(), reduce.begin(), reduce.end());
  return axes;
}

bool is_output_axis(const Refs& stores, Ref range) {
  return contains(ranges_of_store(widest(stores)), range);
}

std::string why_not(const Refs& stores, const Opt& opt) {
  const std::string name(kNames[static_cast<size_t>(opt.kind)]);
  const Refs axes = axes_of(stores);
  if (opt.axis < 0 || opt.axis >= static_cast<int>(axes.size()))
    return name + ": there is no axis " + std::to_string(opt.axis);
  const Ref range = axes[opt.axis];
  const bool output = is_output_axis(stores, range);
  if (wants_output_axis(opt.kind) && !output)
    return name + ": axis " + std::to_string(opt.axis) + " is not an output axis";
  if (wants_reduce_axis(opt.kind) && output)
    return name + ": axis " + std::to_string(opt.axis) + " is not a reduction axis";
  if (!is_plain(range) && !(opt.kind == OptKind::Front && kind_of(range) == RangeKind::Task))
    return name + ": axis " + std::to_string(opt.axis) + " is already taken";
  if (opt.kind == OptKind::Front) return "";
  if (opt.kind == OptKind::Stage) {
    const std::string reason = why_not_stage(stores, opt);
    return reason.empty() ? "" : name + ": " + reason;
  }
  if (opt.kind == OptKind::Task) {
    for (Ref s : stores) {
      for (Ref r : ranges_of_store(s))
        if (kind_of(r) == RangeKind::Tile) return name + ": the nest is part of a tile";
      const Refs ranges = ranges_of_store(s);
      const auto it = std::find(ranges.begin(), ranges.end(), range);
      if (it == ranges.end()) return name + ": a store of the nest has no such loop";
      if (std::any_of(ranges.begin(), it, [](Ref r) { return kind_of(r) == RangeKind::Loop; }))
        return name + ": axis " + std::to_string(opt.axis) + " is inside a serial loop";
    }
    return "";
  }
  if (opt.amount < 2) return name + ": the amount must be 2 or more";
  if (known_divisor(range->src[0]) % opt.amount != 0)
    return name + ": " + std::to_string(opt.amount) + " does not divide " +
           axis_text(opt, range->src[0]);
  if (opt.kind == OptKind::Unroll)
    for (Ref n : reductions_over(stores, range))
      if (n->op == Op::TopK) return name + ": a topk takes one element at a time";
  if (opt.kind == OptKind::Local || opt.kind == OptKind::Group)
    if (std::string reason = why_not_lanes(stores, opt, range); !reason.empty())
      return name + ": " + reason;
  if (opt.kind == OptKind::Matrix)
    if (std::string reason = why_not_matrix(stores, opt, range); !reason.empty())
      return name + ": " + reason;
  if (opt.kind == OptKind::Dot)
    if (std::string reason = why_not_dot(stores, opt, range); !reason.empty())
      return name + ": " + reason;
  if (opt.kind == OptKind::Pack)
    if (std::string reason = why_not_pack(stores, opt, range); !reason.empty())
      return name + ": " + reason;
  return "";
}

Refs apply_opt(const Refs& stores, const Opt& opt) {
  ENSURE(why_not(stores, opt).empty(), why_not(stores, opt));
  const Ref range = axes_of(stores)[opt.axis];
  if (opt.kind == OptKind::Task) return with_kind(stores, range, RangeKind::Task);
  if (opt.kind == OptKind::Front) return move_to_front(stores, range);
  if (opt.kind == OptKind::Stage) return stage(stores, opt, 0).main;
  return cut(stores, range, opt);
}

Refs apply_opts(Refs stores, const std::vector<Opt>& opts) {
  for (const Opt& opt : opts) stores = apply_opt(stores, opt);
  return stores;
}

}  // namespace smelt
