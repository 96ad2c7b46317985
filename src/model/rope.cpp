#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/rules_algebra.h"
#include "model/tensor_shape.h"

namespace smelt {
namespace {

// The pair whose angle makes `turns` turns within the original context.
double pair_with_turns(const RopeParameters& r, double turns) {
  return static_cast<double>(r.width) * std::log(static_cast<double>(r.original_context) / (turns * 2 * M_PI)) /
         (2 * std::log(r.base));
}

// How much of each pair's frequency is divided by the factor, 0 to 1.
std::vector<double> stretched(const RopeParameters& r) {
  std::vector<double> share(static_cast<size_t>(r.width / 2), r.scaling == RopeScaling::Linear ? 1 : 0);
  if (r.scaling != RopeScaling::Yarn || r.factor <= 1) return share;
  const double low = std::max(std::floor(pair_with_turns(r, r.beta_fast)), 0.0);
  double high = std::min(std::ceil(pair_with_turns(r, r.beta_slow)), static_cast<double>(r.width) - 1);
  if (high <= low) high = low + 0.001;
  for (size_t i = 0; i < share.size(); ++i)
    share[i] = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
  return share;
}

// Angle per position of each pair.
std::vector<double> frequencies(const RopeParameters& r, const std::vector<double>& divisors) {
  std::vector<double> result = stretched(r);
  for (size_t i = 0; i < result.size(); ++i) {
    const double plain = std::pow(r.base, -2.0 * static_cast<double>(i) / static_cast<double>(r.width)) /
                         (divisors.empty() ? 1 : divisors[i]);
    result[i] = plain * (1 - result[i]) + plain / r.factor * result[i];
  }
  return result;
}

// x [T, heads, parts..., a, b]; the two values of a pair lie along one of the last two axes, whose size is 2.
// -> shape(x)
Tensor turn(Tensor x, bool halves, const Angles& at) {
  // -1, 1: the second value of a pair is subtracted from the first.
  Tensor sign = cast(iota({2}, 0), DType::F32) * 2.0 - 1.0;
  if (halves) sign = unsqueeze(sign, 1);  // in front of the angles
  const int axis = x.rank() - (halves ? 2 : 1);
  std::vector<Dim> per_pair = {x.dim(0), 1};
  for (int k = 2; k < x.rank(); ++k) per_pair.push_back(k == axis ? Dim(1) : x.dim(k));
  return x * reshape(at.cos, per_pair) + flip(x, axis) * (reshape(at.sin, per_pair) * sign);
}

// Halves of a part that does not divide the head, as of 96 of 128 values: every value looks its partner and its angle
// up. x [T, heads, n], angles [T, n / 2], of which those from `width` / 2 on are 0.
Tensor turn_part(Tensor x, int64_t width, const Angles& at) {
  const int64_t n = x.size(2), half = width / 2;
  const Dim heads = simplify(x.dim(0) * x.dim(1));
  const auto number = [](int64_t value) { return scalar(static_cast<double>(value), DType::I64); };
  const Tensor i = iota({n}, 0), is_first = less(i, number(half)), turns = less(i, number(width));
  const Tensor partner = where(turns, where(is_first, i + double(half), i - double(half)), i);
  const Tensor index = unsqueeze(iota({heads}, 0) * double(n), 1) + unsqueeze(partner, 0);  // [T heads, n]
  const Tensor flat = place(reshape(x, {simplify(heads.ref * n)}));
  const Tensor other = reshape(gather(flat, index), {x.dim(0), x.dim(1), n});
  const Tensor column = where(turns, i % half, number(half));
  const auto of_value = [&](Tensor table) {  // [T, 1, n]
    return unsqueeze(permute(gather(permute(table, {1, 0}), column), {1, 0}), 1);
  };
  const Tensor sign = where(is_first, scalar(-1), scalar(1));
  return x * of_value(at.cos) + other * (of_value(at.sin) * sign);
}

}  // namespace

double RopeParameters::attention_scale() const {
  const double scale = 1 + log_multiplier * std::log(factor);
  return scale * scale;
}

double RopeParameters::magnitude() const {
  const bool is_yarn = scaling == RopeScaling::Yarn && log_multiplier == 0;
  return attention_factor * (is_yarn ? 1 + 0.1 * std::log(factor) : 1);
}

RopeParameters read_rope(Keys& keys, int64_t width, int64_t context) {
  RopeParameters r{.width = width, .base = keys.real_or("rope.freq_base", 10000, 1.001, 1e15)};
  const std::string_view scaling = keys.string_or("rope.scaling.type", "none");
  if (scaling == "none") return r;
  if (scaling != "yarn" && scaling != "linear") {
    keys.refuse("rope.scaling.type", in_quotes(scaling) + " is not supported; none, linear and yarn are");
    return r;
  }
  r.factor = keys.real("rope.scaling.factor", 1, 1e6);
  r.scaling = scaling == "yarn" ? RopeScaling::Yarn : RopeScaling::Linear;
  if (r.scaling == RopeScaling::Linear) return r;
  r.original_context = keys.integer_or("rope.scaling.original_context_length", context, 1, kMostContext);
  r.beta_fast = keys.real_or("rope.scaling.yarn_beta_fast", 32, 1e-3, 1e6);
  r.beta_slow = keys.real_or("rope.scaling.yarn_beta_slow", 1, 1e-3, 1e6);
  r.log_multiplier = keys.real_or("rope.scaling.yarn_log_multiplier", 0, 0, 10);
  return r;
}

void write_rope(KeyWriter& out, const RopeParameters& r) {
  out.number("rope.dimension_count", r.width);
  out.real("rope.freq_base", r.base);
  if (r.attention_factor != 1) out.real("rope.scaling.attn_factor", r.attention_factor);
  if (r.scaling == RopeScaling::None) return;
  out.text("rope.scaling.type", r.scaling == RopeScaling::Yarn ? "yarn" : "linear");
  out.real("rope.scaling.factor", r.factor);
  if (r.scaling != RopeScaling::Yarn) return;
  out.number("rope.scaling.original_context_length", r.original_context);
  out.real("rope.scaling.yarn_beta_fast", r.beta_fast);
  out.real("rope.scaling.yarn_beta_slow", r.beta_slow);
  out.real("rope.scaling.yarn_log_multiplier", r.log_multiplier);
}

int64_t read_rope_width(Keys& keys, int64_t fallback) {
  const int64_t width = fallback ? keys.integer_or("rope.dimension_count", fallback, 2, 1 << 16)
                                 : keys.integer("rope.dimension_count", 2, 1 << 16);
  if (width % 2) keys.refuse("rope.dimension_count", std::to_string(width) + " is odd; rotation works on pairs");
  return width;
}

Result<std::vector<double>> read_divisors(const GgufFile& file, const std::string& name, int64_t pairs) {
  const GgufTensor* tensor = file.find(name);
  if (!tensor) return std::vector<double>();
  SMELT_CHECK(check_tensors(file, "", {{name, {}, pairs}}));
  if (tensor->type != GgufType::F32)
    return model_error(name, std::string(name_of(tensor->type)) + " is not supported; F32 is");
  std::vector<double> divisors;
  for (int64_t i = 0; i < pairs; ++i) {
    float value;
    std::memcpy(&value, tensor->data + static_cast<size_t>(i) * sizeof value, sizeof value);
    if (!std::isfinite(value) || value <= 0)
      return model_error(name, "value " + std::to_string(i) + " is " + std::to_string(value) + ", not above 0");
    divisors.push_back(value);
  }
  return divisors;
}

std::vector<float> PositionTable::rows(int64_t positions, int64_t context) const {
  const bool is_long = !long_frequencies.empty() && context > original_context;
  std::vector<float> values;
  values.reserve(static_cast<size_t>(positions * width));
  const std::vector<double>& used = is_long ? long_frequencies : frequencies;
  for (int64_t position = 0; position < positions; ++position)
    for (int64_t i = 0; i < width; ++i) {
      const double angle = static_cast<double>(position) * used[static_cast<size_t>(i)];
      values.push_back(static_cast<float>((i < rotated ? magnitude : 1) * curve(angle)));
    }
  return values;
}

std::vector<PositionTable> rope_tables(const RopeParameters& r, int64_t head_width, const std::string& suffix) {
  const auto columns = static_cast<size_t>(std::max(r.width, head_width) / 2);
  const auto with = [&](const std::vector<double>& divisors) {
    std::vector<double> all = frequencies(r, divisors);
    all.resize(columns, 0);
    return all;
  };
  const std::vector<double> beyond = r.long_divisors.empty() ? std::vector<double>() : with(r.long_divisors);
  const auto table = [&](const std::string& name, double (*curve)(double)) {
    return PositionTable{.name = name + suffix,
                         .width = static_cast<int64_t>(columns),
                         .frequencies = with(r.divisors),
                         .magnitude = r.magnitude(),
                         .rotated = r.width / 2,
                         .curve = curve,
                         .long_frequencies = beyond,
                         .original_context = r.original_context};
  };
  return {table("cos", [](double x) { return std::cos(x); }), table("sin", [](double x) { return std::sin(x); })};
}

Tensor rotate(Tensor x, const Angles& at, RopeOrder order, int64_t rope_width) {
  const int64_t n = x.size(2);
  const bool halves = order == RopeOrder::Halves;
  if (halves && n % rope_width != 0) return turn_part(x, rope_width, at);
  std::vector<Dim> shape = {x.dim(0), x.dim(1)};
  if (halves && rope_width < n) shape.push_back(n / rope_width);
  const int64_t part = halves ? rope_width : n;
  shape.insert(shape.end(), {Dim(halves ? 2 : part / 2), Dim(halves ? part / 2 : 2)});
  return reshape(turn(reshape(x, shape), halves, at), {x.dim(0), x.dim(1), x.dim(2)});
}

}  // namespace smelt
