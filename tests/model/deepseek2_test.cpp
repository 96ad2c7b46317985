#include "model/deepseek2.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "model/model_runner.h"
#include "model/random_model.h"
#include "model/reference_forward.h"

using namespace smelt;
using namespace smelt::test;

namespace {

// A model in memory with its numbers.
struct SmallModel {
  std::vector<std::byte> bytes;
  std::unique_ptr<GgufFile> file;
  Deepseek2Parameters parameters;
  std::unique_ptr<Deepseek2> model;
};

SmallModel model_of(const GgufWriter& writer) {
  SmallModel m;
  m.bytes = writer.bytes();
  auto opened = GgufFile::open_memory(m.bytes);
  REQUIRE_MESSAGE(opened.ok(), (opened.ok() ? "" : opened.error().message));
  m.file = std::make_unique<GgufFile>(opened.take());
  auto parameters = read_deepseek2(*m.file, "deepseek2");
  REQUIRE_MESSAGE(parameters.ok(), (parameters.ok() ? "" : parameters.error().message));
  m.parameters = parameters.take();
  m.model = std::make_unique<Deepseek2>(m.parameters);
  return m;
}

SmallModel random_model(const Variant& variant) { return model_of(RandomModel(variant).writer()); }

// Buffers between segments, the cache and the rope tables are f32; all else is double on both
// sides.
constexpr double kClose = 2e-6;

const std::vector<int> kIds = {5, 17, 80, 3, 3, 95, 41};

// A page table out of order: 4 pages of context (one chunk), then the scratch page for padding.
const std::vector<int32_t> kPages = {3, 1, 4, 2, 0};
constexpr int64_t kScratchPosition = 4 * kPageSize;

// One token at a time.
std::vector<std::vector<double>> decode(const SmallModel& m, DType cache_type = DType::F32) {
  ModelRunner runner(*m.file, *m.model, kPages, 5, cache_type);
  std::vector<std::vector<double>> logits;
  for (int32_t position = 0; position < static_cast<int32_t>(kIds.size()); ++position)
    logits.push_back(runner.run(runner.shape(), {{kIds[position]}, {position}, {0}, {0}, {}}));
  return logits;
}

// All tokens at once, padded to 8. Logits of the last two.
std::vector<double> prefill(const SmallModel& m) {
  ModelRunner runner(*m.file, *m.model, kPages, 5);
  ModelShape shape = runner.shape();
  shape.tokens = Dim(variable("tokens", 1, 32) * 8);
  shape.many_tokens = true;
  shape.chunks = Dim(variable("chunks", 1, 2));
  shape.rows = 2;
  ModelRunner::Step step{.tables = {0}, .rows = {5, 6}, .variables = {{"tokens", 1}, {"chunks", 1}}};
  for (int32_t i = 0; i < 8; ++i) {
    const bool is_padding = i >= static_cast<int32_t>(kIds.size());
    step.tokens.push_back(is_padding ? 0 : kIds[i]);
    step.positions.push_back(is_padding ? kScratchPosition + i : i);
  }
  return runner.run(shape, step);
}

std::vector<double> join(const std::vector<double>& x, const std::vector<double>& y) {
  std::vector<double> both = x;
  both.insert(both.end(), y.begin(), y.end());
  return both;
}

void check_against_reference(const Variant& variant) {
  const SmallModel m = random_model(variant);
  const Matrix wanted = ReferenceForward(*m.file, m.parameters).logits(kIds);
  const auto decoded = decode(m);
  for (size_t t = 0; t < kIds.size(); ++t) CHECK(relative_error(decoded[t], wanted[t]) < kClose);
  const std::vector<double> last_two = join(wanted[5], wanted[6]);
  CHECK(relative_error(prefill(m), last_two) < kClose);
}

}  // namespace

TEST_CASE("GLM: decode and prefill agree with the direct reference") { check_against_reference({}); }

