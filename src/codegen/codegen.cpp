#include "codegen/codegen.h"

#include <algorithm>

#include "base/ensure.h"
#include "codegen/linearize.h"
#include "codegen/passes.h"
#include "codegen/stage.h"
#include "graph/rules_algebra.h"
#include "schedule/schedule.h"
#include "schedule/tiles.h"

namespace smelt {
Refs prepare_nest(Ref nest) {
  Refs stores = nest->src;
  stores = bound_masks(stores);  // first: it reads masks as the model wrote them
  stores =
      split_ranges(stores);  // before options, which then see the natural axes of block formats
  return stores;
}

namespace {

int64_t first_free_local(Ref tree) {
  int64_t first = 0;
  for (Ref n : toposort(tree))
    if (n->op == Op::Local) first = std::max(first, n->arg.i + 1);
  return first;
}

// What becomes of the stores of a nest, pass by pass.
class NestPasses {
 public:
  NestPasses(const CodegenRequest& request, std::vector<ExpandedNest>& out)
      : request_(request), out_(out) {}

  // REQUIRES: why_not() has nothing against the options.
  void add(Refs stores, const std::vector<Opt>& opts, bool is_local) {
    stores = step("options", apply_opts(stores, opts));
    stores =
        step("hoist factors",
             hoist_factors(stores));  // before expand, while reductions still have their ranges
    stores = step("pack dots", pack_dots(stores));
    stores = step("matrix dots", matrix_dots(stores));
    stores = step("expand", expand(stores));
    stores = step("coalesce loads",
                  coalesce_loads(stores));  // after expand, when the byte of a word is known
    out_.push_back({.stores = stores, .is_local = is_local});
  }

  // The nests of a panel come before the nest that uses it.
  void add_staged(const Refs& stores, const std::vector<Opt>& opts, int64_t first_local) {
    const Staged staged = stage(stores, opts[0], first_local);
    add(staged.reset, {}, true);
    for (const Refs& panel : staged.panels)
      add(panel, choose_opts(panel, request_.machine, false), false);
    add(staged.main, {opts.begin() + 1, opts.end()}, false);
    out_.back().ahead = staged.next;
  }

  Refs step(const char* pass, const Refs& stores) const {
    if (request_.observe) request_.observe(pass, stores);
    return stores;
  }

 private:
  const CodegenRequest& request_;
  std::vector<ExpandedNest>& out_;
};

}  // namespace

CodegenResult generate(const CodegenRequest& request) {
  const EnsureNote note("generating kernel " + request.name);
  ENSURE(request.opts.empty() || request.opts.size() == request.tree->src.size(),
         "options for another number of nests");
  CodegenResult result;
  std::vector<ExpandedNest> nests;
  NestPasses passes(request, nests);
  int64_t next_local = first_free_local(request.tree);
  for (size_t i = 0; i < request.tree->src.size(); ++i) {
    const Ref nest = request.tree->src[i];
    const bool is_local = is_local_nest(nest);
    const Refs stores = passes.step("prepare", prepare_nest(nest));
    result.opts.push_back(request.opts.empty() ? choose_opts(stores, request.machine, is_local)
                                               : request.opts[i]);
    const std::vector<Opt>& opts = result.opts.back();
    if (!is_staged(opts)) {
      passes.add(stores, opts, is_local);
    } else {
      passes.add_staged(stores, opts, next_local);
      next_local += kMostPanelLocals;
    }
  }
  result.program = linearize(nests, request.name, request.symbols);
  return result;
}

}  // namespace smelt
