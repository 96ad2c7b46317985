// Rotary positions: the angle of each pair of values, and the rotation.
#pragma once

#include <string>
#include <vector>

#include "graph/tensor.h"
#include "model/keys.h"

namespace smelt {

// How the frequencies are stretched for contexts longer than the original one.
enum class RopeScaling {
  None,
  Linear,  // all are divided by `factor`
  Yarn,    // low ones are divided by `factor`, high ones are kept, a ramp in between
};

struct RopeParameters {
  int64_t width = 0;  // values of a head that are rotated, its first ones
  double base = 10000;
  RopeScaling scaling = RopeScaling::None;
  double factor = 1;
  int64_t original_context = 0;
  double beta_fast = 32, beta_slow = 1;    // turns within original_context where the ramp begins and ends
  double log_multiplier = 0;               // see attention_scale() and magnitude()
  std::vector<double> divisors = {};       // of each pair's frequency, width / 2; empty: all 1
  std::vector<double> long_divisors = {};  // in their place where a run is made for more than original_context
  double attention_factor = 1;             // cos and sin are multiplied by it, too

  // YaRN makes scores steeper, in one of two ways. Models with a log multiplier multiply them by this,
  double attention_scale() const;
  // others multiply what was rotated: cos and sin.
  double magnitude() const;
};

// `context`: what the model was made for.
RopeParameters read_rope(Keys& keys, int64_t width, int64_t context);
void write_rope(KeyWriter& out, const RopeParameters& rope);
// rope.dimension_count, which has to be even. 0 as `fallback`: the key is required.
int64_t read_rope_width(Keys& keys, int64_t fallback = 0);
// The divisors of `pairs` frequencies that a converter has left in a tensor; empty where the file has none of it.
Result<std::vector<double>> read_divisors(const GgufFile& file, const std::string& name, int64_t pairs);

// A row for each position, which a plan looks up: `value(position, column)`, in double.
struct PositionTable {
  std::string name;
  int64_t width = 0;
  std::vector<double> frequencies;  // of each column, in radians per position
  double magnitude = 1;             // of the first `rotated` columns; that of others is 1
  int64_t rotated = 0;
  double (*curve)(double angle) = nullptr;
  std::vector<double> long_frequencies = {};  // for contexts of more than `original_context`; empty: the same
  int64_t original_context = 0;

  // `context`: of the run, without positions for padding.
  std::vector<float> rows(int64_t positions, int64_t context = 0) const;
};

// "cos" and "sin", with a suffix where a model has several: what rotate() looks up, for heads of `head_width` values
// (0: all of them are rotated). Pairs beyond the rotated ones have angle 0.
std::vector<PositionTable> rope_tables(const RopeParameters& rope, int64_t head_width = 0,
                                       const std::string& suffix = "");

// Rows of these for each token: f32 [T, n / 2].
struct Angles {
  Tensor cos, sin;
};

// Which values of a head make a pair: files of a model have their rows in the order of one of the two.
enum class RopeOrder {
  Pairs,   // (0, 1), (2, 3), ...
  Halves,  // (0, width / 2), (1, width / 2 + 1), ...
};

// x [T, heads, n]: each pair of values turns by its angle; `rope_width` values are rotated, which is fastest where that
// divides n.
Tensor rotate(Tensor x, const Angles& at, RopeOrder order, int64_t rope_width);
inline Tensor rotate(Tensor x, const Angles& at, RopeOrder order) { return rotate(x, at, order, x.size(-1)); }

}  // namespace smelt
