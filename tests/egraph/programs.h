// Programs of an e-graph, run by the interpreter: every choice must give the same values.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "egraph/block_graph.h"
#include "egraph/saturate.h"
#include "graph/eval.h"

namespace smelt::test {

// An e-graph over inputs and F32 weights with random values.
class Programs {
 public:
  explicit Programs(unsigned seed = 1) : random_(seed) {}

  egraph::EGraph g;

  egraph::ClassId input(std::vector<int64_t> shape) {
    const Tensor p = param(slot_, DType::F32, {shape.begin(), shape.end()}, "input");
    fill(count(shape));
    return egraph::add_graph(g, p.ref(), weights_);
  }

  // Indices below `n`.
  egraph::ClassId indices(std::vector<int64_t> shape, int n) {
    const Tensor p = param(slot_, DType::I32, {shape.begin(), shape.end()}, "indices");
    std::vector<int32_t> values(static_cast<size_t>(count(shape)));
    for (int32_t& v : values) v = std::uniform_int_distribution(0, n - 1)(random_);
    const auto bytes = std::as_bytes(std::span(values));
    buffers_[slot_++].assign(bytes.begin(), bytes.end());
    return egraph::add_graph(g, p.ref(), weights_);
  }

  egraph::ClassId weight(std::vector<int64_t> shape, const std::string& name = "w") {
    const int64_t k = shape.back();
    fill(count(shape));
    shape.pop_back();
    const Tensor raw = raw_weight(static_cast<int>(slot_ - 1), GgufType::F32, {shape.begin(), shape.end()}, k, name);
    weights_[slot_ - 1] = {raw, GgufType::F32, {}};
    return egraph::add_graph(g, dequantize(raw, GgufType::F32).ref(), weights_);
  }

  const egraph::WeightTable& weights() const { return weights_; }

  std::vector<double> values(egraph::ClassId id, const egraph::Choice& choice) const {
    EvalInputs inputs;
    for (const auto& [slot, bytes] : buffers_) inputs.buffers[slot] = bytes;
    return eval(egraph::to_graph(g, id, choice, weights_), inputs).value.values;
  }

  // Every node of every class below root in turn, and random choices, against the first program. The number compared.
  int check_all(egraph::ClassId root) {
    const std::vector<double> wanted = values(root, {});
    int compared = 0;
    auto check = [&](const egraph::Choice& choice) {
      if (!egraph::cost_of(g, root, choice, {})) return;  // a cycle
      const std::vector<double> found = values(root, choice);
      REQUIRE(found.size() == wanted.size());
      double error = 0, size = 1e-9;
      for (size_t i = 0; i < found.size(); ++i) {
        error = std::max(error, std::abs(found[i] - wanted[i]));
        size = std::max(size, std::abs(wanted[i]));
      }
      CHECK(error <= 1e-9 * size);
      ++compared;
    };
    for (egraph::ClassId id : g.classes())
      for (size_t n = 0; n < g.at(id).nodes.size(); ++n) check({{id, n}});
    for (int round = 0; round < 20; ++round) {
      egraph::Choice choice;
      for (egraph::ClassId id : g.classes()) choice[id] = random_() % g.at(id).nodes.size();
      check(choice);
    }
    return compared;
  }

 private:
  static int64_t count(const std::vector<int64_t>& shape) {
    int64_t n = 1;
    for (int64_t d : shape) n *= d;
    return n;
  }

  void fill(int64_t n) {
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<size_t>(n));
    for (float& v : values) v = normal(random_);
    const auto bytes = std::as_bytes(std::span(values));
    buffers_[slot_++].assign(bytes.begin(), bytes.end());
  }

  std::mt19937 random_;
  int64_t slot_ = 0;
  std::map<int64_t, std::vector<std::byte>> buffers_;
  egraph::WeightTable weights_;
};

}  // namespace smelt::test
