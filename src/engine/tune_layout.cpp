#include "engine/tune_layout.h"

#include <algorithm>

#include "base/parallel.h"
#include "engine/compile.h"
#include "engine/session.h"

namespace smelt {
namespace {

Result<Buffer> packed(const GgufTensor& tensor, WeightLayout layout, int threads) {
  SMELT_TRY(buffer, Buffer::allocate(tensor.bytes));
  const auto rows = static_cast<int64_t>(tensor.rows()), row_bytes = static_cast<int64_t>(tensor.row_bytes()),
             blocks = row_bytes / static_cast<int64_t>(info_of(tensor.type).bytes),
             groups = rows / layout.rows_together();
  const int64_t parts = std::min<int64_t>(groups, 8 * threads);
  for_each_in_parallel(static_cast<size_t>(parts), threads, [&](size_t part, int) {
    const auto p = static_cast<int64_t>(part);
    const int64_t first = groups * p / parts * layout.rows_together(),
                  end = groups * (p + 1) / parts * layout.rows_together();
    interleave_rows(tensor.type, layout, end - first, blocks, tensor.data + first * row_bytes,
                    buffer.data() + first * row_bytes);
  });
  return buffer;
}

}  // namespace

Result<std::unique_ptr<LayoutSites>> LayoutSites::make(const Session& session, const GgufFile& file,
                                                       const PlanSites& sites, const LayoutTrial& trial, int threads) {
  TuneSite now = sites.site_of_launch(trial.launch), then = now;
  const std::vector<Ref> trees = session.loaded().trees_with(trial.plan, trial.role, trial.layout);
  if (trees.empty())
    return Error{"[tune] " + trial.role + ": with " + to_string(trial.layout) + " the kernels would be others"};
  then.tree = trees[trial.launch];
  then.name = kernel_name(then.tree);
  std::unique_ptr<LayoutSites> made(new LayoutSites(std::move(now), std::move(then)));
  const std::vector<LaunchBuffer> buffers = session.loaded().launches(trial.plan)[trial.launch].buffers;
  for (size_t i = 0; i < buffers.size(); ++i) {
    made->arguments_.push_back(made->now_.launches[0][i]);
    if (buffers[i].role != trial.role) continue;
    const GgufTensor& tensor = *file.find(buffers[i].tensor);
    made->arguments_.back() = tensor.data;
    if (!trial.layout.is_packed()) continue;
    SMELT_TRY(weights, packed(tensor, trial.layout, threads));
    made->arguments_.back() = weights.data();
    made->weights_.push_back(std::move(weights));
  }
  made->then_.launches = {made->arguments_.data()};
  return made;
}

}  // namespace smelt