TEST_CASE(
    "DeepSeek-V2: no q_lora, softmax routing, YaRN and two shared experts agree with the direct "
    "reference") {
  check_against_reference({.q_lora = 0,
                           .sigmoid = false,
                           .bias = false,
                           .normalise = false,
                           .yarn = true,
                           .shared_experts = 2,
                           .type = GgufType::F16,
                           .seed = 2});
}

TEST_CASE("a fused attn_kv_b, a tied output and no shared expert agree with the direct reference") {
  check_against_reference({.layers = 1,
                           .dense_layers = 0,
                           .fused_kv_b = true,
                           .tied = true,
                           .shared_experts = 0,
                           .type = GgufType::BF16,
                           .seed = 3});
}

TEST_CASE("a model of dense layers only agrees with the direct reference") {
  check_against_reference({.dense_layers = 2, .type = GgufType::F32, .seed = 4});
}

TEST_CASE("experts chosen from the best groups agree with the direct reference") {
  check_against_reference({.groups = 3, .groups_used = 2, .seed = 5});
}

TEST_CASE("a cache of halves changes logits only a little") {
  const SmallModel m = random_model({});
  const Matrix wanted = ReferenceForward(*m.file, m.parameters).logits(kIds);
  const auto decoded = decode(m, DType::F16);
  for (size_t t = 0; t < kIds.size(); ++t) {
    const double error = relative_error(decoded[t], wanted[t]);
    CHECK(error > 0);
    CHECK(error < 5e-3);
  }
}

TEST_CASE("a cache of bytes changes logits a little more") {
  const SmallModel m = random_model({});
  const Matrix wanted = ReferenceForward(*m.file, m.parameters).logits(kIds);
  const auto decoded = decode(m, DType::U8);
  for (size_t t = 0; t < kIds.size(); ++t) {
    const double error = relative_error(decoded[t], wanted[t]);
    CHECK(error > 0);
    CHECK(error < 3e-2);
  }
}

TEST_CASE("tokens of two sequences in one run do not see each other") {
  const SmallModel m = random_model({});
  const std::vector<int> other = {60, 7};
  // Each sequence has 4 pages in the table: entries 0..3 and 4..7.
  ModelRunner runner(*m.file, *m.model, {7, 6, 5, 4, 3, 2, 1, 0}, 8);
  ModelShape shape = runner.shape();
  shape.tokens = 2;
  shape.rows = 2;
  std::vector<double> last;
  for (int32_t p = 0; p < 2; ++p) last = runner.run(shape, {{kIds[p], other[p]}, {p, p}, {0, 4}, {0, 1}, {}});
  ReferenceForward reference(*m.file, m.parameters);
  const Matrix first = reference.logits({kIds[0], kIds[1]}), second = reference.logits(other);
  CHECK(relative_error(last, join(first[1], second[1])) < kClose);
}

TEST_CASE("prompts of two sequences in one run do not see each other") {
  const SmallModel m = random_model({});
  const std::vector<int> other = {60, 7, 9};
  ModelRunner runner(*m.file, *m.model, {7, 6, 5, 4, 3, 2, 1, 0, 8, 9}, 10);  // 5 pages each, the last one for padding
  ModelShape shape = runner.shape();
  shape.tokens = Dim(variable("tokens", 1, 32) * kGroupSize);
  shape.many_tokens = true;
  shape.rows = 2;
  const auto n = static_cast<int32_t>(kIds.size()), k = static_cast<int32_t>(kGroupSize + other.size());
  ModelRunner::Step step{.tables = {0, 5}, .rows = {n - 1, k - 1}, .variables = {{"tokens", 2}}};
  for (const std::vector<int>& ids : {kIds, other})
    for (int32_t i = 0; i < kGroupSize; ++i) {
      const bool is_padding = i >= static_cast<int32_t>(ids.size());
      step.tokens.push_back(is_padding ? 0 : ids[static_cast<size_t>(i)]);
      step.positions.push_back(is_padding ? static_cast<int32_t>(4 * kPageSize) + i : i);
    }
  const std::vector<double> last = runner.run(shape, step);
  ReferenceForward reference(*m.file, m.parameters);
  const Matrix first = reference.logits(kIds), second = reference.logits(other);
  CHECK(relative_error(last, join(first.back(), second.back())) < kClose);
}

