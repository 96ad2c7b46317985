#include "graph/rule_check.h"

#include <cmath>
#include <cstdio>
#include <random>

#include "graph/eval.h"
#include "graph/scalar_math.h"
#include "graph/text.h"

namespace smelt {
namespace {

using pattern::Domain;
using pattern::Pat;
using pattern::PatNode;

void collect_variables(const Pat& pat, std::vector<const PatNode*>& variables) {
  if (pat->id >= 0) variables.push_back(pat.get());
  for (const Pat& s : pat->src) collect_variables(s, variables);
}

// A dtype that all variables but the boolean ones can have; Bool where there are only those.
std::optional<DType> random_dtype(const std::vector<const PatNode*>& variables, std::mt19937_64& random) {
  static constexpr DType kAll[] = {DType::Bool, DType::I8,  DType::U8,  DType::I16,  DType::U16, DType::I32,
                                   DType::U32,  DType::I64, DType::F16, DType::BF16, DType::F32, DType::F64};
  std::vector<DType> possible;
  for (DType dtype : kAll) {
    bool fits = true, asked = false;
    for (const PatNode* v : variables) {
      if (v->kind == PatNode::Kind::constant) fits = fits && !is_float(dtype);
      if (v->kind == PatNode::Kind::constant || v->domain == Domain::boolean) continue;
      asked = true;
      fits = fits && in_domain(v->domain, dtype);
    }
    if (fits && (asked || dtype == DType::Bool)) possible.push_back(dtype);
  }
  if (possible.empty()) return std::nullopt;
  return possible[random() % possible.size()];
}

Ref random_number(DType dtype, std::mt19937_64& random) {
  if (is_float(dtype)) {
    double value = static_cast<double>(static_cast<int64_t>(random() % 4001) - 2000) / 16;
    return constant_f(round_to(value, dtype), dtype);
  }
  switch (random() % 4) {
    case 0: return constant(wrap(static_cast<int64_t>(random()), dtype), dtype);
    case 1: return constant(random() % 2 ? lowest_int(dtype) : highest_int(dtype), dtype);
    default: return constant(wrap(static_cast<int64_t>(random() % 24) - 8, dtype), dtype);
  }
}

bool same_value(Scalar x, Scalar y, DType dtype) {
  return is_float(dtype) ? x.f == y.f || (std::isnan(x.f) && std::isnan(y.f)) : x.i == y.i;
}

enum class Outcome { unfit, equal, different };

struct Sample {
  Outcome outcome;
  std::string text = "";  // how they differ
};

Sample try_once(const Rule& rule, const std::vector<const PatNode*>& variables, std::mt19937_64& random) {
  auto dtype = random_dtype(variables, random);
  if (!dtype) return {Outcome::unfit};
  Match match;
  for (const PatNode* v : variables)
    if (!match.at(v->id)) match.bind(v->id, random_number(v->domain == Domain::boolean ? DType::Bool : *dtype, random));
  if (rule.condition && !(*rule.condition)(match)) return {Outcome::unfit};
  Ref left = instantiate(rule.left, match, *dtype);
  auto expected = eval_scalar(left, {});
  Ref right = expected ? instantiate(*rule.right.pat, match, left->dtype) : Ref();
  if (!right) return {Outcome::unfit};
  auto found = eval_scalar(right, {});
  if (found && right->dtype == left->dtype && same_value(*expected, *found, left->dtype)) return {Outcome::equal};
  return {Outcome::different,
          to_infix(left) + " is not " + to_infix(right) + " at " + std::string(name_of(left->dtype))};
}

std::string disagreement(const Rule& rule, int samples, std::mt19937_64& random) {
  std::vector<const PatNode*> variables;
  collect_variables(rule.left, variables);
  int equal = 0;
  for (int n = 0; n < samples; ++n) {
    Sample sample = try_once(rule, variables, random);
    if (sample.outcome == Outcome::different) return rule.name + ": " + sample.text + "\n";
    equal += sample.outcome == Outcome::equal;
  }
  return equal ? "" : rule.name + ": no random input fits it\n";
}

}  // namespace

std::string disagreement_on_random_inputs(const RuleSet& rules, int samples, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string text;
  for (const Rule& rule : rules.rules())
    if (rule.right.pat) text += disagreement(rule, samples, random);
  return text;
}

bool agrees_on_random_inputs(const RuleSet& rules, int samples, uint64_t seed) {
  std::string text = disagreement_on_random_inputs(rules, samples, seed);
  std::fputs(text.c_str(), stderr);
  return text.empty();
}

}  // namespace smelt
