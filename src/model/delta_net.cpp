#include "model/delta_net.h"

#include <cmath>

#include "graph/rules_algebra.h"
#include "graph/steps.h"

namespace smelt {
namespace {

constexpr char kMatrices[] = "state matrices", kRows[] = "state rows";
// Of a matrix so many columns lie side by side, in blocks behind each other.
int64_t columns(const DeltaNetParameters& net) { return net.width % 16 == 0 ? 16 : 4; }
int64_t column_blocks(const DeltaNetParameters& net) { return net.width / columns(net); }

constexpr double kUnitEpsilon = 1e-6;  // inside of the root, as these models were trained

// Tokens of a group: neighbours of one part, that follow each other.
int64_t group_size(const ModelShape& s) { return s.many_tokens ? kGroupSize : 1; }

// [G, rest...] -> [T, rest...]
Tensor of_tokens(Block& b, Tensor of_group) {
  if (!b.shape.many_tokens) return of_group;
  std::vector<Dim> each(of_group.shape().begin(), of_group.shape().end()), all = each;
  each.insert(each.begin() + 1, Dim(kGroupSize));
  all.front() = b.shape.tokens;
  return reshape(expand(unsqueeze(of_group, 1), each), all);
}

Tensor i64(int64_t value) { return scalar(static_cast<double>(value), DType::I64); }

// G states: one for each token, where these are of different sequences. Else tokens come in parts of sequences, in
// groups of a prompt or one by one: for each group the state that its part begins with.
struct States {
  Tensor in, out;  // i32 [G]
  // Of parts:
  Tensor begins;        // bool [G]: a part begins with this group
  Tensor begin, count;  // i64 [G]: the row of the first token of the group's part, and how many tokens the part has, or
                        // one by one: how many up to this one
  Tensor is_token;      // bool [T], false for padding; only of prompts
  bool are_of_parts() const { return bool(begins.ref()); }
};

States states(Block& b) {
  const ModelShape& s = b.shape;
  const Dim count = s.many_tokens ? Dim(simplify(s.tokens.ref / kGroupSize)) : s.tokens;
  States out;
  out.in = b.slots.input(Bound::StatesIn, DType::I32, {count}, "states in");
  out.out = b.slots.input(Bound::StatesOut, DType::I32, {count}, "states out");
  if (!s.many_tokens && !s.rows_follow) return out;
  const auto size = static_cast<double>(group_size(s));
  out.begins = less(scalar(-1, DType::I32), out.in);
  const Tensor group = iota({count}, 0), row = unsqueeze(group, 1);
  const Tensor is_before = less(unsqueeze(group, 0), row + 1.0);
  const Tensor first = where(out.begins, group * size, i64(0));  // of the last part that has begun
  out.begin = place(max(where(is_before, unsqueeze(first, 0), i64(0)), 1));
  out.in = gather(out.in, out.begin / size);
  if (!s.many_tokens) {
    out.count = group - out.begin + 1.0;
    return out;
  }
  const Tensor position = b.slots.given(Bound::Positions, DType::I32, {s.tokens}, "positions");
  out.is_token = less(position, scalar(static_cast<double>(s.context - kPageSize), DType::I32));
  const Tensor is_same = equal(unsqueeze(of_tokens(b, out.begin), 0), unsqueeze(out.begin, 1));
  out.count = place(sum(cast(is_same & unsqueeze(out.is_token, 0), DType::I64), 1));
  return out;
}

Tensor state_part(Block& b, const char* name, int64_t width) {
  const int slot = b.slots.add({.kind = Bound::State, .name = name});
  return param(slot, DType::F32, {b.shape.states, width}, name);
}

// Rows from before a token to itself: those of its own part, and in front of them those that its state has kept.
class History {
 public:
  // mixed [T, C]
  History(Block& b, const DeltaNetParameters& net, const States& at, Tensor mixed)
      : b_(b),
        kept_rows_(net.taps - 1),
        at_(at),
        mixed_(place(mixed)),
        part_(state_part(b, kRows, kept_rows_ * net.mixed_width())) {}

