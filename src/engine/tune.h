// Tune: a beam search over the options of one kernel.
//
//   starting points: the heuristic's options, those it has for machines somewhat like this one, those found before
//   then, over and over: the neighbours of the best few (tune_moves.h) - how long each should take (tune_estimate.h) -
//   the promising ones compiled - compared with the reference (tune_judge.h) - timed in turns with the heuristic's
//   kernel, weights cold (tune_bench.h)
//   at last: the best few against the heuristic's once more, with many more rounds
//
// Nests of a kernel are searched together: a step changes one of them. The same search goes over a kernel whose weights
// lie in another layout: it is judged by, and timed in turns with, the kernel over the weights as they are
// (tune_layout.h).
#pragma once

#include <atomic>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/codegen.h"
#include "engine/tune_site.h"
#include "runtime/device.h"

namespace smelt {

struct TuneLimits {
  double seconds = 60;
  int compiled = std::numeric_limits<int>::max();  // candidates; a batch may go beyond
  int beam = 4;                                    // lists of options whose neighbours are looked at
  int generation = 24;                             // neighbours of a beam that are compiled at most
  double gain = 0.02;                              // that a kernel must at least be faster by
};

struct TuneCounts {
  int considered = 0;  // lists of options
  int hopeless = 0;    // left out by the estimate
  int compiled = 0;
  int wrong = 0;  // disagreed with the reference
};

// A list of options whose program was looked at.
struct TuneTrial {
  std::string options;  // as to_string() has them
  int parent = -1;      // the trial before it of which it is a neighbour; none: a starting point
  int generation = 0;   // 0: a starting point
  double estimate_us = 0;
  double ratio = 0;       // its time over the heuristic's, both of one batch; 0: not timed
  double last_ratio = 0;  // the same, of the last comparison; 0: not among the last
  std::string problem;    // how it disagreed with the reference; else empty
};

struct TuneOutcome {
  KernelOpts before, after;            // the heuristic's, and the best found
  double before_us = 0, after_us = 0;  // of the last comparison: see typical_of()
  uint64_t program = 0;                // program_hash() of the best
  bool improved = false;
  uint64_t kernel = 0;  // kernel_hash() of what was searched
  double floor_us = 0;  // what memory alone would take
  TuneCounts counts;
  std::vector<std::string> wrong;  // of candidates that disagreed: options and where
  size_t judged_elements = 0;      // by the interpreter
  bool interrupted = false;
  std::vector<TuneTrial> trials;  // in the order in which they were met
  int winner = -1;                // of these; none: the kernel stays
};

struct TuneRequest {
  const TuneSite& site;
  // The same kernel with the same inputs and outputs, over weights in the layout that they have now; null: `site`. What
  // was found is then the best of `site`, faster or not.
  const TuneSite* now = nullptr;
  Device& device;                 // one of its own, so that the code of candidates goes when the search is over
  double bytes_per_second = 0;    // that memory gives to all threads
  std::vector<KernelOpts> known;  // found before: taken as starting points where they fit
  TuneLimits limits;
  const std::atomic<bool>* cancel = nullptr;  // stop, and give what was found
  std::function<void(double fraction)> progress = {};
};

// An Error if the kernel cannot be judged, or is wrong before it is tuned. Otherwise what was found, which agreed with
// the reference and is the same for every number of workers; `improved` says whether it is worth keeping.
Result<TuneOutcome> tune_kernel(const TuneRequest& request);

}  // namespace smelt
