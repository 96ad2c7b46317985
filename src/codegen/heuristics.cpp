#include "codegen/heuristics.h"

#include "codegen/opt_choice.h"
#include "codegen/stage.h"
#include "schedule/tiles.h"

namespace smelt {

std::vector<Opt> choose_opts(const Refs& stores, const Machine& machine, bool is_local) {
  OptChoice c{.stores = stores, .machine = machine};
  if (!is_local && !c.is_part_of_tile()) choose_stage(c);
  choose_pack(c);
  choose_local(c);
  choose_dot(c);
  choose_group(c);
  if (!choose_matrix(c)) {
    const bool is_in_task =
        c.is_part_of_tile() && !is_staged(c.opts) && !goes_in_passes(c.stores[0]);
    if (is_in_task || is_product_of_reused(c)) choose_block(c);
    choose_unroll(c);
    if (c.has_local) choose_unroll_of_bytes(c);
    choose_upcast(c);
  }
  // Not if STAGE was taken: it has made this a part of a tile.
  if (!is_local && !c.is_part_of_tile()) {
    choose_order(c);
    choose_tasks(c);
  }
  return std::move(c.opts);
}

}  // namespace smelt
