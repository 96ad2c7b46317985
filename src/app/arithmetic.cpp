#include "app/arithmetic.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/bench_table.h"

namespace smelt {
namespace {

// Processors that slow down when all cores work have 0.75 to 1 of a core's arithmetic in each; two threads of one core
// have half.
constexpr double kOwnCore = 0.7;

// "1.0", or "1.0 to 2.0" where rounding does not make them one.
std::string range_text(const char* format, double least, double most) {
  const std::string from = text_of(format, least), to = text_of(format, most);
  return from == to ? to : from + " to " + to;
}

}  // namespace

double ArithmeticSeen::least_cores() const { return one_thread > 0 ? least / one_thread : 0; }
double ArithmeticSeen::most_cores() const { return one_thread > 0 ? most / one_thread : 0; }

void ArithmeticSeen::add(double one, double all) {
  one_thread = std::max(one_thread, one);
  least = least > 0 ? std::min(least, all) : all;
  most = std::max(most, all);
}

void ArithmeticSeen::add(const MeasuredRates& rates) {
  add(rates.one_thread, rates.all_threads);
  bytes = std::max(bytes, rates.byte_dots);
  unit = std::max(unit, rates.unit);
}

void ArithmeticSeen::add(const ArithmeticSeen& other) {
  bytes = std::max(bytes, other.bytes);
  unit = std::max(unit, other.unit);
  if (other.most <= 0) return;
  add(other.one_thread, other.least);
  add(other.one_thread, other.most);
}

std::string arithmetic_text(const ArithmeticSeen& seen) {
  if (seen.most <= 0) return "arithmetic was not measured";
  const std::string cores =
      seen.threads == 1 || seen.one_thread <= 0
          ? ""
          : " (" + range_text("%.1f", seen.least_cores(), seen.most_cores()) + " times one thread)";
  const auto integers = [](double rate, const char* of) {
    return rate > 0 ? text_of(", %.0f GOP/s in ", rate / 1e9) + of : std::string();
  };
  return "arithmetic reaches " + range_text("%.0f", seen.least / 1e9, seen.most / 1e9) + " GFLOP/s in f32" + cores +
         integers(seen.bytes, "int8") + integers(seen.unit, "the matrix unit");
}

nlohmann::ordered_json json_of(const ArithmeticSeen& seen) {
  return {{"flops_of_one_thread", seen.one_thread},
          {"flops_at_least", seen.least},
          {"flops_at_most", seen.most},
          {"byte_ops", seen.bytes},
          {"unit_ops", seen.unit},
          {"cores_at_least", seen.least_cores()},
          {"cores_at_most", seen.most_cores()}};
}

std::string sharing_note(const ArithmeticSeen& seen, int cores) {
  if (seen.threads > cores)
    return std::to_string(seen.threads) + text_of(" threads take turns on %d ", cores) +
           (cores == 1 ? "core" : "cores") + ": fewer are faster; figures of this run do not compare with others\n";
  if (seen.threads == 1 || seen.least <= 0) return "";
  if (seen.least_cores() >= kOwnCore * seen.threads) return "";
  const bool always = seen.most_cores() < kOwnCore * seen.threads;
  return std::to_string(seen.threads) + " threads reach " +
         text_of("%.1f times the arithmetic of one", seen.least_cores()) + (always ? ": " : " at times: ") +
         (seen.threads == 2 ? "they seem" : "some seem") + " to share a core" + (always ? "" : " then") +
         "; figures of this run do not compare with others\n";
}

}  // namespace smelt
