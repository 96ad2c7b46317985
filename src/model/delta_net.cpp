#include "model/delta_net.h"

#include <cmath>

namespace smelt {
namespace {

constexpr char kMatrices[] = "state matrices", kRows[] = "state rows";
constexpr double kUnitEpsilon = 1e-6;  // inside of the root, as these models were trained

// G states: one for each token, or one for the group of a prompt.
struct States {
  Tensor in, out;   // i32 [G]
  Tensor is_token;  // bool [T], false for padding; absent where a padding token has a state of its own
};

States states(Block& b) {
  const ModelShape& s = b.shape;
  const Dim count = s.many_tokens ? Dim(1) : s.tokens;
  States out{.in = b.slots.input(Bound::StatesIn, DType::I32, {count}, "states in"),
             .out = b.slots.input(Bound::StatesOut, DType::I32, {count}, "states out"),
             .is_token = {}};
  if (!s.many_tokens) return out;
  const Tensor position = b.slots.input(Bound::Positions, DType::I32, {s.tokens}, "positions");
  out.is_token = less(position, scalar(static_cast<double>(s.context - kPageSize), DType::I32));
  return out;
}

Tensor state_part(Block& b, const char* name, int64_t width) {
  const int slot = b.slots.add({.kind = Bound::State, .name = name});
  return param(slot, DType::F32, {b.shape.states, width}, name);
}

Tensor i64(int64_t value) { return scalar(static_cast<double>(value), DType::I64); }

// Rows from before a token to itself: those of its own run, and in front of them those that its state has kept.
class History {
 public:
  // mixed [T, C]
  History(Block& b, const DeltaNetParameters& net, const States& at, Tensor mixed)
      : kept_rows_(net.taps - 1),
        at_(at),
        mixed_(place(mixed)),
        part_(state_part(b, kRows, kept_rows_ * net.mixed_width())),
        kept_(reshape(gather(part_, at.in), {at.in.dim(0), kept_rows_, net.mixed_width()})) {}

  // The rows up to each token's own, which is the last one: [T, taps, C].
  Tensor rows() const {
    const Tensor number = iota({kept_rows_ + 1}, 0);
    if (is_run()) return at(unsqueeze(iota({mixed_.dim(0)}, 0), 1) + unsqueeze(number, 0));
    const Tensor of_state = gather(permute(kept_, {1, 0, 2}), minimum(number, i64(kept_rows_ - 1)));  // [taps, T, C]
    const Tensor is_own = unsqueeze(unsqueeze(equal(number, i64(kept_rows_)), 1), 0);
    return where(is_own, unsqueeze(mixed_, 1), permute(of_state, {1, 0, 2}));
  }

  // The buffer, with the rows that the next token of each sequence will read.
  Tensor written() const {
    const int64_t columns = mixed_.size(1);
    if (is_run()) {
      const Tensor tokens = sum(cast(at_.is_token, DType::I64), 0);
      const Tensor rows = at(iota({kept_rows_}, 0) + tokens);
      return write_rows(part_, at_.out, 0, reshape(rows, {1, kept_rows_ * columns}));
    }
    const int64_t old_columns = (kept_rows_ - 1) * columns;
    const Tensor newest = write_rows(part_, at_.out, old_columns, mixed_);
    if (old_columns == 0) return newest;
    const Tensor old = slice(kept_, 1, 1, kept_rows_ - 1);
    return write_rows(newest, at_.out, 0, reshape(old, {mixed_.dim(0), old_columns}));
  }

 private:
  bool is_run() const { return bool(at_.is_token.ref()); }

  // Of the rows kept and those of the run behind them: shape(number) + [C].
  Tensor at(Tensor number) const {
    const Tensor of_run = gather(mixed_, maximum(number - double(kept_rows_), i64(0)));
    const Tensor of_state = gather(squeeze(kept_, 0), minimum(number, i64(kept_rows_ - 1)));
    return where(unsqueeze(less(number, i64(kept_rows_)), number.rank()), of_state, of_run);
  }

  const int64_t kept_rows_;
  const States& at_;
  const Tensor mixed_, part_, kept_;
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

// What tokens do to their states. H value heads.
struct Steps {
  Tensor q, k, v;      // [T, H, n]
  Tensor decay, beta;  // [T, H]