  // The rows up to each token's own, which is the last one: [T, taps, C].
  Tensor rows() const {
    const Tensor number = unsqueeze(iota({kept_rows_ + 1}, 0), 0);
    if (at_.are_of_parts()) {
      const Tensor begin = of_tokens(b_, at_.begin);
      return at(number + unsqueeze(iota({mixed_.dim(0)}, 0) - begin, 1), begin, of_tokens(b_, at_.in));
    }
    const Tensor is_own = unsqueeze(equal(number, i64(kept_rows_)), 2);
    return where(is_own, unsqueeze(mixed_, 1), kept(number, at_.in));
  }

  // The buffer, with the rows that the next token of each sequence will read. All groups of a part of a prompt write
  // the same.
  Tensor written() const {
    const int64_t columns = mixed_.size(1);
    const Dim count = at_.in.dim(0);
    if (at_.are_of_parts()) {
      const Tensor number = unsqueeze(iota({kept_rows_}, 0), 0) + unsqueeze(at_.count, 1);
      return write_rows(part_, at_.out, 0, reshape(at(number, at_.begin, at_.in), {count, kept_rows_ * columns}));
    }
    const int64_t old_columns = (kept_rows_ - 1) * columns;
    const Tensor newest = write_rows(part_, at_.out, old_columns, mixed_);
    if (old_columns == 0) return newest;
    const Tensor old = kept(unsqueeze(iota({kept_rows_ - 1}, 0), 0) + double(1), at_.in);
    return write_rows(newest, at_.out, 0, reshape(old, {count, old_columns}));
  }

 private:
  // Rows that states have kept: number i64 [N or 1, rows], state i32 [N] -> [N, rows, C].
  Tensor kept(Tensor number, Tensor state) const {
    const Tensor rows = reshape(part_, {b_.shape.states * kept_rows_, mixed_.size(1)});
    const Tensor last = minimum(number, i64(kept_rows_ - 1));
    return gather(rows, unsqueeze(cast(state, DType::I64) * double(kept_rows_), 1) + last);
  }

  // The same, and behind them those of a part, which begins at row `begin`, i64 [N].
  Tensor at(Tensor number, Tensor begin, Tensor state) const {
    const Tensor of_run = gather(mixed_, maximum(number + unsqueeze(begin, 1) - double(kept_rows_), i64(0)));
    return where(unsqueeze(less(number, i64(kept_rows_)), 2), kept(number, state), of_run);
  }

