// The integers of a program that follow from its symbols alone, as the only worker of all sees them in the first round
// of every loop: the trip counts of loops.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/program.h"

namespace smelt {

class KnownIntegers {
 public:
  // REQUIRES: the program outlives it.
  KnownIntegers(const Program& program, const std::map<std::string, int64_t>& symbols);

  // Of a loop of the program. None: its bounds follow from values in memory.
  std::optional<double> rounds(const Instruction& loop) const;

 private:
  std::optional<int64_t> of(int i) const { return values_[static_cast<size_t>(i)]; }
  std::optional<int64_t> value_of(const Instruction& i, const std::map<std::string, int64_t>& symbols) const;

  const Program& program_;
  std::vector<std::optional<int64_t>> values_;  // by instruction
};

}  // namespace smelt
