#include "codegen/linearize.h"

#include <algorithm>
#include <map>

#include "codegen/nest_emitter.h"
#include "schedule/tiles.h"

namespace smelt {
namespace {

// How many of the first nests run together.
size_t size_of_tile(std::span<const ExpandedNest> nests) {
  const Refs ranges = tile_ranges_of(nests[0]);
  size_t n = 1;
  const auto goes_alone = [&](size_t i) { return goes_in_passes(nests[i].stores[0]); };
  if (!ranges.empty() && !goes_alone(0))
    while (n < nests.size() && tile_ranges_of(nests[n]) == ranges && !goes_alone(n)) ++n;
  return n;
}

}  // namespace

Program linearize(std::span<const ExpandedNest> nests, std::string name,
                  std::vector<std::string> symbols) {
  Program program{.name = std::move(name), .symbols = std::move(symbols)};
  std::map<int64_t, int64_t> scratch;
  Code code;
  int next_id = 0;
  while (!nests.empty()) {
    const auto tile = nests.first(size_of_tile(nests));
    nests = nests.subspan(tile.size());
    Code part = NestEmitter(tile, program.symbols, scratch, program.scratch_bytes, next_id).run();
    code.insert(code.end(), std::make_move_iterator(part.begin()),
                std::make_move_iterator(part.end()));
  }
  std::vector<int> position(next_id, -1);
  for (size_t i = 0; i < code.size(); ++i) position[code[i].id] = static_cast<int>(i);
  for (Emitted& e : code) {
    for (int& s : e.instruction.src) s = position[s];
    if (e.instruction.kind == Inst::Buffer)
      program.buffers = std::max(program.buffers, static_cast<int>(e.instruction.arg.i) + 1);
    program.code.push_back(std::move(e.instruction));
  }
  return program;
}

}  // namespace smelt
