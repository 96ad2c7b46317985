// The kernels of a model for a machine, without its weights.
#pragma once

#include <algorithm>

#include "engine/compile.h"
#include "model/byte_cache.h"
#include "model/model.h"
#include "schedule/schedule.h"

namespace smelt::test {

// The kernels of decode, of a near context, of a batch where its tokens lie side by side, and of a prompt, of every
// kind of layer, each once. `with_batch`: false where they run on random numbers, among which a batch looks for its
// experts.
inline Refs kernel_trees(const GgufFile& file, const Machine& machine, int interleave, bool quantise = true,
                         bool with_batch = true) {
  const auto model = read_model(file).take();
  const ModelShape shape{.chunks = variable("chunks", 1, 4),
                         .context = 1088,
                         .cache_rows = 1088,
                         .local_rows = 1088,
                         .page_entries = 17,
                         .expert_places = machine.expert_places,
                         .interleave = interleave,
                         .piece = static_cast<int>(machine.piece_bytes),
                         .quantise = quantise};
  ModelShape prefill = shape;
  prefill.tokens = variable("tokens8", 1, 4) * machine.token_tile;
  prefill.many_tokens = true;
  prefill.tokens_side_by_side = machine.tokens_side_by_side();
  if (const MatrixUnit* unit = unit_for_halves(machine); unit && quantise)
    prefill.halves = true, prefill.attention_halves = !unit->loads_operands, prefill.expert_places = unit->n;
  std::vector<ModelShape> shapes{shape, prefill};
  if (with_batch && prefill.tokens_side_by_side > 1) {
    ModelShape batch = shape;
    batch.tokens = batch.rows = prefill.tokens_side_by_side;
    batch.tokens_side_by_side = batch.heads_together = prefill.tokens_side_by_side;
    shapes.push_back(batch);
  }
  if (machine.near_context > 0) {
    ModelShape near = shape;
    near.chunk = kPageSize;
    near.chunks = variable("pages", 1, machine.near_context / kPageSize);
    near.cache_type = quantise ? DType::U8 : DType::F32;
    near.heads_together = prefill.tokens_side_by_side;
    near.has_fragments = has_fragments(machine);
    shapes.push_back(near);
  }
  Refs trees;
  for (const ModelShape& s : shapes)
    for (Ref root : {model->embed(file, s).root, model->block(file, s, 0).root,
                     model->block(file, s, model->numbers().layers - 1).root, model->head(file, s).root})
      for (const Kernel& k : make_schedule(root, machine).kernels)
        if (std::find(trees.begin(), trees.end(), k.tree) == trees.end()) trees.push_back(k.tree);
  return trees;
}

}  // namespace smelt::test
