// How much arithmetic the processor does now, and whether each thread has a core of its own.
//
// The cores of a virtual machine may be hyper-threads of one real core, and the host moves them about: two threads then
// reach no more arithmetic than one, and what was measured before and after does not compare. Nothing but measuring
// tells.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "runtime/machine_rates.h"

namespace smelt {

// What was seen of it (runtime/machine_rates.h) in a run, at one number of threads. Operations a second; 0: not
// measured.
struct ArithmeticSeen {
  int threads = 1;
  double one_thread = 0;       // the best
  double least = 0, most = 0;  // by all threads together, at different times
  double bytes = 0, unit = 0;  // by all threads, the best: products of bytes by vectors, and by the matrix unit
  double least_cores() const;  // as many times what one thread reaches
  double most_cores() const;
  void add(double one, double all);
  void add(const MeasuredRates& rates);
  void add(const ArithmeticSeen& other);
};

// "arithmetic reaches 228 GFLOP/s in f32 (2.0 times one thread), 460 GOP/s in int8", or a range where it changed.
std::string arithmetic_text(const ArithmeticSeen& seen);

// Fields of a measurement.
nlohmann::ordered_json json_of(const ArithmeticSeen& seen);

// "2 threads reach 1.0 times the arithmetic of one: they seem to share a core" where they at times had clearly less
// than a core each, or that more threads than `cores` take turns; with the line's end. Else empty.
std::string sharing_note(const ArithmeticSeen& seen, int cores);

}  // namespace smelt
