// The rows of figures of `smelt bench --block`, as tables or as data.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/arithmetic.h"
#include "app/bench_block_parts.h"
#include "app/bench_flags.h"
#include "app/bench_sample.h"
#include "app/bench_table.h"

namespace smelt {

// A part of a kind of block, or the whole block.
struct BlockRow {
  std::string block;              // BlockKind::name
  size_t layers = 1;              // of that kind
  std::optional<BlockPart> part;  // none: all of the block
  std::vector<double> seconds;    // of one block, for each run and layer
  std::vector<double> ratios;     // with --vs, of the second configuration: how many times as fast, one by one
  PartWork work;
  int launches = 0;
  int shared_launches = 0;  // those of them that work for several parts
  double share = 1;         // of the block's median time

  double bytes_per_second() const;
  double flops() const;  // per second: two for each multiply-add
};

// One test of one configuration.
struct BlockResult {
  BenchConfig config;
  BenchTest test;
  int threads = 1;
  int64_t runs = 0;
  double bandwidth = 0;  // bytes per second that this machine read in this run
  ArithmeticSeen arithmetic;
  int cores = 1;                // that the program may use
  bool emptied_caches = false;  // before each run
  int64_t bytes_between = 0;    // that are read between two uses of a block
  int64_t cache_bytes = 0;      // of the processor's caches together
  std::vector<BlockRow> rows;
};

class BlockReport {
 public:
  BlockReport(std::string form, bool versus);
  std::string begin() const;
  std::string result(const BlockResult& result);
  std::string end() const;

 private:
  std::string table(const BlockResult& result) const;

  bool is_table_, versus_;
  DataRows data_;
};

}  // namespace smelt