  Block& b_;
  const int64_t kept_rows_;
  const States& at_;
  const Tensor mixed_, part_;
};

Tensor convolution(Block& b, const History& history) {
  const Tensor taps = permute(b.weights("ssm_conv1d.weight"), {1, 0});  // [taps, C]
  return silu(place(sum(history.rows() * taps, 1)));
}

// log(1 + e^x). Where e^x is small, digits would be lost in the sum: a series takes its place.
Tensor softplus(Tensor x) {
  const Tensor e = exp(minimum(x, -x));
  const Tensor series = e * ((e * (1.0 / 3) - 0.5) * e + 1.0);
  const Tensor tail = where(less(e, scalar(0x1p-7)), series, log2(e + 1.0) * std::log(2.0));
  return maximum(x, scalar(0)) + tail;
}

// What the matrices of a layer make of its tokens.
struct Projected {
  Tensor mixed;  // x Wqkv, [T, C]
  Tensor gate;   // x Wz, [T, H, n]
  Tensor beta;   // [T, H]
  Tensor alpha;  // [T, H]
};

// [T, rows of all key heads] -> [T, count of all key heads]: some rows of each.
Tensor of_each_key(const DeltaNetParameters& net, Tensor product, int64_t first, int64_t count) {
  const int64_t rows = product.size(1) / net.key_heads;
  const Tensor part = slice(reshape(product, {product.dim(0), net.key_heads, rows}), 2, first, count);
  return reshape(part, {product.dim(0), net.key_heads * count});
}

// Queries of all heads, then keys, then values, out of rows that have those of a key head together.
Tensor mixed_of_joint(const DeltaNetParameters& net, Tensor product) {
  const int64_t n = net.width, values = net.values_per_key() * n, keys = net.key_heads * n;
  const Tensor column = iota({net.mixed_width()}, 0), in_keys = column % keys, in_values = column - 2.0 * double(keys);
  const auto in_head = [&](Tensor c, int64_t width, int64_t first) {
    return c / double(width) * double(2 * (n + values)) + c % width + double(first);
  };
  const auto before = [&](int64_t end) { return less(column, i64(end)); };
  const Tensor index =
      where(before(keys), in_head(in_keys, n, 0),
            where(before(2 * keys), in_head(in_keys, n, n), in_head(maximum(in_values, i64(0)), values, 2 * n)));
  return permute(gather(permute(place(product), {1, 0}), index), {1, 0});
}

Projected project(Block& b, const DeltaNetParameters& net, const Activations& x) {
  const auto product = [&](const char* name) { return b.weights.product(x, name); };
  const auto heads = [&](Tensor rows) { return reshape(rows, {b.shape.tokens, net.value_heads, net.width}); };
  Projected out;
  if (net.has_joint_input) {
    const Tensor all = place(product("ssm_in.weight"));
    const int64_t values = net.values_per_key() * net.width;
    out.mixed = mixed_of_joint(net, all);
    out.gate = heads(of_each_key(net, all, 2 * net.width + values, values));
  } else {
    out.mixed = product("attn_qkv.weight");
    out.gate = heads(b.apart(product("attn_gate.weight")));
  }
  if (net.is_grouped) {
    const Tensor both = place(product("ssm_ba.weight"));
    out.beta = of_each_key(net, both, 0, net.values_per_key());
    out.alpha = of_each_key(net, both, net.values_per_key(), net.values_per_key());
  } else {
    out.beta = product("ssm_beta.weight");
    out.alpha = product("ssm_alpha.weight");
  }
  return out;
}

// What tokens do to their states. H value heads, whose columns of values lie in J blocks of c: columns are independent
// of each other.
struct Steps {
  Tensor q, k;                  // [H, 1, T, n]
  Tensor v;                     // [H, J, T, c]
  Tensor decay, beta, overlap;  // [H, 1, T]: overlap is k q
};

// Token r of each group of a prompt.
Steps of_groups(const Steps& steps, Dim groups, int64_t r) {
  const auto of = [&](Tensor x) {
    std::vector<Dim> divided(x.shape().begin(), x.shape().end());
    divided[2] = groups;
    divided.insert(divided.begin() + 3, Dim(kGroupSize));
    return squeeze(slice(reshape(x, divided), 3, r, 1), 3);
  };
  return {of(steps.q), of(steps.k), of(steps.v), of(steps.decay), of(steps.beta), of(steps.overlap)};
}

Tensor unit_length(Tensor x) {
  const Tensor squares = place(sum(x * x, -1));
  return x * unsqueeze(scalar(1) / sqrt(squares + kUnitEpsilon), squares.rank());
}

Steps steps_of(Block& b, const DeltaNetParameters& net, const Projected& x, Tensor mixed, const States& at) {
  const Dim& tokens = b.shape.tokens;
  const auto heads = [&](int64_t first, int64_t count) {
    return reshape(slice(mixed, 1, first * net.width, count * net.width), {tokens, count, net.width});
  };
  // [T, key heads, rest...] -> [T, H, rest...]
  const auto for_values = [&](Tensor x) {
    std::vector<Dim> all(x.shape().begin(), x.shape().end()), out = all;
    all.insert(all.begin() + (net.is_grouped ? 2 : 1), Dim(net.values_per_key()));
    out[1] = Dim(net.value_heads);
    return reshape(expand(unsqueeze(x, net.is_grouped ? 2 : 1), all), out);
  };
  // [T, H, rest...] -> [H, 1, T, rest...]
  const auto by_head = [](Tensor x) {
    return unsqueeze(x.rank() == 2 ? permute(x, {1, 0}) : permute(x, {1, 0, 2}), 1);
  };
  const Tensor rate = softplus(x.alpha + b.weights("ssm_dt.bias"));
  Tensor decay = exp(rate * b.weights("ssm_a")), beta = sigmoid(x.beta);
  if (at.is_token.ref()) {  // padding leaves a state as it is
    const Tensor is_token = unsqueeze(at.is_token, 1);
    decay = where(is_token, decay, scalar(1));
    beta = where(is_token, beta, scalar(0));
  }
  const Tensor q = place(unit_length(heads(0, net.key_heads)) * (1 / std::sqrt(static_cast<double>(net.width))));
  const Tensor k = place(unit_length(heads(net.key_heads, net.key_heads)));
  const Tensor v = reshape(place(heads(2 * net.key_heads, net.value_heads)),
                           {tokens, net.value_heads, column_blocks(net), columns(net)});
  return {.q = by_head(for_values(q)),
          .k = by_head(for_values(k)),
          .v = permute(v, {1, 2, 0, 3}),
          .decay = by_head(place(decay)),
          .beta = by_head(place(beta)),
          .overlap = by_head(for_values(place(sum(k * q, -1))))};
}

struct Changed {
  Tensor state;  // [H, J, G, n, c]
  Tensor out;    // S' q: [H, J, G, c]
};

// One token of each of G sequences. Both sums go over the old state, so that it is read once for them: with what is
// wrong, (decay S' k - v) beta, the new state is decay S - k wrong' and gives decay S' q - (k q) wrong. A difference of
// products, unlike their sum, says which of them is rounded first.
Changed change(Tensor state, const Steps& s) {
  const auto of_key = [](Tensor x) { return unsqueeze(x, 4); };
  const auto of_all = [](Tensor x) { return unsqueeze(x, 3); };
  const Tensor by_key = place(sum(state * of_key(s.k), 3)), by_query = place(sum(state * of_key(s.q), 3));
  const Tensor wrong = place((by_key * of_all(s.decay) - s.v) * of_all(s.beta));
  return {.state = state * of_key(of_all(s.decay)) - of_key(s.k) * of_all(wrong),
          .out = place(by_query * of_all(s.decay) - wrong * of_all(s.overlap))};
}

// Of parts without groups.
Changed change_one(Tensor state, const Steps& steps) {
  Changed changed = change(state, steps);
  changed.state = place(changed.state);
  return changed;
}

// The tokens of groups, one after another: out [H, J, G, tokens of a group, c].
Changed change_groups(Tensor state, const Steps& steps) {
  const Tensor row = unsqueeze(iota({kGroupSize}, 0), 1);
  Changed all{.state = state, .out = {}};
  for (int64_t r = 0; r < kGroupSize; ++r) {
    const Changed next = change(all.state, of_groups(steps, state.dim(2), r));
    const Tensor out = unsqueeze(next.out, 3);
    all.state = place(next.state);
    all.out = r == 0 ? out : where(less(row, i64(r)), all.out, out);
  }
  all.out = place(all.out);
  return all;
}

// A group goes on with what the one before has left, but for the first one of a part.
Tensor found_by_groups(Tensor first, Tensor left, Tensor begins) {
  return place(where(unsqueeze(unsqueeze(begins, 1), 2), first, left));
}

}  // namespace

DeltaNetParameters read_delta_net(Keys& keys, bool is_grouped) {
  constexpr int64_t kMostNetHeads = 1024, kMostNetWidth = 1024;
  DeltaNetParameters net{.key_heads = keys.integer("ssm.group_count", 1, kMostNetHeads),
                         .value_heads = keys.integer("ssm.time_step_rank", 1, kMostNetHeads),
                         .width = keys.integer("ssm.state_size", 4, kMostNetWidth),
                         .taps = keys.integer("ssm.conv_kernel", 2, 16),
                         .is_grouped = is_grouped};
  net.has_joint_input = is_grouped && keys.file().find(layer_prefix(0) + "ssm_in.weight");
  const int64_t inner = keys.integer("ssm.inner_size", 1, kMostWidth);
  if (net.width % 4 != 0) keys.refuse("ssm.state_size", std::to_string(net.width) + " is no multiple of 4");
  if (net.value_heads % net.key_heads != 0)
    keys.refuse("ssm.group_count", std::to_string(net.key_heads) + " does not divide " +
                                       std::to_string(net.value_heads) + " heads of values (ssm.time_step_rank)");
  if (inner != net.inner())
    keys.refuse("ssm.inner_size", std::to_string(inner) + " where " + std::to_string(net.value_heads) +
                                      " heads of values have " + std::to_string(net.inner()) + " (ssm.state_size)");
  return net;
}

void write_delta_net(KeyWriter& out, const DeltaNetParameters& net) {
  out.number("ssm.group_count", net.key_heads);
  out.number("ssm.time_step_rank", net.value_heads);
  out.number("ssm.state_size", net.width);
  out.number("ssm.conv_kernel", net.taps);
  out.number("ssm.inner_size", net.inner());
}

std::vector<TensorShape> delta_net_tensors(const DeltaNetParameters& net, int64_t hidden) {
  std::vector<TensorShape> list;
  const auto add_matrix = [&](const char* name, int64_t rows) { list.push_back({name, {rows}, hidden}); };
  if (net.has_joint_input) {
    add_matrix("ssm_in.weight", net.mixed_width() + net.inner());
  } else {
    add_matrix("attn_qkv.weight", net.mixed_width());
    add_matrix("attn_gate.weight", net.inner());
  }
  list.push_back({"ssm_conv1d.weight", {net.mixed_width()}, net.taps});
  list.push_back({"ssm_dt.bias", {}, net.value_heads});
  list.push_back({"ssm_a", {}, net.value_heads});
  if (net.is_grouped) {
    add_matrix("ssm_ba.weight", 2 * net.value_heads);
  } else {
    add_matrix("ssm_beta.weight", net.value_heads);
    add_matrix("ssm_alpha.weight", net.value_heads);
  }
  list.push_back({"ssm_norm.weight", {}, net.width});
  list.push_back({"ssm_out.weight", {hidden}, net.inner()});
  return list;
}

std::vector<StatePart> delta_net_states(const DeltaNetParameters& net) {
  return {{kMatrices, net.value_heads * net.width * net.width}, {kRows, (net.taps - 1) * net.mixed_width()}};
}

Attended delta_net(Block& b, const DeltaNetParameters& net, Tensor normed) {
  const Activations x = b.activations(normed);
  const States at = states(b);
  const Projected in = project(b, net, x);
  const History history(b, net, at, in.mixed);
  const Steps steps = steps_of(b, net, in, place(convolution(b, history)), at);
  const int64_t elements = net.inner() * net.width;
  const Tensor part = state_part(b, kMatrices, elements);
  const Dim count = at.in.dim(0);
  const Tensor before =
      permute(reshape(gather(part, at.in), {count, net.value_heads, column_blocks(net), net.width, columns(net)}),
              {1, 2, 0, 3, 4});
  Refs roots;
  Changed changed;
  if (at.are_of_parts()) {
    const Tensor left = left_before(0, {before.shape().begin(), before.shape().end()});
    const Tensor found = found_by_groups(before, left, at.begins);
    changed = b.shape.many_tokens ? change_groups(found, steps) : change_one(found, steps);
    roots.push_back(leave(left, 2, changed.state));
  } else {
    changed = change(before, steps);
  }
  // [T, H, J, c], of few tokens in the order in which sums read it, or they would have another order for several tokens
  // than for one.
  const Tensor results =
      b.shape.many_tokens ? permute(changed.out, {2, 3, 0, 1, 4}) : place(permute(changed.out, {2, 0, 1, 3}));
  const Tensor matrices =
      write_rows(part, at.out, 0, reshape(permute(changed.state, {2, 0, 1, 3, 4}), {count, elements}));
  roots.insert(roots.begin(), {matrices.ref(), history.written().ref()});
  const Tensor read = reshape(results, {b.shape.tokens, net.value_heads, net.width});
  const Tensor inner = rms_norm(read, b.weights("ssm_norm.weight"), b.model.epsilon) * silu(in.gate);
  const Tensor out = b.weights.product(b.activations(reshape(inner, {b.shape.tokens, net.inner()})), "ssm_out.weight");
  return {out, std::move(roots)};
}

}  // namespace smelt
