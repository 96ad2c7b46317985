#include "schedule/fold_chunks.h"
#include "schedule/passes.h"

namespace smelt {
namespace {

PlannedTile planned(const TileTensors& tensors, ScheduleState& state) {
  PlannedTile tile{.shape = shape_of_tile(tensors, state.machine), .scores = tensors.inner.front()};
  tile.rows = tensors.rows;
  for (Ref n : tile.rows) state.places[n.get()] = Where::InTile;
  const auto ends = ends_of_sums(tensors, tile.shape, state.graph.root, state.places);
  if (!ends) return tile;
  tile.shape.has_all_chunks = true;
  tile.sums = tensors.sums;
  tile.ends = *ends;
  for (Ref n : tensors.results) state.places.erase(n.get());
  for (Ref n : tile.sums) state.places[n.get()] = Where::InTile;
  return tile;
}

// The steps are its chunks; of the axes in front of them a tile has one element.
PlannedTile planned(const ScanTensors& scan) {
  PlannedTile tile{.shape = {.axis = scan.axis, .extents = {}, .has_all_chunks = true}, .scores = scan.left};
  tile.shape.extents.assign(static_cast<size_t>(scan.axis) + 1, 1);
  tile.scan = &scan;
  return tile;
}

}  // namespace

void shape_tiles(ScheduleState& state) {
  for (const TileTensors& tensors : state.graph.tiles) {
    PlannedTile tile = planned(tensors, state);
    for (const Refs& members : {tensors.inner, tile.rows, tensors.results, tile.sums, tile.ends})
      for (Ref n : members) state.tile_of[n.get()] = static_cast<int>(state.tiles.size());
    state.tiles.push_back(std::move(tile));
  }
  for (const ScanTensors& scan : state.scans) {
    for (Ref n : scan.made) state.places.erase(n.get());
    for (Ref n : scan.inner) state.places[n.get()] = Where::InTile;
    for (Ref n : scan.ends) state.places[n.get()] = Where::Memory;
    for (const Refs& members : {scan.inner, scan.ends, scan.writes})
      for (Ref n : members) state.tile_of[n.get()] = static_cast<int>(state.tiles.size());
    state.tiles.push_back(planned(scan));
  }
}

}  // namespace smelt
