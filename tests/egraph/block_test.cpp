// What equality saturation finds in the blocks of GLM-4.7-Flash at full size, and that it is right on a small one.
#include <doctest/doctest.h>

#include <random>

#include "egraph/block_graph.h"
#include "egraph/describe.h"
#include "egraph/extract.h"
#include "egraph/rules.h"
#include "graph/eval.h"
#include "model/random_model.h"
#include "support/full_size_glm.h"

using namespace smelt;
using namespace smelt::egraph;
using namespace smelt::test;

namespace {

constexpr int64_t kContext = 4096;

ModelShape decode_shape() {
  ModelShape shape;
  shape.chunks = variable("chunks", 1, kContext / kChunkSize);
  shape.context = kContext + kPageSize;
  shape.cache_rows = kContext + kPageSize;
  shape.page_entries = kContext / kPageSize + 1;
  return shape;
}

// One layer as an e-graph.
struct Layer {
  Layer(const FullSizeGlm& glm, const ModelShape& shape, int64_t layer)
      : segment(glm.block(shape, layer)),
        weights(weights_of(segment, glm.file(), layer_prefix(layer))),
        root(add_graph(g, segment.root, weights)),
        model{.weight_bytes = bytes_of(weights), .variables = {{"chunks", 1}}} {}

  std::vector<std::string> lines(const Choice& choice) const { return describe(g, root, choice); }

  Segment segment;
  WeightTable weights;
  EGraph g;
  ClassId root;
  CostModel model;
};

bool contains(const std::vector<std::string>& lines, const std::string& line) {
  return std::ranges::find(lines, line) != lines.end();
}

// A class and the node of it that multiplies by a product of weights, where the result has this shape.
std::optional<Choice> fold_of(const EGraph& g, const std::vector<int64_t>& result) {
  Shape shape;
  for (int64_t n : result) shape.push_back(constant(n));
  for (ClassId id : g.classes())
    for (size_t n = 0; n < g.at(id).nodes.size(); ++n) {
      const ENode& node = g.at(id).nodes[n];
      if (node.op != EOp::Contract || node.shape != shape || !g.facts(node.src[1]).is_constant) continue;
      if (describe_weight(g, node.src[1], {}).starts_with("fold")) return Choice{{id, n}};
    }
  return std::nullopt;
}

}  // namespace

TEST_CASE("a block becomes an e-graph and comes back as the same graph") {
  for (GgufType type : {GgufType::Q4_0, GgufType::Q4_K}) {
    const FullSizeGlm glm(type);
    for (int64_t layer : {0, 1})
      for (bool prefill : {false, true})
        for (bool quantise : {false, true})
          for (int interleave : {1, 16}) {
            ModelShape shape = decode_shape();
            if (prefill) shape.tokens = Dim(variable("tokens", 1, 64) * 8), shape.many_tokens = true;
            shape.quantise = quantise;
            shape.interleave = interleave;
            const Layer block(glm, shape, layer);
            CHECK(to_graph(block.g, block.root, {}, block.weights) == block.segment.root);
          }
  }
}

