#include "codegen/heuristics.h"

#include "codegen/opt_choice.h"
#include "codegen/panel.h"
#include "schedule/tiles.h"

namespace smelt {

LaneRules lane_rules(const Machine& machine) {
  const MatrixUnit *unit = unit_for_bytes(machine), *halves = unit_for_halves(machine);
  return {.block_threads = machine.has_threads() ? machine.block_threads : 1,
          .unit = unit                    ? *unit
                  : machine.has_threads() ? MatrixUnit{}
                                          : kSumsOfWords,
          .halves = halves ? *halves : MatrixUnit{},
          .on_chip = on_chip_scope(machine)};
}

namespace {

// Times the bytes of other loops: what a warp multiplies by a unit has few words for what is computed of them.
constexpr int64_t kFlightOfProducts = 8;

// Further sums of a thread leave room for less.
int64_t flight_times(const OptChoice& c, bool has_fragments) {
  if (!has_fragments) return 1;
  return c.is_part_of_tile() && c.blocks_of_columns > 2 ? kFlightOfProducts / 2 : kFlightOfProducts;
}

// Threads share out what is side by side; each computes some neighbours, whose loads do not wait for each other.
void choose_for_block(OptChoice& c, bool is_local) {
  choose_pack(c);
  if (!is_local && choose_halves(c)) {
    if (c.is_part_of_tile()) return;
    choose_order(c);
    choose_tasks(c);
    return;
  }
  const bool has_fragments = !is_local && choose_fragments(c);
  if (!has_fragments) {
    if (c.is_part_of_tile()) choose_rows(c);
    choose_threads(c, is_local);
    choose_unroll(c);
  }
  choose_unroll_of_bytes(c);
  if (!has_fragments) choose_upcast(c);
  if (c.has_room_for_rounds)
    choose_rounds_in_flight(c, c.machine.flight_bytes * flight_times(c, has_fragments), has_fragments);
  if (!is_local && !c.is_part_of_tile()) {
    if (!has_fragments) choose_terms_together(c);
    choose_order(c);
    choose_tasks(c);
  }
  if (!has_fragments && !c.has_rows) choose_rounds_together(c, is_local);  // of what is left to a block
}

void choose_vectors(OptChoice& c) {
  choose_local(c);
  choose_dot(c);
  choose_group(c);
  if (choose_matrix(c)) return;
  const bool is_in_task = c.is_part_of_tile() && !has_panel(c.opts) && !goes_in_sweeps(c.stores);
  if (is_in_task || is_product_of_reused(c)) choose_block(c);
  choose_unroll(c);
  if (c.has_local) choose_unroll_of_bytes(c);
  choose_upcast(c);
  choose_streams(c);
}

void choose_for_worker(OptChoice& c, bool is_local) {
  if (!is_local && !c.is_part_of_tile()) choose_panel(c);
  choose_pack(c);
  if (!choose_products_of_halves(c)) choose_vectors(c);
  // Not if PANEL was taken: it has made this a part of a tile.
  if (!is_local && !c.is_part_of_tile()) {
    choose_order(c);
    choose_tasks(c);
  }
}

}  // namespace

ChosenOpts choose_and_apply(const Refs& stores, const Machine& machine, bool is_local, const OptObserver& observe) {
  OptChoice c{.stores = stores, .machine = machine, .observe = observe};
  if (machine.has_threads())
    choose_for_block(c, is_local);
  else
    choose_for_worker(c, is_local);
  return {std::move(c.opts), std::move(c.stores)};
}

std::vector<Opt> choose_opts(const Refs& stores, const Machine& machine, bool is_local, const OptObserver& observe) {
  return choose_and_apply(stores, machine, is_local, observe).opts;
}

}  // namespace smelt
