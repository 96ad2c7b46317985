// Blocks of models for a batch of generated tokens on a GPU, run by the interpreter of programs: each token has the
// bits that it has alone, or, where its attention multiplies halves, numbers near them.
#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <tuple>

#include "engine/model_plans.h"
#include "runtime/machines.h"
#include "support/graph_kernels.h"
#include "support/model_files.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

constexpr int64_t kContext = 512, kPages = 8;  // of a sequence
constexpr int64_t kBlocks = 64;  // so many that each has one tile of an attention, and finds nothing of others on chip
constexpr char kHalvesFrom8[] = "h100,halves_tokens=8";
const Variables kSizes = {{"tokens32", 1}, {"chunks", 2}, {"pages", 4}};

struct Plans {
  GgufFile file;
  std::unique_ptr<Device> device;
  std::unique_ptr<ModelPlans> plans;
};

EngineOptions options_for(int64_t sequences, bool deterministic) {
  EngineOptions options{.context = kContext, .sequences = sequences, .cache_type = DType::U8, .use_tuned = false};
  options.deterministic = deterministic;
  return options;
}

// Made once for all cases: they take longer than what is done with them.
const Plans& plans_for(const char* path, const EngineOptions& options, const std::string& machine) {
  static std::map<std::tuple<std::string, int64_t, bool, int64_t, std::string>, std::unique_ptr<Plans>> made;
  auto& p = made[{path, options.sequences, options.deterministic, options.drafts, machine}];
  if (p) return *p;
  p.reset(new Plans{.file = GgufFile::open(path).take(), .device = open_null_device(machine).take(), .plans = {}});
  p->plans = ModelPlans::make(p->file, *p->device, options).take();
  return *p;
}

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  const auto all = std::as_bytes(std::span(values));
  return {all.begin(), all.end()};
}

// What a slot holds for tokens `first` .. of a batch, each of a sequence of its own. Weights and caches are random.
Bytes content(const SlotBinding& slot, Ref param, int64_t first, int64_t tokens) {
  std::vector<int32_t> numbers;
  const auto each = [&](auto&& number) {
    for (int64_t t = first; t < first + tokens; ++t) numbers.push_back(static_cast<int32_t>(number(t)));
    return bytes_of(numbers);
  };
  std::mt19937_64 random(std::hash<std::string>{}(slot.name) + static_cast<size_t>(slot.kind));
  const size_t bytes = smelt::testing::bytes_of(param, kSizes);
  switch (slot.kind) {
    // Some see nothing of the last chunk, which others have.
    case Bound::Positions: return each([](int64_t t) { return (t % 2 ? 300 : 30) + 5 * t; });
    case Bound::Tables: return each([](int64_t t) { return t * kPages; });
    case Bound::Rows: return each([&](int64_t t) { return t - first; });
    case Bound::Tokens: return each([](int64_t t) { return 3 + 7 * t; });
    case Bound::Pages:
    case Bound::LocalPages:
      for (size_t i = 0; i < bytes / 4; ++i) numbers.push_back(static_cast<int32_t>(i));
      return bytes_of(numbers);
    case Bound::HiddenIn: {
      const size_t row = bytes / static_cast<size_t>(tokens);
      const Bytes all = random_bytes(row * static_cast<size_t>(first + tokens), DType::F32, random);
      return {all.end() - static_cast<std::ptrdiff_t>(bytes), all.end()};
    }
    default: break;
  }
  Bytes out = random_bytes(bytes, param->dtype, random);
  if (slot.kind == Bound::Weight && param->dtype == DType::U8)
    for (std::byte& b : out) b &= std::byte{0x37};              // scales of ordinary size
  if (slot.kind == Bound::Cache && param->dtype == DType::F32)  // scales are no less than zero
    for (size_t at = 3; at < out.size(); at += 4) out[at] &= std::byte{0x7f};
  return out;
}

struct GraphOfBatch {
  RandomGraph graph;
  int64_t out = -1;  // HiddenOut of the block, or the logits, or what else it ends with
};

GraphOfBatch graph_of(const Segment& block, int64_t first, int64_t tokens) {
  GraphOfBatch g{.graph = {.root = block.root, .variables = kSizes}};
  for (Ref n : toposort(block.root)) {
    if (n->op == Op::Output) g.out = n->arg.i;
    if (n->op == Op::Param)
      g.graph.buffers[n->arg.i] = content(block.slots[static_cast<size_t>(n->arg.i)], n, first, tokens);
  }
  return g;
}