TEST_CASE("every matrix of a block is recognised: decode and prefill, 32 and 8 bits") {
  for (bool prefill : {false, true})
    for (bool quantise : {false, true}) {
      ModelShape shape = decode_shape();
      if (prefill) shape.tokens = Dim(variable("tokens", 1, 64) * 8), shape.many_tokens = true;
      shape.quantise = quantise;
      const FullSizeGlm glm(GgufType::Q4_0);
      const Layer block(glm, shape, 1);
      const auto lines = block.lines({});
      for (const char* name : {"attn_q_a", "attn_q_b", "attn_kv_a_mqa", "attn_k_b", "attn_v_b", "attn_output",
                               "ffn_gate_inp", "ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"})
        CHECK_MESSAGE(
            std::ranges::any_of(
                lines, [&](const std::string& line) { return line.ends_with(std::string("<- ") + name + ".weight"); }),
            std::string(name));
      for (const char* name : {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"})
        CHECK_MESSAGE(std::ranges::any_of(lines,
                                          [&](const std::string& line) {
                                            return line.ends_with("gather(" + std::string(name) + ".weight)");
                                          }),
                      std::string(name));
      CAPTURE(prefill);
      CAPTURE(quantise);
      CHECK(lines.size() == 13);
    }
}

TEST_CASE("q_a with kv_a and gate with up are put side by side, experts stay where they are") {
  for (GgufType type : {GgufType::Q4_0, GgufType::Q4_K}) {
    const FullSizeGlm glm(type);
    Layer block(glm, decode_shape(), 1);
    const Cost before = *cost_of(block.g, block.root, {}, block.model);
    CHECK(saturate(block.g, all_rules()).why == Stopped::Saturated);
    CHECK(block.g.node_count() < 1000);  // rules that feed each other would show here first
    for (double launch : {0.0, 8.0 * 1024, 1024.0 * 1024}) {
      block.model.launch_bytes = launch;
      const Extraction best = extract(block.g, block.root, block.model);
      const auto lines = block.lines(best.choice);
      CHECK(contains(lines, "contract [1, 1344] <- concat(attn_q_a.weight, attn_kv_a_mqa.weight)"));
      CHECK(contains(lines,
                     "contract [1, 3136] <- concat(ffn_gate_inp.weight, ffn_gate_shexp.weight, "
                     "ffn_up_shexp.weight)"));
      CHECK(contains(lines, "contract [1, 4, 3072] <- gather(concat(ffn_gate_exps.weight, ffn_up_exps.weight))"));
      CHECK(contains(lines, "contract [1, 4, 2048] <- gather(ffn_down_exps.weight)"));
      // And nothing else has changed.
      for (const char* same : {"contract [1, 5120] <- attn_q_b.weight", "contract [1, 20, 512] <- attn_k_b.weight",
                               "contract [1, 20, 256] <- attn_v_b.weight", "contract [1, 2048] <- attn_output.weight",
                               "contract [1, 2048] <- ffn_down_shexp.weight"})
        CHECK_MESSAGE(contains(lines, same), std::string(same));
      CHECK(lines.size() == 9);
      // Free, as far as matrices go; what is left is that inputs, and the weights of their norms, are read once.
      CHECK(best.cost.kernels == before.kernels - 4);
      CHECK(before.weights - best.cost.weights == 4 * (2048 + 3 * 2048));
      CHECK(best.cost.values < before.values);
    }
  }
}

TEST_CASE("a dense layer: gate and up of one input") {
  const FullSizeGlm glm(GgufType::Q4_0);
  Layer block(glm, decode_shape(), 0);
  saturate(block.g, all_rules());
  const auto lines = block.lines(extract(block.g, block.root, block.model).choice);
  CHECK(contains(lines, "contract [1, 20480] <- concat(ffn_gate.weight, ffn_up.weight)"));
  CHECK(contains(lines, "contract [1, 1344] <- concat(attn_q_a.weight, attn_kv_a_mqa.weight)"));
}

TEST_CASE("with 8-bit activations the router, which reads floats, stays by itself") {
  ModelShape shape = decode_shape();
  shape.quantise = true;
  const FullSizeGlm glm(GgufType::Q4_0);
  Layer block(glm, shape, 1);
  saturate(block.g, all_rules());
  const auto lines = block.lines(extract(block.g, block.root, block.model).choice);
  CHECK(contains(lines, "contract [1, 1344] <- concat(attn_q_a.weight, attn_kv_a_mqa.weight)"));
  CHECK(contains(lines, "contract [1, 3072] <- concat(ffn_gate_shexp.weight, ffn_up_shexp.weight)"));
  CHECK(contains(lines, "contract [1, 64] <- ffn_gate_inp.weight"));
  CHECK(contains(lines, "contract [1, 4, 3072] <- gather(concat(ffn_gate_exps.weight, ffn_up_exps.weight))"));
}

TEST_CASE("a copy of the chosen experts, or a product with all of them, is known and refused") {
  const FullSizeGlm glm(GgufType::Q4_0);
  Layer block(glm, decode_shape(), 1);
  saturate(block.g, all_rules());
  const double before = cost_of(block.g, block.root, {}, block.model)->weights;
  const double four = 4 * 1536 * 2048 * 18.0 / 32;  // bytes of four experts' gate, up or down
  int copies = 0, products = 0;
  for (ClassId id : block.g.classes())
    for (size_t n = 0; n < block.g.at(id).nodes.size(); ++n) {
      const EOp op = block.g.at(id).nodes[n].op;
      if (op != EOp::GatheredCopy && op != EOp::Select) continue;
      const Cost cost = *cost_of(block.g, block.root, {{id, n}}, block.model);
      const Cost unchanged = *cost_of(block.g, block.root, {}, block.model);
      if (cost.total == unchanged.total) continue;  // a class that the block does not use as it is
      if (op == EOp::GatheredCopy) {
        CHECK(cost.values + cost.weights > unchanged.values + unchanged.weights + 2 * four - 1);
        ++copies;  // written, and read again
      } else {
        CHECK(cost.weights == before + 15 * four);  // 64 experts in place of 4
        ++products;
      }
    }
  CHECK(copies == 3);
  CHECK(products == 2);  // the input of the down projections is another one for each expert
  const auto lines = block.lines(extract(block.g, block.root, block.model).choice);
  for (const std::string& line : lines) CHECK(!line.starts_with("gathered_copy"));
}

TEST_CASE("folding q_nope with k_b, and v_b with output, is known and refused: more bytes") {
  const FullSizeGlm glm(GgufType::Q4_0);
  Layer block(glm, decode_shape(), 1);
  saturate(block.g, all_rules());
  constexpr double kQ4 = 18.0 / 32, kQ8 = 34.0 / 32;  // bytes per weight
  struct Fold {
    std::vector<int64_t> result;
    const char* name;
    double q4, q8;   // weights of the factors: q_b's rows without position or output, k_b or v_b
    double product;  // of the fold
    double other;    // what else is read again: the weights of the norm of q_a, in front of two kernels instead of one
  };
  const Fold folds[] = {
      {{1, 20, 512},
       "fold(attn_k_b.weight, slice(attn_q_b.weight))",
       20. * 192 * 768,
       20. * 512 * 192,
       20. * 512 * 768,
       4 * 768},
      {{1, 2048}, "fold(attn_output.weight, attn_v_b.weight)", 20. * 256 * 2048, 20. * 256 * 512, 20. * 512 * 2048, 0},
  };
  for (const Fold& fold : folds) {
    CAPTURE(fold.name);
    CHECK(fold.product / (fold.q4 + fold.q8) == doctest::Approx(1.6));
    const auto node = fold_of(block.g, fold.result);
    REQUIRE(node);  // the rules have found it
    // At best, the product is stored in the narrower of the two formats, and the model is another one.
    block.model.folded = CostModel::Folded::Narrowest;
    const Extraction best = extract(block.g, block.root, block.model);
    CHECK(contains(block.lines(best.choice), "contract [1, 20, 512] <- attn_k_b.weight"));
    CHECK(contains(block.lines(best.choice), "contract [1, 20, 256] <- attn_v_b.weight"));
    const Extraction folded = extract(block.g, block.root, block.model, *node);
    CHECK(std::ranges::any_of(block.lines(folded.choice),
                              [&](const std::string& line) { return line.ends_with(fold.name); }));
    const double more = fold.product * kQ4 - fold.q4 * kQ4 - fold.q8 * kQ8 + fold.other;
    CHECK(more > 0);
    CHECK(folded.cost.weights - best.cost.weights == more);
    CHECK(folded.cost.total > best.cost.total);
    // To be the same model, it is stored in floats.
    block.model.folded = CostModel::Folded::Exact;
    const Cost exact = *cost_of(block.g, block.root, folded.choice, block.model);
    CHECK(exact.weights - best.cost.weights == more + fold.product * (4 - kQ4));
    CHECK(extract(block.g, block.root, block.model).cost.total == best.cost.total);
  }
}

TEST_CASE(
    "it is the cost that refuses: where a launch were as dear as 4 MB, the requantised fold would "
    "win") {
  const FullSizeGlm glm(GgufType::Q4_0);
  Layer block(glm, decode_shape(), 1);
  saturate(block.g, all_rules());
  block.model.folded = CostModel::Folded::Narrowest;
  block.model.launch_bytes = 4 << 20;
  const auto lines = block.lines(extract(block.g, block.root, block.model).choice);
  CHECK(contains(lines, "contract [1, 2048] <- fold(attn_output.weight, attn_v_b.weight)"));
  block.model.folded = CostModel::Folded::Exact;
  CHECK(block.lines(extract(block.g, block.root, block.model).choice).size() == 9);
}

// --- on a small model the programs of the e-graph are run

namespace {

struct SmallModel {
  explicit SmallModel(const Variant& variant) : bytes(RandomModel(variant).writer().bytes()) {
    auto opened = GgufFile::open_memory(bytes);
    REQUIRE(opened.ok());
    file = std::make_unique<GgufFile>(opened.take());
    model = read_model(*file).take();
  }
  std::vector<std::byte> bytes;
  std::unique_ptr<GgufFile> file;
  std::shared_ptr<const Model> model;
};

// Buffers of one decoding step at position 9, with a cache of random rows.
class Step {
 public:
  Step(const SmallModel& m, const Segment& segment, int64_t layer, const ModelShape& shape) {
    for (size_t slot = 0; slot < segment.slots.size(); ++slot) {
      const SlotBinding& binding = segment.slots[slot];
      auto put = [&](const auto& values) {
        const auto bytes = std::as_bytes(std::span(values));
        data_[static_cast<int64_t>(slot)].assign(bytes.begin(), bytes.end());
      };
      switch (binding.kind) {
        case Bound::Weight: {
          const GgufTensor* tensor = m.file->find(layer_prefix(layer) + binding.name);
          put(std::span(tensor->data, tensor->bytes));
          break;
        }
        case Bound::Positions: put(std::vector<int32_t>{9}); break;
        case Bound::Tables: put(std::vector<int32_t>{0}); break;
        case Bound::Pages:
        case Bound::LocalPages: put(std::vector<int32_t>{3, 1, 4, 2, 0}); break;
        case Bound::Cache: put(random(shape.cache_rows * m.model->cache_parts(DType::F32, 0)[0].row_bytes / 4)); break;
        case Bound::HiddenIn: put(random(m.model->numbers().hidden)); break;
        case Bound::PositionTable:
          for (const PositionTable& table : m.model->position_tables())
            if (table.name == binding.name) put(table.rows(shape.context));
          break;
        default: break;
      }
    }
  }

  // The block's output, and what it left in the cache.
  std::vector<double> run(Ref root) const {
    EvalInputs inputs;
    for (const auto& [slot, bytes] : data_) inputs.buffers[slot] = bytes;
    const EvalResult result = eval(root, inputs);
    REQUIRE(result.outputs.size() == 1);
    std::vector<double> all = result.outputs.begin()->second.values;
    for (const auto& [slot, bytes] : result.written) {
      std::vector<float> row(bytes.size() / 4);
      std::memcpy(row.data(), bytes.data(), bytes.size());
      all.insert(all.end(), row.begin(), row.end());
    }
    return all;
  }

 private:
  std::vector<float> random(int64_t n) {
    std::vector<float> values(static_cast<size_t>(n));
    for (float& v : values) v = std::normal_distribution<float>()(random_);
    return values;
  }

  std::mt19937 random_{7};
  std::map<int64_t, std::vector<std::byte>> data_;
};

double greatest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double greatest = 0;
  for (size_t i = 0; i < a.size(); ++i) greatest = std::max(greatest, std::abs(a[i] - b[i]));
  return greatest;
}

ModelShape small_shape() {
  ModelShape shape;
  shape.context = 5 * kPageSize;
  shape.cache_rows = 5 * kPageSize;
  shape.page_entries = 5;
  return shape;
}

}  // namespace

TEST_CASE(
    "programs of a small block give the values of the block: the best, the folds, and random "
    "ones") {
  const SmallModel m({});
  for (const int64_t layer : {0, 1}) {
    const ModelShape shape = small_shape();
    const Segment segment = m.model->block(*m.file, shape, layer);
    const WeightTable weights = weights_of(segment, *m.file, layer_prefix(layer));
    EGraph g;
    const ClassId root = add_graph(g, segment.root, weights);
    CHECK(saturate(g, all_rules()).why == Stopped::Saturated);
    const Step step(m, segment, layer, shape);
    const std::vector<double> wanted = step.run(segment.root);
    auto check = [&](const Choice& choice) {
      CHECK(greatest_difference(step.run(to_graph(g, root, choice, weights)), wanted) < 1e-5);
    };
    const CostModel model{.weight_bytes = bytes_of(weights), .variables = {}};
    const Extraction best = extract(g, root, model);
    CHECK(describe(g, root, best.choice) != describe(g, root, {}));
    check(best.choice);
    for (const auto& result : {std::vector<int64_t>{1, 3, 64}, std::vector<int64_t>{1, 64}}) {
      const auto fold = fold_of(g, result);
      REQUIRE(fold);
      check(extract(g, root, model, *fold).choice);
    }
    std::mt19937 random(3);
    int programs = 0;
    for (int i = 0; i < 400 && programs < 12; ++i) {
      Choice choice;
      for (ClassId id : g.classes())
        if (random() % 4 == 0) choice[id] = random() % g.at(id).nodes.size();
      if (!cost_of(g, root, choice, model)) continue;
      check(choice);
      ++programs;
    }
    CHECK(programs == 12);
  }
}

TEST_CASE("other variants of the architecture, and prefill, saturate and keep their values") {
  const Variant variants[] = {
      {.q_lora = 0, .sigmoid = false, .bias = false, .shared_experts = 2, .type = GgufType::F16},
      {.fused_kv_b = true, .shared_experts = 0, .type = GgufType::BF16}};
  for (const Variant& variant : variants) {
    const SmallModel m(variant);
    const ModelShape shape = small_shape();
    const Segment segment = m.model->block(*m.file, shape, 1);
    const WeightTable weights = weights_of(segment, *m.file, layer_prefix(1));
    EGraph g;
    const ClassId root = add_graph(g, segment.root, weights);
    CHECK(to_graph(g, root, {}, weights) == segment.root);
    CHECK(saturate(g, all_rules()).why == Stopped::Saturated);
    const Extraction best = extract(g, root, {.weight_bytes = bytes_of(weights), .variables = {}});
    const Step step(m, segment, 1, shape);
    const auto wanted = step.run(segment.root);
    CHECK(greatest_difference(step.run(to_graph(g, root, best.choice, weights)), wanted) < 1e-5);
  }
  ModelShape shape = decode_shape();
  shape.tokens = Dim(variable("tokens", 1, 64) * 8);
  shape.many_tokens = true;
  const FullSizeGlm glm(GgufType::Q4_0);
  Layer block(glm, shape, 1);
  CHECK(saturate(block.g, all_rules()).why == Stopped::Saturated);
  const auto lines = block.lines(extract(block.g, block.root, block.model).choice);
  CHECK(contains(lines, "contract [?, 1344] <- concat(attn_q_a.weight, attn_kv_a_mqa.weight)"));
}

TEST_CASE("the best program of a small block with 8-bit activations gives the same values") {
  const SmallModel m({});
  ModelShape shape = small_shape();
  shape.quantise = true;
  const Segment segment = m.model->block(*m.file, shape, 1);
  const WeightTable weights = weights_of(segment, *m.file, layer_prefix(1));
  EGraph g;
  const ClassId root = add_graph(g, segment.root, weights);
  saturate(g, all_rules());
  const Extraction best = extract(g, root, {.weight_bytes = bytes_of(weights), .variables = {}});
  CHECK(describe(g, root, best.choice) != describe(g, root, {}));
  const Step step(m, segment, 1, shape);
  CHECK(greatest_difference(step.run(to_graph(g, root, best.choice, weights)), step.run(segment.root)) < 1e-5);
}
