#include "runtime/cuda/plan.h"

#include <algorithm>
#include <string>

#include "base/block_clock.h"
#include "base/ensure.h"

namespace smelt {
namespace {

// What the blocks of one launch have left.
using LaunchClocks = std::span<const BlockClock>;

int64_t begin_of(LaunchClocks blocks) {
  uint64_t first = UINT64_MAX;
  for (const BlockClock& block : blocks) first = std::min(first, block.begin);
  return static_cast<int64_t>(first);
}

int64_t end_of(LaunchClocks blocks) {
  uint64_t last = 0;
  for (const BlockClock& block : blocks) last = std::max(last, block.end);
  return static_cast<int64_t>(last);
}

// When each processor has done its blocks of a launch; one that has none waits from the start.
std::vector<int64_t> ends_of(LaunchClocks blocks, size_t processors, int64_t start) {
  std::vector<int64_t> ends(processors, start);
  for (const BlockClock& block : blocks) {
    int64_t& end = ends[std::min<size_t>(block.processor, processors - 1)];
    end = std::max(end, static_cast<int64_t>(block.end));
  }
  return ends;
}

}  // namespace

Result<std::unique_ptr<CudaPlan>> CudaPlan::capture(const CudaContext& context, const CudaSymbols& symbols,
                                                    std::span<const Launch> launches) {
  std::unique_ptr<CudaPlan> plan(new CudaPlan(context, symbols));
  for (const Launch& l : launches) {
    const auto& kernel = static_cast<const CudaExecutable&>(*l.kernel);
    Call& call = plan->calls_.emplace_back();
    call.kernel = &kernel;
    call.blocks = l.parts > 0 && kernel.shape.blocks == 0 ? static_cast<unsigned>(l.parts) : kernel.blocks;
    for (int i = 0; i < kernel.shape.buffers; ++i) call.values.push_back(reinterpret_cast<CuAddress>(l.buffers[i]));
    call.values.push_back(symbols.device);
    for (CuAddress& value : call.values) call.parameters.push_back(&value);
    plan->blocks_ += call.blocks;
  }
  if (plan->calls_.empty()) return plan;
  SMELT_TRY(graph, plan->make_graph(0));
  plan->graph_ = graph;
  return plan;
}

CudaPlan::~CudaPlan() {
  const CudaDriver& driver = context_.driver();
  if (!graph_ || !context_.enter()) return;
  driver.graph_exec_destroy(graph_);
  if (timed_graph_) driver.graph_exec_destroy(timed_graph_);
  if (clocks_) driver.release(clocks_);
}

Status CudaPlan::add(const Call& call, CuAddress clocks) const {
  std::vector<void*> parameters = call.parameters;
  parameters.push_back(&clocks);
  CuLaunch::Attribute overlaps{.id = CuLaunch::kOverlaps, .value = {1}};
  const CuLaunch launch{.grid_x = call.blocks,
                        .block_x = static_cast<unsigned>(call.kernel->shape.threads),
                        .shared_bytes = static_cast<unsigned>(call.kernel->shape.shared_bytes),
                        .stream = context_.stream(),
                        .attributes = &overlaps,
                        .count = call.kernel->shape.overlaps ? 1u : 0u};
  return context_.check(context_.driver().launch(&launch, call.kernel->function, parameters.data(), nullptr),
                        "launching a kernel of " + std::to_string(call.blocks) + " blocks");
}

// What is begun between the two calls is not run but becomes part of the graph.
Result<CuGraphExec> CudaPlan::make_graph(CuAddress clocks) const {
  const CudaDriver& driver = context_.driver();
  SMELT_CHECK(context_.check(driver.capture_begin(context_.stream(), Cu::kCaptureThreadLocal), "capturing a plan"));
  Status added;
  for (size_t i = 0; i < calls_.size() && added; ++i) {
    added = add(calls_[i], clocks);
    if (clocks) clocks += calls_[i].blocks * sizeof(BlockClock);
  }
  CuGraph graph = nullptr;
  const CuResult ended = driver.capture_end(context_.stream(), &graph);  // in any case, or the stream is of no use
  Status made = added ? context_.check(ended, "capturing a plan") : added;
  CuGraphExec result = nullptr;
  if (made) made = context_.check(driver.graph_instantiate(&result, graph, 0), "making a graph of a plan");
  if (graph) driver.graph_destroy(graph);
  if (!made) return made.error();
  return result;
}

Status CudaPlan::start() const {
  if (calls_.empty()) return {};
  return context_.check(context_.driver().graph_launch(graph_, context_.stream()), "starting a plan");
}

Status CudaPlan::prepare_clocks() const {
  if (timed_graph_) return {};
  if (!clocks_)
    SMELT_CHECK(context_.check(context_.driver().allocate(&clocks_, blocks_ * sizeof(BlockClock)),
                               "allocating clocks for " + std::to_string(blocks_) + " blocks"));
  SMELT_TRY(graph, make_graph(clocks_));
  timed_graph_ = graph;
  return {};
}

Status CudaPlan::read_clocks(std::span<BlockClock> clocks) const {
  const CudaDriver& driver = context_.driver();
  SMELT_CHECK(prepare_clocks());
  SMELT_CHECK(
      context_.check(driver.fill(clocks_, 0, clocks.size_bytes(), context_.stream()), "setting clocks to zero"));
  SMELT_CHECK(context_.check(driver.graph_launch(timed_graph_, context_.stream()), "starting a timed plan"));
  SMELT_CHECK(context_.check(driver.copy_out(clocks.data(), clocks_, clocks.size_bytes(), context_.stream()),
                             "reading clocks"));
  return context_.wait("running a timed plan");
}

Status CudaPlan::run_timed(std::span<int64_t> times_ns, std::span<int64_t> arrivals_ns) const {
  const size_t launches = calls_.size(), processors = static_cast<size_t>(context_.properties().processors);
  ENSURE(times_ns.size() == launches + 1, "one time more than launches");
  ENSURE(arrivals_ns.empty() || arrivals_ns.size() == processors * launches, "a time for each processor and launch");
  std::vector<BlockClock> clocks(blocks_);
  if (launches > 0) SMELT_CHECK(read_clocks(clocks));
  LaunchClocks rest = clocks;
  times_ns[0] = launches > 0 ? begin_of(rest.first(calls_[0].blocks)) : 0;
  for (size_t i = 0; i < launches; ++i) {
    const LaunchClocks mine = rest.first(calls_[i].blocks);
    rest = rest.subspan(mine.size());
    times_ns[i + 1] = std::max(times_ns[i], end_of(mine));
    if (arrivals_ns.empty()) continue;
    const std::vector<int64_t> ends = ends_of(mine, processors, times_ns[i]);
    for (size_t p = 0; p < processors; ++p) arrivals_ns[p * launches + i] = ends[p];
  }
  return {};
}

}  // namespace smelt
