#include "codegen/known_bounds.h"

#include <algorithm>

#include "base/machine.h"
#include "codegen/instruction_views.h"

namespace smelt {
namespace {

class Finder {
 public:
  Finder(const Program& program, bool has_its_blocks)
      : program_(program), blocks_(has_its_blocks ? program.blocks : 0) {
    bounds_.reserve(program.code.size());
    for (const Instruction& x : program.code) bounds_.push_back(of(x));
  }
  std::vector<Bounds> take() { return std::move(bounds_); }

 private:
  const Bounds& source(const Instruction& x, size_t k) const { return bounds_[static_cast<size_t>(x.src[k])]; }

  Bounds of(const Instruction& x) const {
    if (!is_int(x.dtype) && x.dtype != DType::Bool) return kNoBounds;
    switch (x.kind) {
      case Inst::Value: return of_value(x);
      case Inst::Symbol: return given_bounds(x);
      case Inst::Part: return of_part(part_value(x));
      case Inst::LaneIndex: return {0, x.lanes - 1};
      case Inst::ThreadIndex: return {0, program_.threads - 1};
      case Inst::Shuffle:
      case Inst::WarpItem: return source(x, 0);
      case Inst::Loop: return of_index(x);
      default: return limits_of(x.dtype);
    }
  }

  Bounds of_part(PartValue value) const {
    switch (value) {
      case PartValue::Index: return {0, (blocks_ > 0 ? blocks_ : kMostParts) - 1};
      case PartValue::Count: return blocks_ > 0 ? Bounds{blocks_, blocks_} : Bounds{1, kMostParts};
      case PartValue::Begins: return {0, 1};
    }
    return kNoBounds;
  }

  Bounds of_value(const Instruction& x) const {
    Bounds src[3];
    for (size_t k = 0; k < x.src.size(); ++k) src[k] = source(x, k);
    return bounds_of(x.op, x.dtype, x.arg, {src, x.src.size()});
  }

  // There is an index only where the loop has rounds.
  Bounds of_index(const Instruction& loop) const {
    const Bounds within = LoopView(loop).within;
    const int64_t begin = std::max(source(loop, 0).min, within.min), end = std::min(source(loop, 1).max, within.max);
    return {begin, std::max(begin, end == kNoBounds.min ? end : end - 1)};
  }

  const Program& program_;
  const int64_t blocks_;  // of a launch; 0: any number
  std::vector<Bounds> bounds_;
};

}  // namespace

std::vector<Bounds> known_bounds(const Program& program, bool has_its_blocks) {
  return Finder(program, has_its_blocks).take();
}

bool has_one_round(const Instruction& loop, const std::vector<Bounds>& bounds) {
  const LoopView view(loop);
  const auto of = [&](int position) { return bounds[static_cast<size_t>(position)]; };
  return is_condition(loop) || (of(view.begin) == Bounds{0, 0} && of(view.end).max <= 1);
}

bool never_wraps(const Instruction& value, const Program& program, const std::vector<Bounds>& bounds) {
  if (value.kind != Inst::Value || !is_int(value.dtype)) return false;
  Bounds src[3];
  for (size_t k = 0; k < value.src.size(); ++k) {
    const auto at = static_cast<size_t>(value.src[k]);
    if (!is_int(program.code[at].dtype)) return false;
    src[k] = bounds[at];
  }
  return fits(exact_bounds(value.op, value.arg, {src, value.src.size()}), value.dtype);
}

}  // namespace smelt
