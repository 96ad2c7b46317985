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
  int64_t width = 0;  // values of a head that are rotated
  double base = 10000;
  RopeScaling scaling = RopeScaling::None;
  double factor = 1;
  int64_t original_context = 0;
  double beta_fast = 32, beta_slow = 1;  // turns within original_context where the ramp begins and ends
  double log_multiplier = 0;             // see attention_scale() and magnitude()
  std::vector<double> divisors = {};     // of each pair's frequency, width / 2; empty: all 1

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

// A row for each position, which a plan looks up: `value(position, column)`, in double.
struct PositionTable {
  std::string name;
  int64_t width = 0;
  std::vector<double> frequencies;  // of each column, in radians per position
  double magnitude = 1;
  double (*curve)(double angle) = nullptr;

  std::vector<float> rows(int64_t positions) const;
};

// "cos" and "sin": what rotate_pairs() and rotate_halves() look up.
std::vector<PositionTable> rope_tables(const RopeParameters& rope);

// Rows of these for each token: f32 [T, width / 2].
struct Angles {
  Tensor cos, sin;
};

// x [T, heads, width]: each pair of values turns by its angle. Files of a model have their rows in the order of one of
// the two.
Tensor rotate_pairs(Tensor x, const Angles& at);   // (0, 1), (2, 3), ...
Tensor rotate_halves(Tensor x, const Angles& at);  // (0, width / 2), (1, width / 2 + 1), ...

}  // namespace smelt
