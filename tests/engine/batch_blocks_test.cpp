// Blocks of models for a batch of generated tokens on a GPU, run by the interpreter of programs: each token has the
// bits that it has alone.
#include <doctest/doctest.h>

#include <filesystem>

#include "engine/model_plans.h"
#include "runtime/machines.h"
#include "support/graph_kernels.h"
#include "support/model_files.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

constexpr int64_t kContext = 512, kPages = 8;  // of a sequence
constexpr int64_t kBlocks = 64;  // so many that each has one tile of an attention, and finds nothing of others on chip
const Variables kSizes = {{"tokens32", 1}, {"chunks", 2}};

struct Plans {
  GgufFile file;
  std::unique_ptr<Device> device;
  std::unique_ptr<ModelPlans> plans;
};

Plans plans_for(const char* path, int64_t sequences, const std::string& machine = "h100") {
  Plans p{.file = GgufFile::open(path).take(), .device = open_null_device(machine).take(), .plans = {}};
  const EngineOptions options{.context = kContext, .sequences = sequences, .cache_type = DType::U8, .use_tuned = false};
  p.plans = ModelPlans::make(p.file, *p.device, options).take();
  return p;
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

// HiddenOut of the block, or the logits.
Bytes run(const Segment& block, int64_t first, int64_t tokens) {
  CAPTURE(tokens);
  RandomGraph g{.root = block.root, .variables = kSizes};
  int64_t out = -1;
  for (Ref n : toposort(block.root)) {
    if (n->op == Op::Output) out = n->arg.i;
    if (n->op == Op::Param) g.buffers[n->arg.i] = content(block.slots[static_cast<size_t>(n->arg.i)], n, first, tokens);
  }
  const Compiled c = generate_kernels(g, *known_machine("h100"), choose_heuristic);
  Memory memory(g, c.schedule);
  REQUIRE(evaluate_all(g, c, kBlocks, memory, {.round_f32 = true}) == "");
  const auto hidden = memory.slot(out);
  return {hidden.begin(), hidden.end()};
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
    const Plans p = plans_for(path, kTokens);
    const auto head = static_cast<size_t>(p.plans->model().numbers().layers + 1);
    check_segment(p, head - 1, kTokens);
    check_segment(p, head, kTokens);
  }
}

TEST_CASE("a long context has a plan of its own on a GPU, with the bits of the plan for all contexts") {
  for (const char* path : {test::kGlm, test::kQwenMoe, test::kGptOss}) {
    if (!std::filesystem::exists(path)) continue;
    CAPTURE(std::string(path));
    const Plans two = plans_for(path, 2, "h100,short_context=256"), one = plans_for(path, 2, "h100,short_context=0");
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
