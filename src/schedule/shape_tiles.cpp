#include "schedule/fold_chunks.h"
#include "schedule/passes.h"

namespace smelt {
namespace {

PlannedTile planned(const TileTensors& tensors, ScheduleState& state) {
  PlannedTile tile{.shape = shape_of_tile(tensors, state.machine), .scores = tensors.inner.front()};
  const auto ends = ends_of_sums(tensors, tile.shape, state.graph.root, state.places);
  if (!ends) return tile;
  tile.shape.has_all_chunks = true;
  tile.sums = tensors.sums;
  tile.ends = *ends;
  for (Ref n : tensors.results) state.places.erase(n.get());
  for (Ref n : tile.sums) state.places[n.get()] = Where::InTile;
  return tile;
}

}  // namespace

void shape_tiles(ScheduleState& state) {
  for (const TileTensors& tensors : state.graph.tiles) {
    PlannedTile tile = planned(tensors, state);
    for (const Refs& members : {tensors.inner, tensors.results, tile.sums, tile.ends})
      for (Ref n : members) state.tile_of[n.get()] = static_cast<int>(state.tiles.size());
    state.tiles.push_back(std::move(tile));
  }
}

}  // namespace smelt