Bytes run(const Segment& block, int64_t first, int64_t tokens) {
  CAPTURE(tokens);
  const GraphOfBatch g = graph_of(block, first, tokens);
  const Compiled c = generate_kernels(g.graph, *known_machine("h100"), choose_heuristic);
  Memory memory(g.graph, c.schedule);
  REQUIRE(evaluate_all(g.graph, c, kBlocks, memory, {.round_f32 = true}) == "");
  const auto hidden = memory.slot(g.out);
  return {hidden.begin(), hidden.end()};
}

// What the graph says, in double.
Bytes judged(const Segment& block, int64_t first, int64_t tokens) {
  const GraphOfBatch g = graph_of(block, first, tokens);
  EvalInputs inputs{.variables = kSizes};
  for (const auto& [slot, bytes] : g.graph.buffers) inputs.buffers[slot] = bytes;
  return to_bytes(eval(block.root, inputs).outputs.at(g.out));
}

// Weights of a softmax that become halves.
bool has_halves(const Segment& segment) {
  const Refs nodes = toposort(segment.root);
  return std::any_of(nodes.begin(), nodes.end(),
                     [](Ref n) { return n->op == Op::SoftmaxSum && n->arg.i == kHalvesTimesScale; });
}

// What the attention of a block gives, of `heads` of those that read the same keys.
Segment only_attention(const Segment& block, int64_t heads) {
  for (Ref n : toposort(block.root)) {
    if (n->op != Op::Div || n->src[0]->op != Op::SoftmaxSum) continue;
    const int axis = static_cast<int>(n->shape.size()) - 2;
    const Tensor averages = slice(Tensor(n), axis, 0, heads);
    return {sink({output(static_cast<int>(block.slots.size()), averages)}), block.slots};
  }
  FAIL("there is no softmax");
  return {};
}

// Of floats: the length of their difference, in parts of that of `b`.
double distance(const Bytes& a, const Bytes& b) {
  const auto floats = [](const Bytes& x) {
    return std::span(reinterpret_cast<const float*>(x.data()), x.size() / sizeof(float));
  };
  REQUIRE(a.size() == b.size());
  double difference = 0, all = 0;
  for (size_t i = 0; i < floats(a).size(); ++i) {
    difference += std::pow(floats(a)[i] - floats(b)[i], 2.0);
    all += std::pow(floats(b)[i], 2.0);
  }
  return std::sqrt(difference / all);
}

// The last block, which has experts where a model has some, or the head.
void check_segment(const Plans& p, size_t segment, int64_t tokens) {
  const std::vector<DecodePasses>& passes = p.plans->generated();
  const Bytes all = run(passes.back().pass.segments[segment], 0, tokens);
  const auto row = static_cast<std::ptrdiff_t>(all.size()) / tokens;
  for (int64_t t : {int64_t{0}, tokens - 1}) {
    CAPTURE(t);
    const Bytes alone = run(passes.front().pass.segments[segment], t, 1);
    CHECK(Bytes(all.begin() + t * row, all.begin() + (t + 1) * row) == alone);
    const auto floats = std::span(reinterpret_cast<const float*>(alone.data()), alone.size() / 4);
    CHECK(std::all_of(floats.begin(), floats.end(), [](float x) { return std::isfinite(x); }));
  }
}

}  // namespace

TEST_CASE("each token of a batch on a GPU has the bits that it has alone") {
  constexpr int64_t kTokens = 8;
  for (const char* path : {test::kGlm, test::kQwenMoe, test::kGptOss, test::kGemma}) {
    if (!std::filesystem::exists(path)) continue;
    CAPTURE(std::string(path));
    const Plans& p = plans_for(path, options_for(kTokens, true), kHalvesFrom8);
    const auto head = static_cast<size_t>(p.plans->model().numbers().layers + 1);
    check_segment(p, head - 1, kTokens);
    check_segment(p, head, kTokens);
  }
}