TEST_CASE("a context longer than a chunk is read through all its pages") {
  const SmallModel m = random_model({.layers = 1, .dense_layers = 1});
  std::vector<int> ids;
  for (int i = 0; i < 261; ++i) ids.push_back(i * 37 % RandomModel::kVocabulary);
  ModelRunner runner(*m.file, *m.model, {8, 0, 7, 1, 6, 2, 5, 3, 4}, 9);
  ModelShape shape = runner.shape();
  shape.tokens = Dim(variable("tokens", 1, 64) * 8);
  shape.many_tokens = true;
  shape.chunks = Dim(variable("chunks", 1, 2));
  auto step = [&](int begin, int end, int64_t chunks) {
    const int groups = (end - begin + 7) / 8;
    ModelRunner::Step s{.tables = std::vector<int32_t>(groups), .rows = {end - begin - 1}};
    for (int i = begin; i < begin + (end - begin + 7) / 8 * 8; ++i) {
      s.tokens.push_back(i < end ? ids[i] : 0);
      s.positions.push_back(i < end ? i : static_cast<int32_t>(8 * kPageSize + i - end));
    }
    s.variables = {{"tokens", static_cast<int64_t>(s.tokens.size()) / 8}, {"chunks", chunks}};
    return s;
  };
  runner.run(shape, step(0, 256, 1));
  const std::vector<double> last = runner.run(shape, step(256, 261, 2));
  const Matrix wanted = ReferenceForward(*m.file, m.parameters).logits(ids);
  CHECK(relative_error(last, wanted.back()) < kClose);
}

TEST_CASE("layers of equal types are one graph, layers of other types are not") {
  auto opened = GgufFile::open(SMELT_SOURCE_DIR "/models/tiny-glm-Q4_K_M.gguf");
  REQUIRE(opened.ok());
  const auto m = read_model(*opened);
  REQUIRE(m.ok());
  ModelShape shape;
  shape.context = shape.cache_rows = 512;
  shape.page_entries = 8;
  auto root = [&](int64_t layer) { return (*m)->block(*opened, shape, layer).root; };
  auto down_type = [&](int64_t layer) { return opened->find(layer_prefix(layer) + "ffn_down_exps.weight")->type; };
  for (int64_t a = 1; a < (*m)->numbers().layers; ++a)
    for (int64_t b = 1; b < a; ++b) CHECK((root(a) == root(b)) == (down_type(a) == down_type(b)));
  CHECK(root(0) != root(1));
}

TEST_CASE("a block says what each slot is bound to") {
  const SmallModel m = random_model({});
  ModelShape shape;
  shape.context = shape.cache_rows = 256;
  shape.page_entries = 4;
  const Segment block = m.model->block(*m.file, shape, 1);
  std::map<Bound, int> count;
  double shares = 0;
  for (const SlotBinding& slot : block.slots) {
    ++count[slot.kind];
    if (slot.kind != Bound::Weight) continue;
    CHECK(m.file->find("blk.1." + slot.name));
    shares += slot.share_of_read;
  }
  CHECK(count[Bound::Weight] == static_cast<int>(m.model->layer_tensors(1).size()));
  CHECK(shares == doctest::Approx(count[Bound::Weight] - 3 * 0.5));  // half of the experts in each of three tensors
  CHECK(count[Bound::PositionTable] == 2);
  for (Bound kind : {Bound::Positions, Bound::Tables, Bound::Pages, Bound::Cache, Bound::HiddenIn, Bound::HiddenOut})
    CHECK(count[kind] == 1);
  CHECK(block.slots.size() == static_cast<size_t>(count[Bound::Weight] + 8));
}

// --- against logits of an outside implementation

namespace {

struct Oracle {
  nlohmann::json manifest;
  std::ifstream bin;

