// The way of a model to a GPU, without one: its kernels become PTX, its plans launches of a driver that is not there.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>

#include "engine/model_passes.h"
#include "runtime/cuda/cuda_device.h"
#include "support/fake_cuda.h"

using namespace smelt;
using test::FakeCuda;

namespace {

const std::string kModel = std::string(SMELT_SOURCE_DIR) + "/models/tiny-glm-Q4_K_M.gguf";

}  // namespace

TEST_CASE("the decode plan of the small model becomes PTX and launches of a graph, with every buffer on the device") {
  const GgufFile file = GgufFile::open(kModel).take();
  const auto model = read_model(file).take();
  const EngineLayout layout = EngineLayout::make(512, 64, 1, 0, 0, 32);
  FakeCuda fake;
  fake.block_shared_bytes = 227 << 10;  // of an H100
  const CudaDriver driver = fake.driver();
  const auto device = open_cuda_device(driver, {.use_cache = false}).take();
  Compiler compiler(*device, PassSymbols::names(layout.token_tile));
  const ModelPasses passes(file, *model, layout,
                           {.cache_type = DType::U8, .quantise = true, .interleave = 32, .reads_file = false},
                           compiler);
  const Pass decode = passes.decode(nullptr);
  const Status compiled = compiler.finish();
  REQUIRE_MESSAGE(compiled.ok(), compiled.error().message);
  CHECK(fake.assembled.size() == static_cast<size_t>(compiler.kernel_count()));
  for (const std::string& ptx : fake.assembled) CHECK(ptx.find(".target sm_90a\n") != std::string::npos);
  // Products take four words of activations in one load.
  CHECK(std::any_of(fake.assembled.begin(), fake.assembled.end(), [](const std::string& ptx) {
    return ptx.find("ld.global.nc.L2::128B.v4") != std::string::npos && ptx.find("dp4a") != std::string::npos;
  }));

  // Every weight has a place on the device: the file is not read in place.
  const std::vector<const Pass*> all = {&decode};
  const PackPlan packing = PackPlan::make(file, passes.packed_layouts(all));
  const auto weights = PackedWeights::pack(packing, {.threads = 2}, *device);
  REQUIRE_MESSAGE(weights.ok(), weights.error().message);
  auto memory = EngineMemory::allocate(*device, *model, layout, DType::U8, passes.arena_bytes(all));
  REQUIRE_MESSAGE(memory.ok(), memory.error().message);
  Plan plan = passes.plan(decode, *weights, *memory, memory->arena());
  for (const Launch& launch : plan.launches())
    for (int i = 0; i < compiler.program(plan.kernels()[&launch - plan.launches().data()]).buffers; ++i) {
      const auto address = reinterpret_cast<CuAddress>(launch.buffers[i]);
      const auto block = std::prev(fake.blocks.upper_bound(address));
      CHECK(address < block->first + block->second);
    }
  REQUIRE(plan.capture(*device).ok());
  const int64_t symbols[] = {1, 1, 1};
  memory->tokens()[0] = 42;
  REQUIRE(memory->send_inputs().ok());
  REQUIRE(plan.run(symbols).ok());
  CHECK(fake.launches.size() == plan.launches().size());
  const int64_t beyond[] = {1, 1 << 20, 1};
  CHECK(plan.run(beyond).error().message.find(
            "chunks: 1048576 is outside of what its kernels were made for, 1 to 16") != std::string::npos);
  CHECK(fake.times_called("cuGraphLaunch") == 1);
}
