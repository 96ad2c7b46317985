#include "runtime/cuda/runs.h"

#include <algorithm>

#include "base/ensure.h"
#include "runtime/cuda/plan.h"

namespace smelt {
namespace {

constexpr size_t kSymbolBytes = CudaSymbols::kMost * sizeof(int64_t);

}  // namespace

Status CudaRuns::prepare(const CudaContext& context, CuAddress symbols) {
  context_ = &context;
  symbols_ = symbols;
  for (Run& run : runs_) {
    void* pinned = nullptr;
    SMELT_CHECK(context.check(context.driver().allocate_pinned(&pinned, kSymbolBytes + ReadBack::kMostBytes, 0),
                              "pinning launch values"));
    run.pinned = static_cast<std::byte*>(pinned);
    std::fill_n(run.pinned, kSymbolBytes, std::byte{0});
    SMELT_CHECK(context.check(context.driver().event_create(&run.done, 0), "making an event"));
  }
  return {};
}

void CudaRuns::release() {
  for (Run& run : runs_) {
    if (run.done) context_->driver().event_destroy(run.done);
    if (run.pinned) context_->driver().release_pinned(run.pinned);
    run = {};
  }
}

Status CudaRuns::begin(std::span<const int64_t> symbols) {
  if (begun_ >= kMost) SMELT_CHECK(wait(begun_ + 1 - kMost));
  Run& run = of(begun_ + 1);
  std::ranges::copy(std::as_bytes(symbols), run.pinned);
  return context_->check(context_->driver().copy_in(symbols_, run.pinned, kSymbolBytes, context_->stream()),
                         "copying launch values");
}

Result<uint64_t> CudaRuns::end(const ReadBack& read_back) {
  ENSURE(read_back.to.size() <= ReadBack::kMostBytes, "more is read back than there is room for");
  Run& run = of(begun_ + 1);
  run.to = read_back.to;
  if (!run.to.empty())
    SMELT_CHECK(context_->check(
        context_->driver().copy_out(run.pinned + kSymbolBytes, reinterpret_cast<CuAddress>(read_back.from),
                                    run.to.size(), context_->stream()),
        "reading back what a plan has left"));
  SMELT_CHECK(context_->check(context_->driver().event_record(run.done, context_->stream()), "recording an event"));
  return ++begun_;
}

Status CudaRuns::wait(uint64_t run) {
  run = std::min(run, begun_);
  if (run <= done_) return {};
  SMELT_CHECK(context_->check(context_->driver().event_wait(of(run).done), "running a plan"));
  while (done_ < run) {
    Run& finished = of(++done_);
    std::copy_n(finished.pinned + kSymbolBytes, finished.to.size(), finished.to.begin());
  }
  return {};
}

}  // namespace smelt
