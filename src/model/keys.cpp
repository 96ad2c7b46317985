#include "model/keys.h"

#include <algorithm>
#include <cstdio>

#include "base/printable.h"

namespace smelt {
namespace {

std::string text(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%g", value);
  return buffer;
}

GgufRange range(int64_t min, int64_t max) { return {static_cast<uint64_t>(min), static_cast<uint64_t>(max)}; }

}  // namespace

Error model_error(const std::string& where, const std::string& what) { return {"[model] " + where + ": " + what}; }

std::string in_quotes(std::string_view text) { return "\"" + printable(text, 40) + "\""; }

int64_t Keys::integer(std::string_view key, int64_t min, int64_t max) {
  return keep(file_.u64(name(key), range(min, max)), min);
}

int64_t Keys::integer_or(std::string_view key, int64_t fallback, int64_t min, int64_t max) {
  return keep(file_.u64_or(name(key), static_cast<uint64_t>(fallback), range(min, max)), fallback);
}

double Keys::real(std::string_view key, double min, double max) { return real_in(file_.f64(name(key)), key, min, max); }

double Keys::real_or(std::string_view key, double fallback, double min, double max) {
  return real_in(file_.f64_or(name(key), fallback), key, min, max);
}

bool Keys::boolean_or(std::string_view key, bool fallback) {
  return keep(file_.boolean_or(name(key), fallback), fallback);
}

std::string_view Keys::string_or(std::string_view key, std::string_view fallback) {
  return keep(file_.string_or(name(key), fallback), fallback);
}

void Keys::keep_error(Error error) {
  if (!error_) error_ = std::move(error);
}

double Keys::real_in(Result<double> result, std::string_view key, double min, double max) {
  const double value = keep(std::move(result), min);
  if (!(value >= min && value <= max)) refuse(key, text(value) + " is outside " + text(min) + " .. " + text(max));
  return std::clamp(value, min, max);
}

}  // namespace smelt
