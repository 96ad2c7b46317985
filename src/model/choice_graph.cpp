#include "model/choice_graph.h"

#include <iterator>
#include <utility>

#include "graph/constants.h"
#include "model/block.h"

namespace smelt {
namespace {

constexpr int64_t kChunk = 1024, kGroup = 32;  // logits; a chunk has as many groups as a group has logits
constexpr int kDigitBits = 4;
constexpr int64_t kDigits = int64_t{1} << kDigitBits;

Tensor i64(Tensor x) { return cast(x, DType::I64); }
Tensor zero() { return scalar(0, DType::I64); }
Tensor only_where(Tensor condition, Tensor x) { return where(condition, x, zero()); }
Tensor count(Tensor condition, int axis) { return sum(i64(condition), axis); }
Tensor shifted(Tensor x, int bits) { return x >> static_cast<int64_t>(bits); }

// x[i] + .. + x[0] for each i along the last axis.
Tensor running_sums(Tensor x) {
  const int64_t n = x.size(-1);
  const Tensor is_before = less(unsqueeze(iota({n}, 0), 0), unsqueeze(iota({n}, 0) + 1.0, 1));  // [n, n]
  return sum(only_where(is_before, unsqueeze(x, x.rank() - 1)), -1);
}

// As in weight_of().
Tensor weights(Tensor distance, Tensor scale) {
  constexpr int kPoint = 20;
  const Tensor exponent = shifted(distance * scale, kLevelBits + kScaleBits - kPoint);
  const Tensor rest = exponent & ((int64_t{1} << kPoint) - 1);
  Tensor power = scalar(static_cast<double>(*std::rbegin(kExp2)), DType::I64);
  for (auto c = std::rbegin(kExp2) + 1; c != std::rend(kExp2); ++c)
    power = shifted(power * rest, kPoint) + static_cast<double>(*c);
  const Tensor whole = minimum(shifted(exponent, kPoint), scalar(62, DType::I64));
  return (power << static_cast<int64_t>(kWeightBits - 30)) >> whole;
}

// As in part_to_pass().
Tensor part_to_pass(Tensor sum_of_weights, Tensor random) {
  constexpr int kHalf = kRandomBits - 1;
  const Tensor high = shifted(sum_of_weights, kHalf) * random;
  const Tensor low = (sum_of_weights & ((int64_t{1} << kHalf) - 1)) * random;
  const Tensor carried = ((high & int64_t{1}) << static_cast<int64_t>(kHalf)) + shifted(low, 1);
  return shifted(high, 1) + shifted(carried, kHalf);
}

// R rows of V logits in C chunks.
class Chooser {
 public:
  explicit Chooser(Tensor logits)
      : rows_(logits.size(0)), vocabulary_(logits.size(1)), chunks_((vocabulary_ + kChunk - 1) / kChunk) {
    logits_ = in_chunks(logits);
  }

  // [R]
  Tensor greedy() {
    const Tensor finite = where(is_finite(), logits_, scalar(kLowest));
    const Tensor best = place(max(place(max(finite, 2)), 1));  // [R]
    const Tensor is_best = is_token_ & equal(finite, over_chunks(best));
    // The first one: the greatest distance from the end.
    const Tensor from_end = only_where(is_best, scalar(static_cast<double>(vocabulary_), DType::I64) - index_);
    return scalar(static_cast<double>(vocabulary_), DType::I64) - max(place(max(from_end, 2)), 1);
  }

  // How many logits are no finite numbers. [R]
  Tensor unusable() {
    const Tensor is_usable = where(is_token_, i64(is_finite()), scalar(1, DType::I64));
    return sum(place(sum(scalar(1, DType::I64) - is_usable, 2)), 1);
  }

  Tensor drawn(Tensor choices) {
    const auto number = [&](Choice c, int64_t most) {
      return squeeze(slice(choices, 1, static_cast<int64_t>(c), 1), 1) & most;
    };
    const Tensor level = cast(floor(with_level() * static_cast<double>(int64_t{1} << kLevelBits)), DType::I32);
    const Tensor best = place(max(place(max(level, 2)), 1));
    // What fills the last chunk up is as far as can be, and weighs nothing.
    const Tensor below = minimum(i64(over_chunks(best)) - i64(level), scalar(kMostDistance, DType::I64));
    distance_ = place(cast(below & kMostDistance, DType::I32));  // [R, C, n]
    const Tensor top_k = limit(i64(is_token_), number(Choice::TopK, (1 << 24) - 1));
    const Tensor likely = token_weights(scalar(static_cast<double>(scale_of(1)), DType::I64), top_k);
    const Tensor in_all = place(sum(place(sum(likely, 2)), 1));
    const Tensor share = number(Choice::TopP, (kWholeShare << 1) - 1);
    const Tensor reaching = limit(likely, shifted(in_all, kShareBits) * share);
    const Tensor top_p = where(less(share, scalar(static_cast<double>(kWholeShare), DType::I64)), reaching, top_k);
    const Tensor most = minimum(minimum(top_k, top_p), number(Choice::MinP, kMostDistance));
    return draw(token_weights(over_chunks(number(Choice::Scale, kMostScale)), most),
                number(Choice::Random, (int64_t{1} << kRandomBits) - 1));
  }

 private:
  // [R] to [R, 1, 1]
  static Tensor over_chunks(Tensor x) { return unsqueeze(unsqueeze(x, 1), 2); }
  Tensor distance() const { return i64(distance_); }

