// Random tensor graphs of everything that models are made of, with inputs for them.
//
// What is computed in f32 differs in its last bits from the interpreter's doubles. So steps that
// turn a small difference into a large one (comparisons, rows by rank, rounding to halves) are
// applied to exact values only: those that movement, negation and maxima make of inputs.
#pragma once

#include <algorithm>
#include <functional>

#include "codegen/opt.h"
#include "graph/rules_algebra.h"
#include "graph/tensor.h"
#include "model/product.h"
#include "support/judge.h"
#include "support/small_graphs.h"

namespace smelt::testing {

struct RandomGraph {
  uint64_t seed = 0;
  Ref root;
  std::map<int64_t, Bytes> buffers;  // of the slots that are read
  Variables variables;
};

class GraphMaker {
 public:
  explicit GraphMaker(uint64_t seed) : rng_(seed) {
    graph_.seed = seed;
    n_ = variable("n", 1, 4);
    graph_.variables["n"] = 1 + below(4);
  }

  // `of_prompt`: it begins with a product of many tokens with a matrix of bytes, which a machine may have a unit for.
  RandomGraph make(bool of_prompt = false) {
    values_.push_back({input({any_size(), any_size()}), true});
    const Tensor of_many = of_prompt ? prompt_product() : values_.back().tensor;
    for (int steps = 4 + static_cast<int>(below(10)); steps > 0; --steps) step();
    Refs roots = writes_;
    // The last one, and perhaps another: most of the graph is below these.
    add_output(roots, values_.back().tensor);
    if (below(3) == 0) add_output(roots, pick().tensor);
    if (of_prompt) add_output(roots, of_many);
    graph_.root = sink(std::move(roots));
    return std::move(graph_);
  }

 private:
  struct Item {
    Tensor tensor;
    bool exact = false;
  };
  static constexpr int64_t kMostElements = 3000;
  static constexpr int64_t kMostTerms = 40'000;  // in all reductions and elementwise steps of one tensor

  // --- choices

