// Engine: rows of a sequence as bytes.
#include <vector>

#include "base/ensure.h"
#include "engine/engine.h"

namespace smelt {

Status Engine::read_page(SequenceId sequence, int64_t index, std::span<std::byte> rows) {
  const std::span<const int32_t> pages = run_of(sequence).pages();
  ENSURE(index >= 0 && index < static_cast<int64_t>(pages.size()), "a page that the sequence does not have");
  return loaded_->memory().read_page(pages[static_cast<size_t>(index)], rows);
}

Status Engine::read_state(SequenceId sequence, std::span<std::byte> bytes) {
  return loaded_->memory().read_state(run_of(sequence).state(), bytes);
}

Status Engine::restore_state(SequenceId sequence, const PageSource& source) {
  if (!has_states()) return {};
  std::vector<std::byte> state(static_cast<size_t>(state_bytes()));
  pool_.reserve_state(run_of(sequence));
  SMELT_CHECK(source(std::ssize(run_of(sequence).pages()), state));
  return loaded_->memory().write_state(run_of(sequence).next_state(), state);
}

Status Engine::restore(SequenceId sequence, std::span<const CachedToken> tokens, const PageSource& source) {
  ENSURE(position(sequence) == 0, "rows are restored into a sequence without tokens");
  std::vector<int32_t> ids;
  for (const CachedToken& token : tokens) ids.push_back(token.id);
  const StepItem item{.sequence = sequence, .tokens = ids};
  SMELT_CHECK(check({&item, 1}));
  SMELT_TRY(outcome, make_room(sequence, static_cast<int64_t>(tokens.size())));
  if (outcome == StepOutcome::NoRoom) return Error{"[engine] the cache has no room for these tokens"};
  const std::span<const int32_t> pages = run_of(sequence).pages();
  std::vector<std::byte> rows(static_cast<size_t>(page_bytes()));
  for (size_t index = 0; index < pages.size(); ++index) {
    Status status = source(static_cast<int64_t>(index), rows);
    if (status) status = loaded_->memory().write_page(pages[index], rows);
    if (status) continue;
    rewind(sequence, 0);  // gives the pages back, which are cleared before they serve others
    return status;
  }
  if (const Status restored = restore_state(sequence, source); !restored) {
    rewind(sequence, 0);
    return restored;
  }
  pool_.append(run_of(sequence), tokens);
  return {};
}

}  // namespace smelt
