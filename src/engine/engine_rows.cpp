// Engine: rows of a sequence as bytes.
#include <vector>

#include "base/ensure.h"
#include "engine/engine.h"

namespace smelt {
namespace {

int64_t pages_for(int64_t tokens) { return (tokens + kPageSize - 1) / kPageSize; }

}  // namespace

Result<Engine::Pieces> Engine::pieces_of(int64_t tokens, int64_t local_pages) const {
  if (local_pages < pool_.least_held(tokens) || local_pages > pool_.most_held(tokens))
    return Error{"[engine] " + std::to_string(local_pages) + " pages of windows, where " + std::to_string(tokens) +
                 " tokens have " + std::to_string(pool_.least_held(tokens)) + " to " +
                 std::to_string(pool_.most_held(tokens))};
  const EngineMemory& memory = loaded_->memory();
  return Pieces{.tokens = tokens,
                .pages = pages_for(tokens),
                .page_bytes = memory.page_bytes(PageKind::Whole),
                .local_pages = local_pages,
                .local_page_bytes = memory.page_bytes(PageKind::Local),
                .state_bytes = memory.state_bytes()};
}

Engine::Pieces Engine::pieces(SequenceId sequence) const {
  const PageRun& run = run_of(sequence);
  const auto pieces = pieces_of(run.size(), run.end_local() - run.first_local());
  ENSURE(pieces.ok(), "a sequence holds its window");
  return *pieces;
}

Status Engine::read_piece(SequenceId sequence, int64_t piece, std::span<std::byte> bytes) {
  const Pieces all = pieces(sequence);
  const PageRun& run = run_of(sequence);
  EngineMemory& memory = loaded_->memory();
  if (piece < all.pages) return memory.read_page(PageKind::Whole, run.pages()[static_cast<size_t>(piece)], bytes);
  if (piece >= all.pages + all.local_pages) return memory.read_state(run.state(), bytes);
  return memory.read_page(PageKind::Local, pool_.local_page(run, piece - all.local_pages), bytes);
}

Status Engine::write_piece(SequenceId sequence, const Pieces& pieces, int64_t piece, std::span<const std::byte> bytes) {
  const PageRun& run = run_of(sequence);
  EngineMemory& memory = loaded_->memory();
  if (piece >= pieces.pages + pieces.local_pages) return memory.write_state(run.next_states().front(), bytes);
  const PageKind kind = piece < pieces.pages ? PageKind::Whole : PageKind::Local;
  const int32_t page = kind == PageKind::Whole ? run.pages()[static_cast<size_t>(piece)]
                                               : pool_.local_page(run, piece - pieces.local_pages);
  rows_of(kind, page) = kPageSize;
  return memory.write_page(kind, page, bytes);
}

Status Engine::restore(SequenceId sequence, std::span<const CachedToken> tokens, const Pieces& pieces,
                       const PieceSource& source) {
  ENSURE(position(sequence) == 0, "rows are restored into a sequence without tokens");
  const auto size = static_cast<int64_t>(tokens.size());
  std::vector<int32_t> ids;
  for (const CachedToken& token : tokens) ids.push_back(token.id);
  const StepItem item{.sequence = sequence, .tokens = ids};
  SMELT_CHECK(check({&item, 1}));
  SMELT_TRY(outcome, make_room(sequence, size));
  if (outcome == StepOutcome::NoRoom) return Error{"[engine] the cache has no room for these tokens"};
  pool_.begin_window(run_of(sequence), pieces.local_pages, size);
  SMELT_CHECK(reserve_window(sequence, 0, size));
  if (has_states()) pool_.reserve_states(run_of(sequence), 1);
  for (int64_t piece = 0; piece < pieces.count(); ++piece) {
    std::vector<std::byte> bytes(static_cast<size_t>(pieces.bytes(piece)));
    Status status = source(piece, bytes);
    if (status) status = write_piece(sequence, pieces, piece, bytes);
    if (status) continue;
    rewind(sequence, 0);  // gives the pages back, which are cleared before they serve others
    return status;
  }
  pool_.append(run_of(sequence), tokens);
  return {};
}

}  // namespace smelt
