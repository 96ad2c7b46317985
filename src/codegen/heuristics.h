// A good set of options at once, without timing anything.
#pragma once

#include <vector>

#include "codegen/opt.h"

namespace smelt {

// What the heuristic has to know of a machine, as plain numbers.
struct Machine {
  int lanes = 16;                   // 4-byte elements in a vector
  int registers = 32;               // vector registers
  int tasks = 64;                   // a nest should have at least this many tasks to share out
  bool byte_matrices = false;       // has an instruction for products of small matrices of bytes
  int64_t cache_bytes = 512 << 10;  // that a core may count on to find again
};

// REQUIRES: stores come from split_ranges(). A local nest gets no tasks.
std::vector<Opt> choose_opts(const Refs& stores, const Machine& machine, bool is_local);

}  // namespace smelt