  // [R, V] to [R, C, n]; behind the last logit of a row it comes again.
  Tensor in_chunks(Tensor logits) {
    index_ = reshape(iota({chunks_ * kChunk}, 0), {1, chunks_, kChunk});
    is_token_ = expand(less(index_, scalar(static_cast<double>(vocabulary_), DType::I64)), {rows_, chunks_, kChunk});
    if (chunks_ * kChunk == vocabulary_) return reshape(logits, {rows_, chunks_, kChunk});
    const Tensor inside = minimum(index_, scalar(static_cast<double>(vocabulary_ - 1), DType::I64));
    const Tensor row = reshape(iota({rows_}, 0), {rows_, 1, 1}) * static_cast<double>(vocabulary_);
    return gather(reshape(logits, {rows_ * vocabulary_}), row + inside);
  }

  Tensor is_finite() const { return less(logits_, scalar(-kLowest)) & less(scalar(kLowest), logits_); }
  // Numbers that have a level; no numbers have the lowest one.
  Tensor with_level() const {
    const Tensor number = where(is_finite(), logits_, scalar(-kMostLogit));
    return minimum(maximum(number, scalar(-kMostLogit)), scalar(kMostLogit));
  }

  // Of tokens within a limit [R]. The scale is one for all, or one for each row.
  Tensor token_weights(Tensor scale, Tensor limit) {
    const Tensor is_kept = is_token_ & less(distance(), over_chunks(limit) + 1.0);
    return place(only_where(is_kept, weights(distance(), scale)));
  }

  // The least distance whose tokens, and those that are nearer, have together at least `need` [R] of `value`
  // [R, C, n]; the greatest one if all have not.
  Tensor limit(Tensor value, Tensor need) {
    Tensor found = expand(unsqueeze(zero(), 0), {rows_}), below = found;
    for (int shift = kDistanceBits - kDigitBits; shift >= 0; shift -= kDigitBits) {
      const Tensor so_far = shifted(distance(), shift + kDigitBits);
      const Tensor counts = only_where(equal(so_far, over_chunks(found)), value);
      const Tensor digit = shifted(distance(), shift) & (kDigits - 1);
      const Tensor is_digit = equal(unsqueeze(digit, 3), iota({kDigits}, 0));         // [R, C, n, digits]
      const Tensor sums = place(sum(only_where(is_digit, unsqueeze(counts, 3)), 2));  // [R, C, digits]
      const Tensor all = place(sum(sums, 1));                                         // [R, digits]
      const Tensor reached = running_sums(all) + unsqueeze(below, 1);                 // [R, digits]
      const Tensor next = minimum(count(less(reached, unsqueeze(need, 1)), 1), scalar(kDigits - 1, DType::I64));
      below = place(below + sum(only_where(less(iota({kDigits}, 0), unsqueeze(next, 1)), all), 1));
      found = place(found * static_cast<double>(kDigits) + next);
    }
    return found;
  }

  // The first token at which the weights [R, C, n] add up to more than a random part of all.
  Tensor draw(Tensor weight, Tensor random) {
    const Tensor grouped = reshape(weight, {rows_, chunks_, kGroup, kGroup});
    const Tensor groups = place(sum(grouped, 3));  // [R, C, groups]
    const Tensor chunks = place(sum(groups, 2));   // [R, C]
    const Tensor pass = part_to_pass(sum(chunks, 1), random);
    const auto [chunk, in_chunk] = find(chunks, pass);
    const auto [group, in_group] = find(rows_of(reshape(groups, {rows_ * chunks_, kGroup}), chunk, chunks_), in_chunk);
    const Tensor place_of = chunk * static_cast<double>(kGroup) + group;
    const Tensor last = rows_of(reshape(weight, {rows_ * chunks_ * kGroup, kGroup}), place_of, chunks_ * kGroup);
    return place_of * static_cast<double>(kGroup) + find(last, in_group).first;
  }

  // Row `index` [R] of as many rows as each of R has.
  Tensor rows_of(Tensor x, Tensor index, int64_t each) const {
    return gather(x, iota({rows_}, 0) * static_cast<double>(each) + index);
  }

  // Where the sums of x [R, n] pass a number [R], and what is left of it there.
  std::pair<Tensor, Tensor> find(Tensor x, Tensor pass) const {
    const Tensor found = count(less(running_sums(x), unsqueeze(pass + 1.0, 1)), 1);
    const Tensor before = sum(only_where(less(iota({x.size(1)}, 0), unsqueeze(found, 1)), x), 1);
    return {place(found), place(pass - before)};
  }

  int64_t rows_, vocabulary_, chunks_;
  Tensor logits_, index_, is_token_;  // [R, C, n]
  Tensor distance_;
};

}  // namespace

Segment choice_graph(int64_t rows, int64_t vocabulary, ChoiceKind kind) {
  Slots slots;
  const Tensor logits = slots.input(Bound::Logits, DType::F32, {rows, vocabulary}, "logits");
  Chooser chooser(logits);
  Tensor token = chooser.greedy();
  if (kind == ChoiceKind::Drawn) {
    const Tensor choices = slots.input(Bound::Choices, DType::I64, {rows, kChoiceNumbers}, "choices");
    const Tensor is_greedy = squeeze(slice(choices, 1, static_cast<int64_t>(Choice::IsGreedy), 1), 1);
    token = where(equal(is_greedy, zero()), chooser.drawn(choices), token);
  }
  const Tensor both = where(equal(unsqueeze(iota({2}, 0), 1), zero()), token, chooser.unusable());  // [2, R]
  return std::move(slots).finish({slots.output(Bound::Chosen, cast(both, DType::I32))});
}

}  // namespace smelt
