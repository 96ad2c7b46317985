#include "app/bench_contest.h"

#include "app/synthetic_shapes.h"
#include "runtime/available_memory.h"

namespace smelt {
namespace {

// A few layers tell what a block costs, and load in a moment.
constexpr int64_t kLayersForBlocks = 4;

// With --block a decoding test is one token, and synthetic models are cut short unless their name says how long they
// are.
Result<BenchFlags> for_blocks(BenchFlags flags) {
  if (!flags.both.empty()) return Error{"--block: it measures -p and -n; leave out -pg"};
  for (int64_t& n : flags.tokens) n = std::min<int64_t>(n, 1);
  flags.tokens.resize(std::min<size_t>(flags.tokens.size(), 1));
  for (std::string& name : flags.synthetic) {
    SMELT_TRY(spec, parse_synthetic(name));
    const int64_t layers = std::min(spec.model->numbers().layers, kLayersForBlocks);
    if (!spec.names_layers) name = spec.shape_name + ":" + spec.mix + ":" + std::to_string(layers);
  }
  return flags;
}

// Bytes of memory that the weights of a session take; 0 for a file that cannot be opened, which is told later.
uint64_t weights_in_memory(const BenchConfig& config) {
  if (!config.synthetic.empty()) {
    const auto spec = parse_synthetic(config.synthetic);
    return spec ? weight_bytes(*spec) : 0;
  }
  if (config.engine.no_repack) return 0;  // pages of the file, which the system may drop
  const auto file = open_model(config.engine.model);
  return file ? file->file_bytes() : 0;
}

}  // namespace

bool fit_together(const Contest& contest) {
  uint64_t bytes = 0;
  for (const BenchConfig& config : contest.configs) bytes += weights_in_memory(config);
  return contest.configs.size() == 1 || bytes <= available_memory();
}

Result<std::vector<Contest>> contests_of(const BenchFlags& given) {
  BenchFlags flags = given;
  if (flags.block) {
    SMELT_TRY(adapted, for_blocks(flags));
    flags = std::move(adapted);
  }
  SMELT_TRY(tests, tests_of(flags));
  SMELT_TRY(configs, configs_of(flags));
  std::vector<Contest> contests;
  for (const BenchConfig& config : configs) contests.push_back({{config}, tests});
  if (flags.versus.empty()) return contests;

  const std::string where = "--vs \"" + flags.versus + "\": ";
  SMELT_TRY(other, with_versus(given));
  if (flags.block) {
    SMELT_TRY(adapted, for_blocks(other));
    other = std::move(adapted);
  }
  SMELT_TRY(other_tests, tests_of(other));
  if (other_tests != tests) return Error{where + "both sides run the same tests; leave out -p, -n, -pg and -d there"};
  SMELT_TRY(others, configs_of(other));
  if (others.size() != contests.size())
    return Error{where + "it makes " + std::to_string(others.size()) + " configurations against " +
                 std::to_string(contests.size()) + "; give both sides lists of equal length"};
  for (size_t i = 0; i < others.size(); ++i) {
    others[i].label = flags.versus;
    contests[i].configs.push_back(others[i]);
    contests[i].reloads = flags.reload || !fit_together(contests[i]);
  }
  return contests;
}

}  // namespace smelt
