// PANEL: what all iterations of an output loop share is computed once and kept on chip, as a panel.
//
//   for t { for r { y[t, r] = sum(unpack(w[r, k]) * x[t, k]; k) } }
//
//   for panels of rows, for t {          tiles (see schedule/tiles.h): tasks in this order
//     if the panel on chip is another one { for r in the panel, k { local[r, k] = unpack(w[r, k]) } }
//     for r in the panel { y[t, r] = sum(local[r, k] * x[t, k]; k) }
//   }
//
// A value that depends on the loop through a loaded index only, as the weights of the expert of a tile of tokens do, is
// shared by the iterations that load the same index one after the other.
//
// A panel holds cells of 4 bytes: one f32, or two halves or four bytes of neighbouring terms, kPanelLanes rows side by
// side, so that vectors of rows and words are loaded as they lie.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/linearize.h"
#include "codegen/opt.h"

namespace smelt {

constexpr int64_t kPanelLanes = 16;

struct NestWithPanel {
  Refs reset;                 // a nest that every worker runs first: there is no panel yet
  std::vector<Refs> panels;   // nests that make the parts of a panel, the last one writes down which it is
  Refs main;                  // the nest itself, reading the panel
  std::optional<Ahead> next;  // where the next panel is made from
};

// Why PANEL(axis, rows of a panel) cannot be applied; empty if it can. Only SPLIT and FRONT may come before it.
std::string why_not_panel(const Refs& stores, const Opt& opt, const OnChipScope& scope = {});

// Which of the options of a nest is PANEL; their number if none is.
size_t place_of_panel(const std::vector<Opt>& opts);
bool has_panel(const std::vector<Opt>& opts);

constexpr int64_t kMostPanelLocals = 16;

// Local buffers are numbered from `first_local` on, at most kMostPanelLocals.
// REQUIRES: why_not_panel(stores, opt) is empty.
NestWithPanel with_panel(const Refs& stores, const Opt& opt, int64_t first_local);

// What a panel along an axis would keep.
struct Panel {
  int64_t bytes_of_row = 0;  // 0: nothing
  bool jumps = false;        // an index loaded along the axis says what the panel is
  bool holds_halves = false;
  int64_t rows = 1;       // there are, of all panels
  int64_t shared_by = 1;  // results of an iteration that a row of it serves
};
Panel panel_of(const Refs& stores, RangeId axis);

}  // namespace smelt