  int64_t below(int64_t n) { return static_cast<int64_t>(rng_() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }
  double number() { return static_cast<double>(below(2000) - 1000) / 500; }

  const Item& pick() {
    return values_[values_.size() - 1 -
                   static_cast<size_t>(std::min(below(static_cast<int64_t>(values_.size())), below(4)))];
  }
  std::optional<Item> pick_exact() {
    std::vector<Item> exact;
    for (const Item& v : values_)
      if (v.exact) exact.push_back(v);
    if (exact.empty()) return std::nullopt;
    return exact[static_cast<size_t>(below(static_cast<int64_t>(exact.size())))];
  }

  Dim any_size() {
    static constexpr int64_t kSizes[] = {1, 2, 3, 4, 5, 8, 12, 16, 24, 32, 48, 64};
    if (chance(15)) return Dim(n_ * (int64_t{1} << below(4)));
    return kSizes[below(12)];
  }
  int64_t count(Dim d) const { return value_of(d.ref, graph_.variables); }
  int64_t count(const std::vector<Dim>& shape) const {
    int64_t n = 1;
    for (const Dim& d : shape) n *= count(d);
    return n;
  }
  int64_t count(Tensor x) const { return count(dims(x)); }
  static std::vector<Dim> dims(Tensor x) { return {x.shape().begin(), x.shape().end()}; }
  int any_axis(Tensor x) { return static_cast<int>(below(x.rank())); }

  // --- inputs

  // What no kernel writes, and half of the time says so.
  Tensor input(std::vector<Dim> shape, DType dtype = DType::F32, int64_t rows = 64) {
    const int slot = new_slot(shape, dtype, rows);
    const std::string name = "x" + std::to_string(slot);
    return chance(50) ? given_param(slot, dtype, std::move(shape), name) : param(slot, dtype, std::move(shape), name);
  }
  Tensor written_input(std::vector<Dim> shape) {
    const int slot = new_slot(shape, DType::F32, 64);
    return param(slot, DType::F32, std::move(shape), "x" + std::to_string(slot));
  }
  int new_slot(const std::vector<Dim>& shape, DType dtype, int64_t rows) {
    const int slot = next_slot_++;
    graph_.buffers[slot] = random_bytes(static_cast<size_t>(count(shape) * size_of(dtype)), dtype, rng_, rows);
    return slot;
  }

  // A tensor that broadcasts against x: some axes are 1, some leading ones missing.
  Tensor partner(Tensor x) {
    if (chance(25))
      for (const Item& v : values_)
        if (v.tensor.shape() == x.shape() && chance(40)) return v.tensor;
    if (chance(20)) return scalar(number());
    std::vector<Dim> shape = dims(x);
    while (!shape.empty() && chance(20)) shape.erase(shape.begin());
    for (Dim& d : shape)
      if (chance(25)) d = Dim(1);
    return input(shape);
  }

  // --- steps

  void add(Tensor x, bool exact) {
    if (x.rank() == 0 || x.rank() > 4 || count(x) > kMostElements) return;
    values_.push_back({x, exact});
  }

  void step() {
    static constexpr int kWeights[] = {14, 14, 16, 5, 20, 8, 10, 5, 4, 3, 6, 3};
    int64_t choice = below(108);
    size_t kind = 0;
    while (choice >= kWeights[kind]) choice -= kWeights[kind++];
    switch (kind) {
      case 0: return unary();
      case 1: return binary();
      case 2: return movement();
      case 3: return selected();
      case 4: return reduction();
      case 5: return normalisation();
      case 6: return quantised_product();
      case 7: return gathered();
      case 8: return ranked();
      case 9: return written();
      case 10: return masked();
      default: return chunked();
    }
  }

  void unary() {
    const auto [x, exact] = pick();
    switch (below(9)) {
      case 0: return add(-x, exact);
      case 8: return add(place(x), exact);
      case 1: return add(silu(x), false);
      case 2: return add(sigmoid(x) * number(), false);
      case 3: return add(sqrt(x * x + 0.01), false);
      case 4: return add(exp2(minimum(x, scalar(3))), false);
      case 5: return add(log2(x * x + 0.5), false);
      case 6: return add(scalar(1) / (x * x + 1.0), false);
      default: return add(x * number() + number(), false);
    }
  }

  void binary() {
    const auto [x, exact] = pick();
    const Tensor y = partner(x);
    switch (below(5)) {
      case 0: return add(x + y, false);
      case 1: return add(x - y, false);
      case 2: return add(x * y, false);
      case 3: return add(maximum(x, y), false);
      default: return add(minimum(x, y) * 0.5, false);
    }
  }

  void movement() {
    const auto [x, exact] = pick();
    const int axis = any_axis(x);
    switch (below(6)) {
      case 0: {
        std::vector<int> order(static_cast<size_t>(x.rank()));
        for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
        std::shuffle(order.begin(), order.end(), rng_);
        return add(permute(x, order), exact);
      }
      case 1: return add(flip(x, axis), exact);
      case 2: {
        const auto size = const_int(x.dim(axis));
        if (!size || *size < 2) return;
        const int64_t begin = below(*size);
        return add(slice(x, axis, begin, 1 + below(*size - begin)), exact);
      }
      case 3: {  // one axis becomes two
        const int64_t divisor = known_divisor(x.dim(axis));
        const int64_t inner = int64_t{1} << (1 + below(4));
        if (divisor % inner != 0) return;
        std::vector<Dim> shape = dims(x);
        shape[static_cast<size_t>(axis)] = Dim(simplify(x.dim(axis) / inner));
        shape.insert(shape.begin() + axis + 1, Dim(inner));
        return add(reshape(x, shape), exact);
      }
      case 4: {  // two axes become one
        if (axis == 0) return;
        std::vector<Dim> shape = dims(x);
        shape[static_cast<size_t>(axis)] = Dim(simplify(x.dim(axis - 1) * x.dim(axis)));
        shape.erase(shape.begin() + axis - 1);
        return add(reshape(x, shape), exact);
      }
      default: {
        const Tensor wide = unsqueeze(x, axis);
        std::vector<Dim> shape = dims(wide);
        shape[static_cast<size_t>(axis)] = Dim(1 + below(4));
        if (count(shape) > kMostElements) return;
        return add(expand(wide, shape), exact);
      }
    }
  }

  void selected() {
    const auto x = pick_exact();
    if (!x) return;
    const Tensor y = input(dims(x->tensor));
    const Tensor condition =
        chance(50) ? less(x->tensor, y) : equal(cast(iota(dims(y), any_axis(y)) % 2, DType::F32), scalar(0));
    add(where(condition, y, x->tensor), true);
  }

  void reduction() {
    const auto [x, exact] = pick();
    const int axis = any_axis(x);
    const double size = static_cast<double>(count(Dim(x.dim(axis))));
    switch (below(4)) {
      case 0: return add(max(x, axis), exact);
      case 1: return add(sum(x * partner(x), axis) * (1 / std::sqrt(size)), false);
      case 2: return add(sum(x, axis) * (1 / std::sqrt(size)), false);
      default: {  // a matrix product
        if (!const_int(x.dim(-1)) || count(x) * 8 > kMostTerms) return;
        return add(linear(x, input({Dim(1 + below(12)), x.dim(-1)})) * (1 / std::sqrt(static_cast<double>(x.size(-1)))),
                   false);
      }
    }
  }

  void normalisation() {
    const auto [x, exact] = pick();
    if (below(2) == 0 && const_int(x.dim(-1))) return add(rms_norm(x, input({x.dim(-1)})), false);
    const int axis = any_axis(x);
    if (below(2) == 0) return add(softmax(x, axis), false);
    add(weighted_average(x, axis), false);
  }

  // An online softmax; the value may be the score's equal in shape or a row for each.
  Tensor weighted_average(Tensor score, int axis) {
    const Tensor value = chance(50) ? input(dims(score)) : partner(score);
    const std::vector<Dim> shape = dims(score);
    const Tensor wide = value.rank() == score.rank() ? value : reshape(expand_to(value, score), shape);
    return softmax_average(score, wide, axis);
  }
  Tensor expand_to(Tensor x, Tensor like) { return x + full(0, dims(like)); }

  void quantised_product() {
    static constexpr GgufType kTypes[] = {GgufType::Q4_0,   GgufType::Q4_0,    GgufType::Q8_0,  GgufType::Q4_1,
                                          GgufType::Q5_0,   GgufType::Q5_1,    GgufType::Q4_K,  GgufType::Q5_K,
                                          GgufType::Q6_K,   GgufType::Q2_K,    GgufType::Q3_K,  GgufType::IQ4_NL,
                                          GgufType::IQ4_XS, GgufType::MXFP4,   GgufType::F16,   GgufType::BF16,
                                          GgufType::IQ1_M,  GgufType::IQ2_XXS, GgufType::IQ3_S, GgufType::TQ1_0};
    const GgufType type = kTypes[below(std::size(kTypes))];
    const int64_t block = info_of(type).elements, k = std::max<int64_t>(block * (1 + below(2)), 32);
    const int64_t rows = 4 * (1 + below(4)), experts = chance(40) ? 3 : 1;
    const int interleave = chance(40) && can_interleave(type, rows, 4) ? 4 : 1;
    const Tensor raw =
        raw_weight(next_slot_++, type, experts > 1 ? std::vector<Dim>{experts, rows} : std::vector<Dim>{rows}, k, "w",
                   {interleave});
    const int64_t slot = next_slot_ - 1;
    graph_.buffers[slot] = random_bytes(static_cast<size_t>(count(raw) * size_of(raw.dtype())), raw.dtype(), rng_);
    // Activations: what is there already where it fits, else an input.
    const bool integers = chance(30);
    Tensor x = input({Dim(chance(30) ? any_size() : Dim(1 + below(3))), Dim(k)});
    if (integers) make_multiples(graph_.buffers.at(next_slot_ - 1), activation_block(k));
    for (const Item& v : values_)
      if (!integers && v.tensor.rank() == 2 && const_int(v.tensor.dim(1)) == k) x = v.tensor;
    if (count(x) * rows * 2 > kMostTerms) return;
    const double scale = 0.02 / std::sqrt(static_cast<double>(k));
    const auto activations = [&](Tensor t) { return integers ? quantise_activations(t) : Activations{t, {}, {}}; };
    if (experts == 1 && !integers && chance(50))
      return add(linear(x, dequantize(raw, type, {interleave})) * scale, false);
    if (experts == 1) return add(product(activations(x), raw, type, {interleave}) * scale, false);
    // Each token's experts, by index: [tokens, 2, rows].
    const Tensor chosen = gather(raw, input({x.dim(0), 2}, DType::I32, experts));
    add(product(activations(unsqueeze(x, 1)), chosen, type, {interleave}) * scale, false);
  }

  Tensor prompt_product() {
    static constexpr GgufType kTypes[] = {GgufType::Q4_0, GgufType::Q8_0, GgufType::Q4_1, GgufType::Q4_K,
                                          GgufType::Q6_K};
    const GgufType type = kTypes[below(std::size(kTypes))];
    const int64_t k = std::max<int64_t>(info_of(type).elements, 32 * (1 + below(2))), rows = 16 * (1 + below(3));
    const int interleave = chance(50) && can_interleave(type, rows, 16) ? 16 : 1;
    const int64_t slot = next_slot_;
    const Tensor raw = raw_weight(next_slot_++, type, {rows}, k, "w", {interleave});
    graph_.buffers[slot] = random_bytes(static_cast<size_t>(count(raw) * size_of(raw.dtype())), raw.dtype(), rng_);
    const Tensor x = input({Dim(n_ * (chance(50) ? 8 : 16)), Dim(k)});
    make_multiples(graph_.buffers.at(next_slot_ - 1), activation_block(k));
    const Activations bytes = quantise_activations(x, {.rows = chance(50) ? 8 : 1});
    add(product(bytes, raw, type, {interleave}) * (0.02 / std::sqrt(static_cast<double>(k))), false);
    return values_.back().tensor;
  }

  // Multiples of 1/64 whose greatest in a block is 127/64: what 8-bit activations hold exactly, so
  // that rounding to them is the same in every precision.
  void make_multiples(Bytes& floats, int64_t block) {
    for (size_t i = 0; 4 * i < floats.size(); ++i) {
      const int64_t m = static_cast<int64_t>(i) % block == 0 ? 127 : below(255) - 127;
      const float x = static_cast<float>(m) / 64;
      std::memcpy(floats.data() + 4 * i, &x, 4);
    }
  }

  void gathered() {
    const auto [x, exact] = pick();
    const auto rows = const_int(x.dim(0));
    if (!rows || x.rank() > 2) return;
    std::vector<Dim> shape{Dim(1 + below(6))};
    if (chance(30)) shape.push_back(Dim(2));
    add(gather(x, input(shape, DType::I32, *rows)), exact);
  }

  void ranked() {
    const auto x = pick_exact();
    if (!x) return;
    const auto n = const_int(x->tensor.dim(-1));
    if (!n || *n < 2) return;
    const Tensor best = top_k(x->tensor, static_cast<int>(1 + below(std::min<int64_t>(*n, 4))));
    if (chance(50)) return add(cast(best, DType::F32) * 0.25, true);
    if (x->tensor.rank() != 2) return;
    add(gather(input({*n, Dim(4)}), best), true);
  }

  // Rows of a buffer change, and the whole is read again.
  void written() {
    const auto [x, exact] = pick();
    if (x.rank() != 2 || !const_int(x.dim(1)) || count(Dim(x.dim(0))) > 16 || x.dtype() != DType::F32) return;
    const int64_t column = below(3);
    const Tensor buffer = written_input({Dim(64), Dim(x.size(1) + column)});
    const Tensor after = write_rows(buffer, input({x.dim(0)}, DType::I32, 64), column, x);
    writes_.push_back(after.ref());
    if (count(after) > kMostElements) return;
    add(chance(50) ? after * 2.0 : sum(after, 0) * 0.1, false);
  }

  // Terms up to a limit that is an input.
  void masked() {
    const auto [x, exact] = pick();
    if (x.rank() < 2) return;
    std::vector<Dim> one(static_cast<size_t>(x.rank()), Dim(1)), along = one;
    one[0] = x.dim(0);
    const int axis = x.rank() - 1;
    along.back() = x.dim(axis);
    const int64_t n = count(Dim(x.dim(axis)));
    const Tensor limit = reshape(input({x.dim(0)}, DType::I32, n), one);
    const Tensor index = cast(iota(along, axis), DType::I32);
    const bool below_limit = chance(50);
    const Tensor seen = below_limit ? less(index, limit + 1.0) : less(limit, index);
    const auto keep = [&](Tensor value, double other) {
      return below_limit ? where(seen, value, scalar(other)) : where(seen, scalar(other), value);
    };
    switch (below(3)) {
      case 0: return add(sum(keep(x, 0), axis) * (1 / std::sqrt(static_cast<double>(n))), false);
      case 1: return add(max(keep(x, -1e30), axis), exact);
      default: return add(weighted_average(keep(x, -1e30), axis), false);
    }
  }

  // A reduction whose length is a multiple known at launch, as attention has.
  void chunked() {
    const int64_t width = 1 + below(8);
    const Dim length = n_ * 16;
    const Tensor score = input({Dim(1 + below(3)), length}), value = input({length, Dim(width)});
    if (chance(30)) return add(sum(unsqueeze(score, 2) * unsqueeze(value, 0), 1) * 0.2, false);
    const Tensor wide = unsqueeze(value, 0), narrow = unsqueeze(score, 2);
    const Tensor all = expand(narrow, {score.dim(0), length, Dim(width)});
    add(softmax_average(chance(50) ? narrow : all, wide + full(0, dims(all)), 1), false);
  }

  void add_output(Refs& roots, Tensor x) {
    if (std::find(outputs_.begin(), outputs_.end(), x) != outputs_.end() || x.ref()->op == Op::Write) return;
    outputs_.push_back(x);
    roots.push_back(output(next_slot_++, x));
  }

  std::mt19937_64 rng_;
  RandomGraph graph_;
  Ref n_;
  int next_slot_ = 0;
  std::vector<Item> values_;
  std::vector<Tensor> outputs_;
  Refs writes_;
};

inline RandomGraph random_graph(uint64_t seed) { return GraphMaker(seed).make(); }
inline RandomGraph random_graph_of_prompt(uint64_t seed) { return GraphMaker(seed).make(true); }

// The text of a graph and the values of its variables: what a failure prints.
inline std::string to_text(const RandomGraph& g) {
  std::string text = "seed " + std::to_string(g.seed) + "\n";
  for (const auto& [name, value] : g.variables) text += name + " = " + std::to_string(value) + "\n";
  return text + print(g.root);
}

}  // namespace smelt::testing
