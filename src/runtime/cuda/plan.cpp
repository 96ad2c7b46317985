#include "runtime/cuda/plan.h"

#include <string>

#include "base/ensure.h"

namespace smelt {
namespace {

// Destroyed with this, whatever happens in between.
struct Events {
  const CudaDriver& driver;
  std::vector<CuEvent> events;
  ~Events() {
    for (CuEvent event : events) driver.event_destroy(event);
  }
};

}  // namespace

Result<std::unique_ptr<CudaPlan>> CudaPlan::capture(const CudaContext& context, const CudaSymbols& symbols,
                                                    std::span<const Launch> launches) {
  std::unique_ptr<CudaPlan> plan(new CudaPlan(context, symbols));
  for (const Launch& l : launches) {
    const auto& kernel = static_cast<const CudaExecutable&>(*l.kernel);
    Call& call = plan->calls_.emplace_back();
    call.kernel = &kernel;
    call.blocks = l.parts > 0 ? static_cast<unsigned>(l.parts) : kernel.blocks;
    for (int i = 0; i < kernel.shape.buffers; ++i) call.values.push_back(reinterpret_cast<CuAddress>(l.buffers[i]));
    call.values.push_back(symbols.device);
    for (CuAddress& value : call.values) call.parameters.push_back(&value);
  }
  if (!plan->calls_.empty()) SMELT_CHECK(plan->make_graph());
  return plan;
}

CudaPlan::~CudaPlan() {
  if (graph_ && context_.enter()) context_.driver().graph_exec_destroy(graph_);
}

Status CudaPlan::add_symbols() const {
  return context_.check(context_.driver().copy_in(symbols_.device, symbols_.pinned,
                                                  CudaSymbols::kMost * sizeof(int64_t), context_.stream()),
                        "copying launch values");
}

Status CudaPlan::add(const Call& call) const {
  return context_.check(context_.driver().launch(
                            call.kernel->function, call.blocks, 1, 1, static_cast<unsigned>(call.kernel->shape.threads),
                            1, 1, static_cast<unsigned>(call.kernel->shape.shared_bytes), context_.stream(),
                            const_cast<void**>(call.parameters.data()), nullptr),
                        "launching a kernel of " + std::to_string(call.blocks) + " blocks");
}

// What is begun between the two calls is not run but becomes part of the graph.
Status CudaPlan::make_graph() {
  const CudaDriver& driver = context_.driver();
  SMELT_CHECK(context_.check(driver.capture_begin(context_.stream(), Cu::kCaptureThreadLocal), "capturing a plan"));
  Status added = add_symbols();
  for (size_t i = 0; i < calls_.size() && added; ++i) added = add(calls_[i]);
  CuGraph graph = nullptr;
  const CuResult ended = driver.capture_end(context_.stream(), &graph);  // in any case, or the stream is of no use
  Status made = added ? context_.check(ended, "capturing a plan") : added;
  if (made) made = context_.check(driver.graph_instantiate(&graph_, graph, 0), "making a graph of a plan");
  if (graph) driver.graph_destroy(graph);
  return made;
}

Status CudaPlan::start() const {
  if (calls_.empty()) return {};
  return context_.check(context_.driver().graph_launch(graph_, context_.stream()), "starting a plan");
}

Status CudaPlan::run_timed(std::span<int64_t> times_ns) const {
  ENSURE(times_ns.size() == calls_.size() + 1, "one time more than launches");
  const CudaDriver& driver = context_.driver();
  Events events{driver, {}};
  const auto record = [&]() -> Status {
    CuEvent event = nullptr;
    SMELT_CHECK(context_.check(driver.event_create(&event, 0), "making an event"));
    events.events.push_back(event);
    return context_.check(driver.event_record(event, context_.stream()), "recording an event");
  };
  SMELT_CHECK(add_symbols());
  SMELT_CHECK(record());
  for (const Call& call : calls_) {
    SMELT_CHECK(add(call));
    SMELT_CHECK(record());
  }
  SMELT_CHECK(context_.wait("running a plan, launch by launch"));
  times_ns[0] = 0;
  for (size_t i = 1; i < times_ns.size(); ++i) {
    float milliseconds = 0;
    SMELT_CHECK(
        context_.check(driver.event_elapsed(&milliseconds, events.events[0], events.events[i]), "reading times"));
    times_ns[i] = static_cast<int64_t>(static_cast<double>(milliseconds) * 1e6);
  }
  return {};
}

}  // namespace smelt
