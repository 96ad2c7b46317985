// What an engine does with the head for multi-token prediction.
#include <algorithm>

#include "base/ensure.h"
#include "engine/engine.h"

namespace smelt {

// The rows that the head keeps of a prompt. A token's row also depends on the token behind it; behind the last one of a
// prompt nobody knows it yet: draft() writes that row anew.
Status Engine::draft_parts(std::span<const StepItem> items, std::span<const Part> parts,
                           const LoadedModel::Extent& extent, const std::atomic<bool>* cancel) {
  int32_t* tokens = loaded_->memory().tokens();
  for (const Part& part : parts) {
    const StepItem& item = items[part.item];
    for (int64_t i = 0; i < part.count; ++i) {
      const auto behind = static_cast<size_t>(part.index + i + 1);
      tokens[part.row + i] = behind < item.tokens.size() ? item.tokens[behind] : 0;
    }
    hidden_rows_.push_back({item.sequence, part.position + part.count - 1, part.row + part.count - 1});
  }
  return loaded_->run_draft_prompt(extent, cancel);
}

std::vector<Engine::HiddenRow> Engine::rows_to_draft_from(SequenceId sequence) const {
  std::vector<HiddenRow> rows;
  for (const HiddenRow& row : hidden_rows_)
    if (row.sequence == sequence && row.position < position(sequence)) rows.push_back(row);
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.position > b.position; });
  if (!rows.empty() && rows.front().position + 1 != position(sequence)) rows.clear();
  return rows;
}

// The logits behind the first of the rows. tokens[i]: the one behind row i.
Result<std::span<const float>> Engine::run_draft(SequenceId sequence, std::span<const HiddenRow> rows,
                                                 std::span<const int32_t> tokens, const std::atomic<bool>* cancel) {
  EngineMemory& memory = loaded_->memory();
  const EngineLayout& layout = loaded_->layout();
  const auto count = static_cast<int64_t>(rows.size());
  LoadedModel::Extent extent{.tokens = count, .first = rows.back().position, .end = rows.front().position + 1};
  const int64_t batch = loaded_->batch_for(count);
  ENSURE(batch <= layout.batch && extent.end <= static_cast<int64_t>(run_of(sequence).pages().size()) * kPageSize,
         "a draft without room");
  // It may also write rows of tokens that the sequence has.
  SMELT_CHECK(prepare(sequence, position(sequence), std::max<int64_t>(0, extent.end - position(sequence))));
  for (int64_t r = 0; r < batch; ++r) {
    const auto from = static_cast<size_t>(std::min(r, count - 1));  // the last one once more, as write_padding() does
    memory.tokens()[r] = tokens[from];
    memory.rows()[r] = static_cast<int32_t>(rows[from].row);
    memory.positions()[r] = static_cast<int32_t>(rows[from].position);
    memory.tables()[r] = static_cast<int32_t>(layout.table(sequence));
  }
  SMELT_CHECK(loaded_->run_draft(batch, extent, cancel));
  return loaded_->read_logits(1);
}

Result<std::vector<int32_t>> Engine::draft(SequenceId sequence, int32_t next, int64_t most, const ChooseDraft& choose,
                                           const std::atomic<bool>* cancel) {
  std::vector<int32_t> out;
  const int64_t size = position(sequence);
  std::vector<HiddenRow> rows = rows_to_draft_from(sequence);
  most = std::min(most, context() - size);
  if (!loaded_->can_draft() || rows.empty() || most < 1) return out;
  SMELT_TRY(room, make_room(sequence, most));
  if (room != StepOutcome::Done) return out;
  hidden_rows_.clear();  // the head leaves its own there
  std::vector<int32_t> behind;
  for (const HiddenRow& row : rows)
    behind.push_back(row.position + 1 < size ? tokens(sequence)[static_cast<size_t>(row.position + 1)].id : next);
  Status status;
  while (true) {
    const auto logits = run_draft(sequence, rows, behind, cancel);
    if (!logits) status = logits.error();
    const auto chosen = logits ? choose(*logits) : std::nullopt;
    if (chosen) out.push_back(*chosen);
    if (!chosen || static_cast<int64_t>(out.size()) == most) break;
    rows = {{sequence, rows.front().position + 1, 0}};
    behind = {*chosen};
  }
  rewind(sequence, size);
  if (!status) return status.error();
  return out;
}

}  // namespace smelt