  Steps row(int64_t r) const {
    const auto of = [r](Tensor x) { return slice(x, 0, r, 1); };
    return {of(q), of(k), of(v), of(decay), of(beta)};
  }
};

Tensor unit_length(Tensor x) {
  const Tensor squares = place(sum(x * x, -1));
  return x * unsqueeze(scalar(1) / sqrt(squares + kUnitEpsilon), squares.rank());
}

Steps steps_of(Block& b, const DeltaNetParameters& net, const Projected& x, Tensor mixed, const States& at) {
  const Dim& tokens = b.shape.tokens;
  const auto heads = [&](int64_t first, int64_t count) {
    return reshape(slice(mixed, 1, first * net.width, count * net.width), {tokens, count, net.width});
  };
  const auto for_values = [&](Tensor heads) {
    const int64_t times = net.values_per_key();
    const Tensor all = net.is_grouped ? expand(unsqueeze(heads, 2), {tokens, net.key_heads, times, net.width})
                                      : expand(unsqueeze(heads, 1), {tokens, times, net.key_heads, net.width});
    return place(reshape(all, {tokens, net.value_heads, net.width}));
  };
  const Tensor rate = softplus(x.alpha + b.weights("ssm_dt.bias"));
  Tensor decay = exp(rate * b.weights("ssm_a")), beta = sigmoid(x.beta);
  if (at.is_token.ref()) {  // padding leaves a state as it is
    const Tensor is_token = unsqueeze(at.is_token, 1);
    decay = where(is_token, decay, scalar(1));
    beta = where(is_token, beta, scalar(0));
  }
  return {.q = for_values(unit_length(heads(0, net.key_heads)) * (1 / std::sqrt(static_cast<double>(net.width)))),
          .k = for_values(unit_length(heads(net.key_heads, net.key_heads))),
          .v = place(heads(2 * net.key_heads, net.value_heads)),
          .decay = place(decay),
          .beta = place(beta)};
}

struct Changed {
  Tensor state;  // [G, H, n, n]
  Tensor out;    // S' q: [G, H, n]
};

// One token of each sequence. Both sums go over the old state, so that it is read once for them: with what is wrong,
// (decay S' k - v) beta, the new state is decay S - k wrong' and gives decay S' q - (k q) wrong. A difference of
// products, unlike their sum, says which of them is rounded first.
Changed change(Tensor state, const Steps& s) {
  const auto column = [](Tensor x) { return unsqueeze(x, 3); };  // of keys
  const auto row = [](Tensor x) { return unsqueeze(x, 2); };     // of values
  const Tensor by_key = place(sum(state * column(s.k), 2)), by_query = place(sum(state * column(s.q), 2));
  const Tensor decay = unsqueeze(s.decay, 2), beta = unsqueeze(s.beta, 2);  // [G, H, 1]
  const Tensor wrong = place((by_key * decay - s.v) * beta);                // [G, H, n]
  const Tensor overlap = unsqueeze(place(sum(s.k * s.q, -1)), 2);
  return {.state = state * unsqueeze(decay, 3) - column(s.k) * row(wrong),
          .out = place(by_query * decay - wrong * overlap)};
}

// Of all tokens of a run: one after another where they are of one sequence.
Changed change_all(const Steps& steps, Tensor state, bool is_run) {
  if (!is_run) return change(state, steps);
  const int64_t tokens = steps.q.size(0);
  const Tensor row = unsqueeze(unsqueeze(iota({tokens}, 0), 1), 2);
  Changed all{.state = state, .out = {}};
  for (int64_t r = 0; r < tokens; ++r) {
    const Changed next = change(all.state, steps.row(r));
    all.state = place(next.state);
    all.out = r == 0 ? next.out : where(less(row, i64(r)), all.out, next.out);
  }
  return all;
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
  const Tensor before = reshape(gather(part, at.in), {count, net.value_heads, net.width, net.width});
  const Changed changed = change_all(steps, before, bool(at.is_token.ref()));
  const Tensor matrices = write_rows(part, at.out, 0, reshape(changed.state, {count, elements}));
  const Tensor inner = rms_norm(changed.out, b.weights("ssm_norm.weight"), b.model.epsilon) * silu(in.gate);
  const Tensor out = b.weights.product(b.activations(reshape(inner, {b.shape.tokens, net.inner()})), "ssm_out.weight");
  return {out, {matrices.ref(), history.written().ref()}};
}

}  // namespace smelt
