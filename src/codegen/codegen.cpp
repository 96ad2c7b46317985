#include "codegen/codegen.h"

#include "base/ensure.h"
#include "codegen/linearize.h"
#include "codegen/passes.h"
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

CodegenResult generate(const CodegenRequest& request) {
  const EnsureNote note("generating kernel " + request.name);
  ENSURE(request.opts.empty() || request.opts.size() == request.tree->src.size(),
         "options for another number of nests");
  CodegenResult result;
  std::vector<ExpandedNest> nests;
  const auto step = [&](const char* pass, const Refs& stores) {
    if (request.observe) request.observe(pass, stores);
    return stores;
  };
  for (size_t i = 0; i < request.tree->src.size(); ++i) {
    const Ref nest = request.tree->src[i];
    const bool is_local = is_local_nest(nest);
    Refs stores = step("prepare", prepare_nest(nest));
    result.opts.push_back(request.opts.empty() ? choose_opts(stores, request.machine, is_local)
                                               : request.opts[i]);
    stores = step("options", apply_opts(stores, result.opts.back()));
    stores =
        step("hoist factors",
             hoist_factors(stores));  // before expand, while reductions still have their ranges
    stores = step("pack dots", pack_dots(stores));
    stores = step("expand", expand(stores));
    stores = step("coalesce loads",
                  coalesce_loads(stores));  // after expand, when the byte of a word is known
    nests.push_back({.stores = stores, .is_local = is_local});
  }
  result.program = linearize(nests, request.name, request.symbols);
  return result;
}

}  // namespace smelt
