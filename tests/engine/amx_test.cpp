// A machine with AMX, emulated where this one has none: the model's prompts through tiles.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/compile.h"
#include "engine/session.h"
#include "engine/tuned_options.h"
#include "graph/matrix_shape.h"
#include "model/model.h"
#include "render/llvm.h"
#include "runtime/devices.h"
#include "runtime/llvm/compile.h"
#include "support/amx_emulator.h"
#include "support/amx_target.h"
#include "support/effort.h"

#if defined(__x86_64__) && defined(__linux__)
using namespace smelt;

namespace {

const std::string kModel = SMELT_SOURCE_DIR "/models/tiny-glm-Q4_K_M.gguf";

std::vector<int32_t> prompt_of(size_t tokens) {
  const auto json = nlohmann::json::parse(std::ifstream(SMELT_SOURCE_DIR "/tests/data/tiny-glm-Q4_K_M.json"));
  auto ids = json["prompts"][0]["ids"].get<std::vector<int32_t>>();
  while (ids.size() < tokens) ids.insert(ids.end(), ids.begin(), ids.end());
  ids.resize(tokens);
  return ids;
}

CpuTarget host_without_amx() {
  CpuTarget target = host_target();
  target.amx_int8 = target.amx_bf16 = false;
  return target;
}

std::vector<float> logits_on(const CpuTarget& target, const std::vector<int32_t>& ids,
                             const std::string& device = "cpu", bool quantise = true) {
  const GgufFile file = GgufFile::open(kModel).take();
  const std::shared_ptr<Device> opened =
      open_device({.name = device, .threads = 1, .use_cache = false, .target = target}).take();
  auto session = Session::open(
      file, {.opened = opened, .threads = 1, .context = 256, .cache_type = DType::U8, .quantise_activations = quantise},
      {});
  REQUIRE_MESSAGE(session.ok(), session.error().message);
  const auto logits = (*session)->append(ids);
  REQUIRE_MESSAGE(logits.ok(), logits.error().message);
  return {logits->begin(), logits->end()};
}

// The kernels of a prompt in one block, with the cache of bytes.
Refs prompt_kernels(const Machine& machine) {
  static const GgufFile file = GgufFile::open(kModel).take();
  const auto model = read_model(file).take();
  const ModelShape shape{.tokens = variable("tokens16", 1, 4) * 16,
                         .many_tokens = true,
                         .chunks = variable("chunks", 1, 4),
                         .context = 1088,
                         .cache_rows = 1088,
                         .local_rows = 1088,
                         .page_entries = 17,
                         .cache_type = DType::U8,
                         .expert_places = machine.expert_places,
                         .prompt_block = machine.prompt_block,
                         .interleave = machine.lanes(),
                         .quantise = true};
  Refs trees;
  for (const Kernel& k : make_schedule(model->block(file, shape, 3).root).kernels) trees.push_back(k.tree);
  return trees;
}

}  // namespace

TEST_CASE("prompts on a machine with AMX use tiles") {
  const CpuTarget target = named_target("sapphirerapids").take();
  const Machine machine = machine_of(target);
  REQUIRE(unit_for_bytes(machine));
  int kernels = 0;
  for (Ref tree : prompt_kernels(machine)) {
    const CodegenResult code =
        generate({.tree = tree, .name = kernel_name(tree), .machine = machine, .symbols = {"tokens16", "chunks"}});
    const bool wanted = to_string(code.opts).find("matrix(") != std::string::npos;
    const Source source{.text = render_llvm(code.program, machine_of(target)), .entry = code.program.name};
    const std::string text = assembly(source, target);
    CHECK((text.find("tdpb") != std::string::npos) == wanted);
    CHECK((text.find("tilerelease") != std::string::npos) == wanted);
    kernels += wanted;
  }
  MESSAGE(kernels << " kernels of a block take products of matrices");
  CHECK(kernels >= 9);  // all products with weights but the router's, and attention
}

