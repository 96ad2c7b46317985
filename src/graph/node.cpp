#include "graph/node.h"

#include <array>
#include <bit>
#include <deque>
#include <mutex>
#include <vector>

#include "base/ensure.h"
#include "graph/bounds.h"
#include "graph/line.h"
#include "graph/node_count.h"
#include "graph/node_map.h"

namespace smelt {
namespace {

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

Bounds bounds_of(const Node& n) {
  Bounds src[3];
  const size_t count = std::min(n.src.size(), std::size(src));  // integers have no more sources that matter
  for (size_t i = 0; i < count; ++i) src[i] = {n.src[i]->min, n.src[i]->max};
  return bounds_of(n.op, n.dtype, n.arg, {src, count});
}

// --- interning

bool is_same(const Node& a, const Node& b) {
  return a.op == b.op && a.dtype == b.dtype && a.src == b.src && a.arg == b.arg && a.shape == b.shape;
}

struct Interner {
  struct Place {
    uint64_t key = 0;
    const Node* node = nullptr;
  };

  // Where the node is, or would be.
  Place& place_of(const Node& n) {
    const size_t mask = places.size() - 1;
    size_t at = n.key & mask;
    while (places[at].node && !(places[at].key == n.key && is_same(*places[at].node, n))) at = (at + 1) & mask;
    return places[at];
  }

  void make_room() {
    if (2 * (storage.size() + 1) <= places.size()) return;
    places.assign(2 * places.size(), {});
    for (const Node& n : storage) place_of(n) = {n.key, &n};
  }

  std::mutex mutex;
  std::deque<Node> storage;
  std::vector<Place> places = std::vector<Place>(1024);  // a power of two, at least half of them free
  size_t list_bytes = 0;                                 // of sources, shapes and arguments
};

// Sixteen shards by key, so that threads compiling different kernels seldom wait for each other.
std::array<Interner, 16>& shards() {
  static std::array<Interner, 16> all;
  return all;
}

Interner& shard(uint64_t key) { return shards()[(key >> 40) & 15]; }

size_t list_bytes(const Node& n) {
  return (n.src.capacity() + n.shape.capacity()) * sizeof(Ref) + n.arg.list.capacity() * sizeof(int64_t);
}

Ref intern(Node&& candidate) {
  Interner& s = shard(candidate.key);
  std::lock_guard lock(s.mutex);
  if (const Node* known = s.place_of(candidate).node) return Ref(known);
  s.make_room();
  s.storage.push_back(std::move(candidate));
  const Node* node = &s.storage.back();
  s.place_of(*node) = {node->key, node};
  s.list_bytes += list_bytes(*node);
  return Ref(node);
}

}  // namespace

NodeCount node_count() {
  constexpr size_t kToFindAgain = 3 * sizeof(Interner::Place);  // two to four
  NodeCount count;
  for (Interner& s : shards()) {
    std::lock_guard lock(s.mutex);
    count.nodes += s.storage.size();
    count.bytes += s.storage.size() * (sizeof(Node) + kToFindAgain) + s.list_bytes;
  }
  return count;
}

std::optional<Op> op_from_name(std::string_view text) {
  for (size_t i = 0; i < std::size(kOps); ++i)
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
bool is_const(Ref node, int64_t value) { return is_const(node) && !is_float(node->dtype) && node->arg.i == value; }
std::optional<int64_t> const_int(Ref node) {
  if (!is_const(node) || is_float(node->dtype)) return std::nullopt;
  return node->arg.i;
}

Ref unary(Op op, Ref x) { return make(op, x->dtype, {x}, {}, x->shape); }

Ref binary(Op op, Ref x, Ref y) {
  ENSURE(x->dtype == y->dtype,
         std::string(name_of(op)) + ": " + std::string(name_of(x->dtype)) + " with " + std::string(name_of(y->dtype)));
  ENSURE(x->shape == y->shape, std::string(name_of(op)) + ": sources of different shapes");
  const bool compares = op == Op::Lt || op == Op::Eq;
  return make(op, compares ? DType::Bool : x->dtype, {x, y}, {}, x->shape);
}

Ref where(Ref condition, Ref x, Ref y) {
  ENSURE(condition->dtype == DType::Bool && x->dtype == y->dtype, "where: types do not fit");
  return make(Op::Where, x->dtype, {condition, x, y}, {}, x->shape);
}

Ref cast(Ref x, DType dtype) { return x->dtype == dtype ? x : make(Op::Cast, dtype, {x}, {}, x->shape); }
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
  NodeSet seen;
  std::vector<std::pair<Ref, size_t>> stack{{root, 0}};
  seen.insert(root);
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    if (next == node->src.size()) {
      order.push_back(node);
      stack.pop_back();
      continue;
    }
    Ref s = node->src[next++];
    if (seen.insert(s)) stack.push_back({s, 0});
  }
  return order;
}

Ref rebuild(Ref root, const std::function<Ref(Ref, Ref)>& f) {
  NodeMap<Ref> done;
  for (Ref node : toposort(root)) {
    Refs src;
    src.reserve(node->src.size());
    for (Ref s : node->src) src.push_back(*done.find(s));
    const Ref made = f(node, with_sources(node, std::move(src)));
    inherit_line(node, made);
    done.set(node, made);
  }
  return *done.find(root);
}

}  // namespace smelt