TEST_CASE("a long context has a plan of its own on a GPU, with the bits of the plan for all contexts") {
  for (const char* path : {test::kGlm, test::kQwenMoe, test::kGptOss}) {
    if (!std::filesystem::exists(path)) continue;
    CAPTURE(std::string(path));
    const Plans &two = plans_for(path, options_for(2, true), "h100,short_context=256"),
                &one = plans_for(path, options_for(2, true), "h100,short_context=0");
    const DecodePasses &passes = two.plans->generated().front(), &all = one.plans->generated().front();
    REQUIRE(passes.of_long.has_value());
    CHECK_FALSE(all.of_long.has_value());
    CHECK(two.plans->is_long(257));
    CHECK_FALSE(two.plans->is_long(256));
    CHECK_FALSE(two.plans->launches(PlanKind::LongDecode).empty());
    CHECK(one.plans->launches(PlanKind::LongDecode).empty());
    const auto block = static_cast<size_t>(two.plans->model().numbers().layers);
    CHECK(run(passes.of_long->segments[block], 1, 1) == run(all.pass.segments[block], 1, 1));
  }
}

TEST_CASE("a token alone goes over the pages of a near context, unless it shall have the bits that it has in a batch") {
  constexpr char kNear[] = "h100,near_context=256";
  for (const char* path : {test::kGlm, test::kQwenMoe, test::kGptOss}) {
    if (!std::filesystem::exists(path)) continue;
    CAPTURE(std::string(path));
    const Plans& p = plans_for(path, options_for(2, false), kNear);
    CHECK(p.plans->decode_kind(1, 256) == PlanKind::Decode);
    CHECK(p.plans->decode_kind(1, 257) == PlanKind::MiddleDecode);
    CHECK(p.plans->decode_kind(2, 257) == PlanKind::Decode);
    const DecodePasses& passes = p.plans->generated().front();
    REQUIRE(passes.of_middle.has_value());
    CHECK(passes.pass.shape.chunk == kPageSize);
    CHECK(passes.of_middle->shape.chunk == kChunkSize);
    CHECK_FALSE(p.plans->generated().back().of_middle.has_value());
    const auto block = static_cast<size_t>(p.plans->model().numbers().layers);
    const Segment near = only_attention(passes.pass.segments[block], 1),
                  middle = only_attention(passes.of_middle->segments[block], 1);
    const Bytes in_double = judged(near, 0, 1);
    CHECK(distance(in_double, judged(middle, 0, 1)) < 1e-6);
    CHECK(distance(run(near, 0, 1), in_double) < 1.0 / 256);
    CHECK(distance(run(middle, 0, 1), in_double) < 1.0 / 256);
  }
  const auto has_middle = [&](const EngineOptions& options) {
    return plans_for(test::kGlm, options, kNear).plans->generated().front().of_middle.has_value();
  };
  CHECK_FALSE(has_middle(options_for(2, true)));
  EngineOptions with_drafts = options_for(2, false);
  with_drafts.drafts = 3;
  CHECK_FALSE(has_middle(with_drafts));
}

TEST_CASE(
    "from some tokens on an attention multiplies halves, unless tokens shall have the bits that they have alone") {
  const auto have_halves = [](const EngineOptions& options, const char* machine = kHalvesFrom8) {
    const Plans& p = plans_for(test::kGlm, options, machine);
    std::vector<bool> of_batches;  // of 1, 2, 4, 8 tokens
    for (const DecodePasses& passes : p.plans->generated())
      of_batches.push_back(has_halves(passes.pass.segments[static_cast<size_t>(p.plans->model().numbers().layers)]));
    return of_batches;
  };
  const std::vector<bool> none(4, false);
  CHECK(have_halves(options_for(8, false)) == std::vector<bool>{false, false, false, true});
  CHECK(have_halves(options_for(8, false), "h100") == none);
  CHECK(have_halves(options_for(8, true)) == none);
  EngineOptions with_drafts = options_for(8, false);
  with_drafts.drafts = 3;
  CHECK(have_halves(with_drafts) == none);
}

TEST_CASE("an attention of halves is that of the graph, but for weights of the softmax, which are rounded") {
  constexpr int64_t kTokens = 8, kHeads = 4;  // that read the same keys
  for (const char* path : {test::kGlm, test::kQwenMoe, test::kGptOss}) {
    if (!std::filesystem::exists(path)) continue;
    CAPTURE(std::string(path));
    const Plans& p = plans_for(path, options_for(kTokens, false), kHalvesFrom8);
    const auto block = static_cast<size_t>(p.plans->model().numbers().layers);
    const Segment attention = only_attention(p.plans->generated().back().pass.segments[block], kHeads);
    CHECK(distance(run(attention, 0, kTokens), judged(attention, 0, kTokens)) < 1.0 / 256);
  }
}