TEST_CASE("an attention asks for the columns of its products ahead of time, and multiplies 64 positions at once") {
  Machine machine = machine_of(named_target("sapphirerapids").take());
  machine.streamed_bytes = 1 << 10;  // the model is small
  int asked = 0;
  for (Ref tree : prompt_kernels(machine)) {
    const Program program =
        generate({.tree = tree, .name = kernel_name(tree), .machine = machine, .symbols = {"tokens16", "chunks"}})
            .program;
    std::set<int64_t> hints;  // buffers that are asked for
    for (const Instruction& x : program.code) {
      if (x.kind == Inst::Prefetch) hints.insert(program.code[static_cast<size_t>(x.src[0])].arg.i);
      if (x.kind != Inst::MatrixDot) continue;
      const Instruction& columns = program.code[static_cast<size_t>(x.src[2])];
      if (columns.kind != Inst::Buffer) continue;  // of a panel, which is on chip
      CHECK(hints.contains(columns.arg.i));
      CHECK(matrix_shape(x.arg.list).k >= 16);
      asked += matrix_shape(x.arg.list).k >= 64;
    }
  }
  CHECK(asked >= 1);
}

TEST_CASE("a prompt through tiles has the logits of the same products as sums of words, bit for bit" *
          doctest::test_suite("generated")) {
  const std::vector<int32_t> ids = prompt_of(test::kSanitized ? 16 : 32);
  // The same blocks, without tiles; and the blocks of a machine that never had any.
  const Machine machine = machine_of(test::amx_target());
  REQUIRE(machine.prompt_block > 0);
  const std::string blocks =
      "cpu,prompt_block=" + std::to_string(machine.prompt_block) + ",token_tile=" + std::to_string(machine.token_tile);
  const std::vector<float> words = logits_on(host_without_amx(), ids, blocks),
                           other_blocks = logits_on(host_without_amx(), ids);
  const test::AmxEmulator emulator;
  const uint64_t before = test::AmxEmulator::executed();
  const std::vector<float> tiles = logits_on(test::amx_target(), ids);
  if (!host_target().amx_int8) CHECK(test::AmxEmulator::executed() > before);
  CHECK(!test::amx_state().configured);
  CHECK(tiles == words);
  // Wider blocks round other bytes.
  double worst = 0, greatest = 0;
  for (size_t i = 0; i < tiles.size(); ++i) {
    worst = std::max(worst, std::abs(double(tiles[i]) - double(other_blocks[i])));
    greatest = std::max(greatest, std::abs(double(tiles[i])));
  }
  MESSAGE("logits up to " << greatest << ", greatest difference from narrow blocks " << worst);
  CHECK(worst < 5e-2 * greatest);
  // Tiles of experts that fill the unit.
  const std::vector<int32_t> few = prompt_of(16);
  const std::vector<float> words_of_experts = logits_on(host_without_amx(), few, blocks + ",expert_places=16"),
                           tiles_of_experts = logits_on(test::amx_target(), few, "cpu,expert_places=16");
  CHECK(tiles_of_experts == words_of_experts);
}

TEST_CASE("many tokens of a prompt multiply halves by tiles, and are nearer to floats than bytes are" *
          doctest::test_suite("generated")) {
  const std::vector<int32_t> ids = prompt_of(test::kSanitized ? 16 : 32);
  const auto worst = [](const std::vector<float>& x, const std::vector<float>& y) {
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) worst = std::max(worst, std::abs(double(x[i]) - double(y[i])));
    return worst;
  };
  const std::vector<float> bytes = logits_on(host_without_amx(), ids),
                           exact = logits_on(host_without_amx(), ids, "cpu", false);
  const test::AmxEmulator emulator;
  const uint64_t before = test::AmxEmulator::executed();
  const std::vector<float> halves = logits_on(test::amx_target(), ids, "cpu,long_prompt=16");
  if (!host_target().amx_bf16) CHECK(test::AmxEmulator::executed() > before);
  CHECK(!test::amx_state().configured);
  MESSAGE("from floats: halves " << worst(halves, exact) << ", bytes " << worst(bytes, exact));
  CHECK(worst(halves, exact) > 0);
  CHECK(worst(halves, exact) < worst(bytes, exact));
}
#endif
