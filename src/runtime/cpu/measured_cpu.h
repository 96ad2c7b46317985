// MeasuredCpu: what the name of a processor does not tell. Measured once, in less than a second, and kept in the cache
// folder; another processor, microcode or number of cores measures anew.
//
// Options of kernels rest on it, and with them what is in the kernel cache and what `smelt tune` has found. So figures
// are rounded, ties keep the default, and nothing is measured where it cannot be kept. Sums of kernels do not depend on
// it: logits have the same bits.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/machine.h"
#include "base/result.h"

namespace smelt {

struct MeasuredCpu {
  int64_t streams = 1;  // as in base/machine.def, all five
  int64_t stream_ahead_bytes = 0;
  double processor_bandwidth = 0;  // 0: not measured
  double bandwidth = 0;
  double barrier_seconds = 0;
  bool operator==(const MeasuredCpu&) const = default;

  void apply_to(Machine& machine) const;
};

// Seconds of reading the same bytes in a way that a number stands for, of streams or of bytes ahead: the least of each
// half of the runs.
struct ReadTimes {
  int64_t number = 1;
  std::array<double, 2> seconds = {};
};

// The number that is clearly fastest in both halves; else the `expected` one, unless it is slower than the first.
// REQUIRES: not empty, in rising order.
int64_t fastest_number(const std::vector<ReadTimes>& times, int64_t expected);

// Of the cores of this machine that the program may use, in some tenths of a second.
MeasuredCpu measure_cpu();

// The machine that figures belong to, in one line.
std::string cpu_identity();

// --- what is kept

std::string format_measured(const MeasuredCpu& measured, std::string_view identity);
// Nothing if the text is damaged, or belongs to another machine.
std::optional<MeasuredCpu> parse_measured(std::string_view text, std::string_view identity);

// What `folder` holds for this identity; else what `measure` gives, which then lies there. Nothing is measured without
// a folder.
MeasuredCpu kept_or_measured(const std::string& folder, const std::string& identity,
                             const std::function<MeasuredCpu()>& measure);

// Of this machine: kept in the cache folder, or measured now and kept. Found out once per process.
const MeasuredCpu& measured_cpu();
// Measures this machine again and keeps that. An Error if it cannot be kept. REQUIRES: measured_cpu() was not asked
// for.
Status measure_cpu_again();

}  // namespace smelt
