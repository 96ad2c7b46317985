#include "model/norm.h"

namespace smelt {

Tensor normalised(Tensor x, double epsilon, Line line) {
  const AtLine at(line);
  const Tensor mean = sum(x * x, -1) * (1.0 / static_cast<double>(x.size(-1)));
  return x * unsqueeze(scalar(1) / sqrt(mean + epsilon), mean.rank());
}

Tensor rms_norm(Tensor x, Tensor w, double epsilon, Line line) {
  const AtLine at(line);
  return normalised(x, epsilon) * w;
}

}  // namespace smelt
