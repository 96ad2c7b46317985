#include "graph/node.h"

#include <array>
#include <bit>
#include <deque>
#include <limits>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "base/ensure.h"
#include "graph/line.h"

namespace smelt {
namespace {

struct OpRow {
  std::string_view text;
  OpClass klass;
  int arity;
};

constexpr std::array kOps{
#define OP(name, text, klass, arity, doc) OpRow{text, OpClass::klass, arity},
#include "graph/ops.def"
#undef OP
};

const OpRow& row(Op op) { return kOps[static_cast<size_t>(op)]; }

// --- structural hash

uint64_t mix(uint64_t h, uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15ULL + (h << 6) + (h >> 2);
  h *= 0xff51afd7ed558ccdULL;
  return h ^ (h >> 33);
}

uint64_t hash_text(std::string_view text) {
  uint64_t h = 0xcbf29ce484222325ULL;
  for (unsigned char c : text) h = (h ^ c) * 0x100000001b3ULL;
  return h;
}

uint64_t structural_key(const Node& n) {
  uint64_t h = mix(static_cast<uint64_t>(n.op), static_cast<uint64_t>(n.dtype));
  h = mix(h, static_cast<uint64_t>(n.arg.i));
  h = mix(h, std::bit_cast<uint64_t>(n.arg.f));
  for (int64_t v : n.arg.list) h = mix(h, static_cast<uint64_t>(v));
  h = mix(h, hash_text(n.arg.name));
  for (Ref s : n.src) h = mix(h, s->key);
  for (Ref d : n.shape) h = mix(h, d->key ^ 0x5151);
  return h;
}

// --- bounds of integer values

struct Bounds {
  int64_t min, max;
};

constexpr int64_t kLow = std::numeric_limits<int64_t>::min();
constexpr int64_t kHigh = std::numeric_limits<int64_t>::max();

Bounds dtype_bounds(DType dtype) {
  switch (dtype) {
    case DType::Bool: return {0, 1};
    case DType::I8: return {-128, 127};
    case DType::U8: return {0, 255};
    case DType::I16: return {-32768, 32767};
    case DType::U16: return {0, 65535};
    case DType::I32:
      return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
    case DType::U32: return {0, std::numeric_limits<uint32_t>::max()};
    default: return {kLow, kHigh};
  }
}

int64_t saturate(__int128 v) {
  if (v < kLow) return kLow;
  if (v > kHigh) return kHigh;
  return static_cast<int64_t>(v);
}

int64_t floor_div(int64_t a, int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }

Bounds product_bounds(Bounds a, Bounds b) {
  const __int128 v[4] = {static_cast<__int128>(a.min) * b.min, static_cast<__int128>(a.min) * b.max,
                         static_cast<__int128>(a.max) * b.min,
                         static_cast<__int128>(a.max) * b.max};
  return {saturate(std::min(std::min(v[0], v[1]), std::min(v[2], v[3]))),
          saturate(std::max(std::max(v[0], v[1]), std::max(v[2], v[3])))};
}

Bounds divide_bounds(Bounds a, Bounds b) {
  if (b.min <= 0) return {kLow, kHigh};
  return {a.min < 0 ? floor_div(a.min, b.min) : a.min / b.max,
          a.max < 0 ? floor_div(a.max, b.max) : a.max / b.min};
}

Bounds modulo_bounds(Bounds a, Bounds b) {
  if (b.min <= 0) return {kLow, kHigh};
  if (a.min >= 0 && a.max < b.min) return a;
  return {0, a.min >= 0 ? std::min(a.max, b.max - 1) : b.max - 1};
}

Bounds and_bounds(Bounds a, Bounds b) {
  if (a.min >= 0 && b.min >= 0) return {0, std::min(a.max, b.max)};
  if (a.min >= 0) return {0, a.max};
  if (b.min >= 0) return {0, b.max};
  return {kLow, kHigh};
}

Bounds or_bounds(Bounds a, Bounds b) {
  if (a.min < 0 || b.min < 0) return {kLow, kHigh};
  const auto top = static_cast<uint64_t>(a.max | b.max);
  return {0, static_cast<int64_t>(
                 std::bit_width(top) >= 63 ? kHigh : (int64_t{1} << std::bit_width(top)) - 1)};
}

Bounds shift_bounds(Op op, Bounds a, Bounds b) {
  if (b.min != b.max || b.min < 0 || b.min > 62)
    return op == Op::Shr && a.min >= 0 ? Bounds{0, a.max} : Bounds{kLow, kHigh};
  if (op == Op::Shr) return {a.min >> b.min, a.max >> b.min};
  return product_bounds(a, {int64_t{1} << b.min, int64_t{1} << b.min});
}

Bounds lut_bounds(const std::vector<int64_t>& table) {
  Bounds b{kHigh, kLow};
  for (int64_t v : table) b = {std::min(b.min, v), std::max(b.max, v)};
  return b;
}

// Bounds as if the arithmetic were exact; the caller widens to the dtype's range where the value may wrap.
Bounds exact_bounds(const Node& n) {
  auto of = [&](int i) { return Bounds{n.src[i]->min, n.src[i]->max}; };
  switch (n.op) {
    case Op::Const: return {n.arg.i, n.arg.i};
    case Op::Var: return {n.arg.list[0], n.arg.list[1]};
    case Op::Range:
      return {0, std::max<int64_t>(0, saturate(static_cast<__int128>(n.src[0]->max) - 1))};
    case Op::Neg:
      return {saturate(-static_cast<__int128>(of(0).max)),
              saturate(-static_cast<__int128>(of(0).min))};
    case Op::Add:
      return {saturate(static_cast<__int128>(of(0).min) + of(1).min),
              saturate(static_cast<__int128>(of(0).max) + of(1).max)};
    case Op::Sub:
      return {saturate(static_cast<__int128>(of(0).min) - of(1).max),
              saturate(static_cast<__int128>(of(0).max) - of(1).min)};
    case Op::Mul: return product_bounds(of(0), of(1));
    case Op::Div: return divide_bounds(of(0), of(1));
    case Op::Mod: return modulo_bounds(of(0), of(1));
    case Op::Max: return {std::max(of(0).min, of(1).min), std::max(of(0).max, of(1).max)};
    case Op::Min: return {std::min(of(0).min, of(1).min), std::min(of(0).max, of(1).max)};
    case Op::And: return and_bounds(of(0), of(1));
    case Op::Or:
    case Op::Xor: return or_bounds(of(0), of(1));
    case Op::Shl:
    case Op::Shr: return shift_bounds(n.op, of(0), of(1));
    case Op::Where: return {std::min(of(1).min, of(2).min), std::max(of(1).max, of(2).max)};
    case Op::Lut: return lut_bounds(n.arg.list);
    case Op::Cast: return is_float(n.src[0]->dtype) ? Bounds{kLow, kHigh} : of(0);
    default: return {kLow, kHigh};
  }
}

Bounds bounds_of(const Node& n) {
  const Bounds limits = dtype_bounds(n.dtype);
  if (!is_int(n.dtype) && n.dtype != DType::Bool) return {kLow, kHigh};
  const Bounds exact = exact_bounds(n);
  return exact.min < limits.min || exact.max > limits.max ? limits : exact;
}

// --- interning

struct NodeHash {
  size_t operator()(const Node* n) const { return n->key; }
};
struct NodeEqual {
  bool operator()(const Node* a, const Node* b) const {
    return a->op == b->op && a->dtype == b->dtype && a->src == b->src && a->arg == b->arg &&
           a->shape == b->shape;
  }
};

struct Interner {
  std::mutex mutex;
  std::deque<Node> storage;
  std::unordered_set<const Node*, NodeHash, NodeEqual> set;
};

// Sixteen shards by key, so that threads compiling different kernels seldom wait for each other.
Interner& shard(uint64_t key) {
  static std::array<Interner, 16> shards;
  return shards[(key >> 40) & 15];
}

Ref intern(Node&& candidate) {
  Interner& s = shard(candidate.key);
  std::lock_guard lock(s.mutex);
  if (auto it = s.set.find(&candidate); it != s.set.end()) return Ref(*it);
  s.storage.push_back(std::move(candidate));
  const Node* node = &s.storage.back();
  s.set.insert(node);
  return Ref(node);
}

}  // namespace

std::string_view name_of(Op op) { return row(op).text; }
OpClass class_of(Op op) { return row(op).klass; }
int arity_of(Op op) { return row(op).arity; }

std::optional<Op> op_from_name(std::string_view text) {
  for (size_t i = 0; i < kOps.size(); ++i)
    if (kOps[i].text == text) return static_cast<Op>(i);
  return std::nullopt;
}

Ref make(Op op, DType dtype, Refs src, Arg arg, Shape shape) {
  ENSURE(arity_of(op) < 0 || static_cast<size_t>(arity_of(op)) == src.size(),
         std::string(name_of(op)) + ": wrong number of sources");
  Node n{op, dtype, std::move(src), std::move(arg), std::move(shape), 0, 0, 0};
  n.key = structural_key(n);
  const Bounds b = bounds_of(n);
  n.min = b.min;
  n.max = b.max;
  const Ref made = intern(std::move(n));
  note_line(made);
  return made;
}

Ref with_sources(Ref node, Refs src) {
  if (src == node->src) return node;
  return make(node->op, node->dtype, std::move(src), node->arg, node->shape);
}

// --- scalars

Ref constant(int64_t value, DType dtype) { return make(Op::Const, dtype, {}, {.i = value}); }
Ref constant_f(double value, DType dtype) { return make(Op::Const, dtype, {}, {.f = value}); }
Ref variable(std::string name, int64_t min, int64_t max) {
  return make(Op::Var, DType::I64, {}, {.list = {min, max}, .name = std::move(name)});
}
bool is_const(Ref node) { return node->op == Op::Const; }
bool is_const(Ref node, int64_t value) {
  return is_const(node) && !is_float(node->dtype) && node->arg.i == value;
}
std::optional<int64_t> const_int(Ref node) {
  if (!is_const(node) || is_float(node->dtype)) return std::nullopt;
  return node->arg.i;
}

Ref unary(Op op, Ref x) { return make(op, x->dtype, {x}, {}, x->shape); }

Ref binary(Op op, Ref x, Ref y) {
  ENSURE(x->dtype == y->dtype, std::string(name_of(op)) + ": " + std::string(name_of(x->dtype)) +
                                   " with " + std::string(name_of(y->dtype)));
  ENSURE(x->shape == y->shape, std::string(name_of(op)) + ": sources of different shapes");
  const bool compares = op == Op::Lt || op == Op::Eq;
  return make(op, compares ? DType::Bool : x->dtype, {x, y}, {}, x->shape);
}

Ref where(Ref condition, Ref x, Ref y) {
  ENSURE(condition->dtype == DType::Bool && x->dtype == y->dtype, "where: types do not fit");
  return make(Op::Where, x->dtype, {condition, x, y}, {}, x->shape);
}

Ref cast(Ref x, DType dtype) {
  return x->dtype == dtype ? x : make(Op::Cast, dtype, {x}, {}, x->shape);
}
Ref bitcast(Ref x, DType dtype) {
  if (x->dtype == dtype) return x;
  ENSURE(x->shape.empty() && size_of(x->dtype) == size_of(dtype), "bitcast: scalar sizes differ");
  return make(Op::Bitcast, dtype, {x});
}

Ref operator+(Ref x, Ref y) { return binary(Op::Add, x, y); }
Ref operator-(Ref x, Ref y) { return binary(Op::Sub, x, y); }
Ref operator*(Ref x, Ref y) { return binary(Op::Mul, x, y); }
Ref operator/(Ref x, Ref y) { return binary(Op::Div, x, y); }
Ref operator%(Ref x, Ref y) { return binary(Op::Mod, x, y); }
Ref operator+(Ref x, int64_t y) { return x + constant(y, x->dtype); }
Ref operator-(Ref x, int64_t y) { return x - constant(y, x->dtype); }
Ref operator*(Ref x, int64_t y) { return x * constant(y, x->dtype); }
Ref operator/(Ref x, int64_t y) { return x / constant(y, x->dtype); }
Ref operator%(Ref x, int64_t y) { return x % constant(y, x->dtype); }

// --- walking

Refs toposort(Ref root) {
  Refs order;
  std::unordered_set<const Node*> seen;
  std::vector<std::pair<Ref, size_t>> stack{{root, 0}};
  seen.insert(root.get());
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    if (next == node->src.size()) {
      order.push_back(node);
      stack.pop_back();
      continue;
    }
    Ref s = node->src[next++];
    if (seen.insert(s.get()).second) stack.push_back({s, 0});
  }
  return order;
}

Ref rebuild(Ref root, const std::function<Ref(Ref, Ref)>& f) {
  std::unordered_map<const Node*, Ref> done;
  for (Ref node : toposort(root)) {
    Refs src;
    src.reserve(node->src.size());
    for (Ref s : node->src) src.push_back(done.at(s.get()));
    const Ref made = f(node, with_sources(node, std::move(src)));
    inherit_line(node, made);
    done[node.get()] = made;
  }
  return done.at(root.get());
}

}  // namespace smelt
