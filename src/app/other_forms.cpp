#include "app/other_forms.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <map>
#include <vector>

#include "egraph/block_graph.h"
#include "egraph/describe.h"
#include "egraph/extract.h"
#include "egraph/rules.h"

namespace smelt {
namespace {

constexpr double kMega = 1e6, kMicro = 1e-6;

using Lines = std::vector<std::string>;

[[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...) {
  char text[256];
  va_list values;
  va_start(values, format);
  std::vsnprintf(text, sizeof text, format, values);
  va_end(values);
  return text;
}

// What a form of a block costs: its bytes, and the launches that e-graphs count.
struct Form {
  egraph::Cost cost;
  Lines lines;  // products with weights
};

class Report {
 public:
  Report(const ModelPlans& plans, const GgufFile& file, const Machine& machine, int64_t depth)
      : plans_(plans), file_(file), machine_(machine), variables_(plans.symbols(1, depth)) {}

  std::string text() {
    out_ = "Other forms of the blocks that a token goes through, and what they move (docs/equality_saturation.md).\n";
    out_ += machine_.title + ": " +
            formatted("%.0f GB/s, a launch takes %.2f us, as long as %.2f MB\n", machine_.bandwidth / 1e9,
                      launch_seconds() / kMicro, launch_bytes() / kMega);
    for (const auto& [number, blocks] : kinds_of_blocks()) add(blocks);
    return out_;
  }

 private:
  // Segments of equal graphs, by the first of them.
  std::map<int, std::vector<PlanSegment>> kinds_of_blocks() const {
    std::map<int, std::vector<PlanSegment>> kinds;
    for (const PlanSegment& segment : plans_.segments(PlanKind::Decode))
      if (segment.layer >= 0) kinds[segment.number].push_back(segment);
    return kinds;
  }

  double launch_seconds() const { return std::max(machine_.launch_seconds, machine_.barrier_seconds); }
  double launch_bytes() const { return launch_seconds() * machine_.bandwidth; }

  // The plan's shape, with activations as e-graphs know them: how they lie and how many share a scale is no matter of
  // equality.
  ModelShape shape() const {
    ModelShape shape = plans_.generated().front().pass.shape;
    const ModelShape plain;
    shape.token_block = plain.token_block;
    shape.superblock_token_block = plain.superblock_token_block;
    shape.interleave = plain.interleave;
    shape.piece = plain.piece;
    shape.layouts = {};
    return shape;
  }

  void add(const std::vector<PlanSegment>& blocks) {
    const int64_t layer = blocks.front().layer;
    const Segment segment = plans_.model().block(file_, shape(), layer);
    const egraph::WeightTable weights = egraph::weights_of(segment, file_, layer_prefix(layer));
    egraph::EGraph g;
    const egraph::ClassId root = egraph::add_graph(g, segment.root, weights);
    egraph::CostModel model{.weight_bytes = egraph::bytes_of(weights), .variables = variables_};
    if (machine_.bandwidth > 0) model.launch_bytes = launch_bytes();
    const size_t written_nodes = g.node_count();
    const Form written{*cost_of(g, root, {}, model), describe(g, root, {})};
    const bool saturated = saturate(g, egraph::all_rules()).why == egraph::Stopped::Saturated;

    out_ += formatted("\n%zu %s layer %lld: %zu nodes become %zu%s; %zu launches as scheduled\n", blocks.size(),
                      blocks.size() == 1 ? "block, of" : "blocks, as of", static_cast<long long>(layer), written_nodes,
                      g.node_count(), saturated ? ", and there are no more" : " and would be more",
                      blocks.front().kernels.size());
    out_ += formatted("  %-34s %12s %12s %9s %10s\n", "", "weights", "others", "kernels", "us");
    add_row("as written", written.cost);
    const Form best = best_form(g, root, model);
    add_row("best of the equal forms", best.cost);
    model.folded = egraph::CostModel::Folded::Narrowest;
    const Form rounded = best_form(g, root, model);
    const bool folds = rounded.lines != best.lines;
    if (folds) add_row("best if products were rounded", rounded.cost);
    add_changes("the best", written.lines, best.lines);
    if (folds) add_changes("if rounded", best.lines, rounded.lines);
  }

  static Form best_form(const egraph::EGraph& g, egraph::ClassId root, const egraph::CostModel& model) {
    const egraph::Extraction found = extract(g, root, model);
    return {found.cost, describe(g, root, found.choice)};
  }

  void add_row(const char* name, const egraph::Cost& cost) {
    out_ += formatted("  %-34s %9.2f MB %9.2f MB %9d", name, cost.weights / kMega, cost.values / kMega, cost.kernels);
    out_ += machine_.bandwidth > 0 ? formatted(" %10.1f\n", cost.total / machine_.bandwidth / kMicro) : "\n";
  }

  // Products with weights that only one of two forms has.
  void add_changes(const char* name, const Lines& before, const Lines& after) {
    const auto has = [](const Lines& lines, const std::string& line) {
      return std::find(lines.begin(), lines.end(), line) != lines.end();
    };
    out_ += formatted("  %s:%s\n", name, before == after ? " the same products with weights" : "");
    for (const std::string& line : before)
      if (!has(after, line)) out_ += "    - " + line + "\n";
    for (const std::string& line : after)
      if (!has(before, line)) out_ += "    + " + line + "\n";
  }

  const ModelPlans& plans_;
  const GgufFile& file_;
  const Machine& machine_;
  const std::map<std::string, int64_t> variables_;
  std::string out_;
};

}  // namespace

std::string other_forms(const ModelPlans& plans, const GgufFile& file, const Machine& machine, int64_t depth) {
  return Report(plans, file, machine, depth).text();
}

}  // namespace smelt