  const nlohmann::json& prompt(const std::string& name) const {
    for (const auto& p : manifest["prompts"])
      if (p["name"] == name) return p;
    FAIL("no prompt " << name);
    return manifest;
  }
  std::vector<double> row(const nlohmann::json& at, int64_t index) {
    std::vector<float> values(4096);
    bin.seekg(at["offset"].get<int64_t>() + index * 4 * 4096);
    bin.read(reinterpret_cast<char*>(values.data()), 4 * 4096);
    REQUIRE(bin);
    return {values.begin(), values.end()};
  }
};

// Nothing where a file is not there, with one line that says so.
std::optional<Oracle> oracle_of(const std::string& model, const std::string& base) {
  Oracle oracle;
  std::ifstream manifest(base + ".json");
  oracle.bin.open(base + ".bin", std::ios::binary);
  if (!std::ifstream(model) || !manifest || !oracle.bin) {
    MESSAGE("not compared: " << model << " or " << base << ".json is not there");
    return std::nullopt;
  }
  oracle.manifest = nlohmann::json::parse(manifest);
  return oracle;
}

double largest_difference(const std::vector<double>& x, const std::vector<double>& y) {
  double largest = 0;
  for (size_t i = 0; i < x.size(); ++i) largest = std::max(largest, std::abs(x[i] - y[i]));
  return largest;
}

int64_t argmax(const std::vector<double>& x) { return std::max_element(x.begin(), x.end()) - x.begin(); }

const std::vector<int32_t> kPlainPages = {0, 1, 2, 3};

void check_positions(const std::string& path, const std::string& base, int64_t count) {
  auto oracle = oracle_of(path, base);
  if (!oracle) return;
  auto file = GgufFile::open(path);
  REQUIRE_MESSAGE(file.ok(), (file.ok() ? "" : file.error().message));
  const auto m = read_model(*file);
  REQUIRE_MESSAGE(m.ok(), (m.ok() ? "" : m.error().message));
  const auto& prompt = oracle->prompt("p3-64-tokens");
  ModelRunner runner(*file, **m, kPlainPages, 4);
  for (int32_t t = 0; t < count; ++t) {
    const auto got = runner.run(runner.shape(), {{prompt["ids"][t].get<int32_t>()}, {t}, {0}, {0}, {}});
    CHECK(largest_difference(got, oracle->row(prompt["full"], t)) < 1e-4);
  }
}

const std::string kShared = SMELT_SOURCE_DIR "/../shared/models/";

}  // namespace

TEST_CASE("the model in the repository has the logits and the first words of transformers") {
  const std::string path = SMELT_SOURCE_DIR "/models/tiny-glm-Q4_K_M.gguf";
  auto oracle = oracle_of(path, SMELT_SOURCE_DIR "/tests/data/tiny-glm-Q4_K_M");
  REQUIRE(oracle);
  auto file = GgufFile::open(path);
  REQUIRE(file.ok());
  const auto m = read_model(*file);
  REQUIRE(m.ok());
  const auto& prompt = oracle->prompt("p1-one-token");
  ModelRunner runner(*file, **m, kPlainPages, 4);
  int32_t token = prompt["ids"][0];
  for (int32_t t = 0; t < 3; ++t) {
    const auto logits = runner.run(runner.shape(), {{token}, {t}, {0}, {0}, {}});
    if (t == 0) CHECK(largest_difference(logits, oracle->row(prompt["last"], 0)) < 1e-4);
    token = prompt["greedy"][t];
    CHECK(argmax(logits) == token);
  }
}

TEST_CASE("the F16 master of tiny-glm has the logits of transformers at the first positions") {
  check_positions(kShared + "tiny-glm/tiny-glm-F16.gguf", kShared + "tiny-glm/oracle/tiny-glm-F16", 3);
}

TEST_CASE("tiny-ds2 (softmax routing, YaRN) has the logits of transformers at the first positions") {
  check_positions(kShared + "tiny-ds2/tiny-ds2-F16.gguf", kShared + "tiny-ds2/oracle/tiny-ds2-F16", 4);
}
