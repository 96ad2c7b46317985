// Kernels of small tensor graphs, run with any options by the program evaluator and judged by
// kernel_eval.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "codegen/codegen.h"
#include "codegen/kernel_eval.h"
#include "codegen/program_eval.h"
#include "codegen/program_verify.h"
#include "graph/eval.h"
#include "graph/tensor.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "schedule/schedule.h"
#include "support/random_bytes.h"

namespace smelt::testing {

using Bytes = std::vector<std::byte>;
using Variables = std::map<std::string, int64_t>;

constexpr double kAgreement = 1e-5;  // of f32 sums in any order with sums in double

inline int64_t value_of(Ref size, const Variables& variables) {
  ScalarValues leaves;
  for (Ref v : toposort(size))
    if (v->op == Op::Var) leaves[v] = Scalar{.i = variables.at(v->arg.name)};
  return eval_scalar(size, leaves)->i;
}

// One kernel of a graph, on buffers of exactly the size that it needs.
struct JudgedKernel {
  Ref tree;
  std::vector<Bytes> buffers;
  Variables variables;
};

inline JudgedKernel kernel_of(Ref root, const Variables& variables = {}, size_t number = 0,
                              const Machine& machine = {}) {
  REQUIRE(verify(root, Phase::Tensor).ok());
  const Schedule schedule = make_schedule(root, machine);
  REQUIRE(number < schedule.kernels.size());
  const Kernel& kernel = schedule.kernels[number];
  JudgedKernel out{.tree = kernel.tree, .variables = variables};
  REQUIRE_MESSAGE(verify(out.tree, Phase::Kernel).ok(), verify(out.tree, Phase::Kernel).error().message);
  std::mt19937_64 rng(out.tree->key);
  for (Ref b : kernel.buffers) {
    int64_t bytes = 0;
    if (b->op == Op::Temp) {
      bytes = schedule.temps[static_cast<size_t>(b->arg.i)].bytes;
    } else {
      bytes = size_of(b->dtype);
      for (Ref d : b->shape) bytes *= value_of(d, variables);
    }
    out.buffers.push_back(random_bytes(static_cast<size_t>(bytes), b->dtype, rng));
  }
  return out;
}

// The stores that options of nest `nest` are applied to.
inline Refs prepared(Ref tree, size_t nest = 0, const Machine& machine = {}) {
  return prepare_nest(tree->src.at(nest), machine);
}

inline std::vector<std::span<const std::byte>> views(const std::vector<Bytes>& buffers) {
  return {buffers.begin(), buffers.end()};
}

inline std::vector<int64_t> symbols_of(const JudgedKernel& k) {
  std::vector<int64_t> symbols;
  for (const auto& [name, value] : k.variables) symbols.push_back(value);
  return symbols;
}

inline Program program_of(const JudgedKernel& k, const KernelOpts& opts, const Machine& machine = {}) {
  std::vector<std::string> names;
  for (const auto& [name, value] : k.variables) names.push_back(name);
  return generate({.tree = k.tree, .name = "kernel", .machine = machine, .symbols = names, .opts = opts}).program;
}

// What the kernel should compute. Tests try one with many options, so the last one that was asked for is remembered.
inline const std::vector<KernelElement>& judged(const JudgedKernel& k) {
  static JudgedKernel last;
  static std::vector<KernelElement> elements;
  if (k.tree == last.tree && k.buffers == last.buffers && k.variables == last.variables) return elements;
  auto result = evaluate_kernel({.tree = k.tree, .buffers = views(k.buffers), .variables = k.variables});
  REQUIRE_MESSAGE(result.ok(), result.error().message);
  elements = result.take();
  last = k;
  return elements;
}

// What goes wrong when two workers run this program of the kernel; empty if nothing does.
inline std::string problem_of_run(const JudgedKernel& k, const Program& program) {
  if (std::string problem = problem_of(program); !problem.empty()) return problem;
  std::vector<Bytes> after = k.buffers;
  std::vector<ByteSpan> spans(after.begin(), after.end());
  spans.resize(static_cast<size_t>(program.buffers));
  const std::vector<int64_t> symbols = symbols_of(k);
  for (int64_t part = 0; part < 2; ++part)
    if (Status s = evaluate(program, spans, symbols, part, 2); !s) return s.error().message;
  const KernelDifference d = difference(judged(k), views(after));
  return d.worst <= kAgreement ? "" : d.where;
}

// The same of the program with these options for each nest.
inline std::string problem_with(const JudgedKernel& k, const KernelOpts& opts, const Machine& machine = {}) {
  return problem_of_run(k, program_of(k, opts, machine));
}

// What goes wrong in so many of the tasks of the program that the heuristic chooses, the first, the last and some
// between, each by a worker of its own: for kernels of which all would take too long.
inline std::string problem_of_tasks(const JudgedKernel& k, const Machine& machine, int64_t count) {
  const Program program = program_of(k, {}, machine);
  std::vector<Bytes> after = k.buffers;
  std::vector<ByteSpan> spans(after.begin(), after.end());
  spans.resize(static_cast<size_t>(program.buffers));
  const std::vector<int64_t> symbols = symbols_of(k);
  std::vector<std::vector<bool>> stored;
  for (const ByteSpan& s : spans) stored.emplace_back(s.size());
  const EvalOptions options{.stored = [&](int64_t buffer, int64_t at, int64_t bytes) {
    std::fill_n(stored[static_cast<size_t>(buffer)].begin() + at, bytes, true);
  }};
  const int64_t parts = std::min(program.tasks, kMostParts), tasks = std::min(count, parts);
  for (int64_t i = 0; i < tasks; ++i) {
    const int64_t part = tasks > 1 ? (parts - 1) * i / (tasks - 1) : 0;
    if (Status s = evaluate(program, spans, symbols, part, parts, options); !s) return s.error().message;
  }
  const auto expected = evaluate_kernel({.tree = k.tree,
                                         .buffers = views(k.buffers),
                                         .variables = k.variables,
                                         .wants = [&](int64_t buffer, int64_t at) -> bool {
                                           return stored[static_cast<size_t>(buffer)][static_cast<size_t>(at)];
                                         }});
  if (!expected) return expected.error().message;
  if (expected->empty()) return "nothing is stored";
  const bool rounded = rounds_floats(k.tree);
  const KernelDifference d = difference(*expected, views(after), rounded);
  return d.worst <= (rounded ? tolerance(true) : kAgreement) ? "" : d.where;
}

// What these options leave in the buffers, with every operation rounded as a machine does it.
inline std::vector<Bytes> bits_with(const JudgedKernel& k, const KernelOpts& opts, const Machine& machine = {}) {
  const Program program = program_of(k, opts, machine);
  std::vector<Bytes> after = k.buffers;
  std::vector<ByteSpan> spans(after.begin(), after.end());
  spans.resize(static_cast<size_t>(program.buffers));
  const std::vector<int64_t> symbols = symbols_of(k);
  const Status status = evaluate(program, spans, symbols, 0, 1, {.round_f32 = true});
  REQUIRE_MESSAGE(status.ok(), status.error().message);
  return after;
}

// --- options in words

// An axis by the text of its id.
struct AxisName {
  AxisName(RangeId id) : id(id) {}
  AxisName(const char* text) : id(parse_range_id(text).value()) {}
  RangeId id;
};

inline Opt local(AxisName axis, int64_t n) { return {OptKind::Local, axis.id, n}; }
inline Opt group(AxisName axis, int64_t n) { return {OptKind::Group, axis.id, n}; }
inline Opt upcast(AxisName axis, int64_t n) { return {OptKind::Upcast, axis.id, n}; }
inline Opt unroll(AxisName axis, int64_t n) { return {OptKind::Unroll, axis.id, n}; }
inline Opt matrix(AxisName axis, int64_t n) { return {OptKind::Matrix, axis.id, n}; }
inline Opt split(AxisName axis, int64_t n) { return {OptKind::Split, axis.id, n}; }
inline Opt front(AxisName axis) { return {OptKind::Front, axis.id, 0}; }
inline Opt task(AxisName axis) { return {OptKind::Task, axis.id, 0}; }

// Why the last option does not fit after the ones before it. REQUIRES: those fit.
inline std::string why_not_last(Refs stores, std::vector<Opt> opts) {
  const Opt last = opts.back();
  opts.pop_back();
  return why_not(apply_opts(std::move(stores), opts), last);
}

// A list of options that fit one after the other.
inline std::vector<Opt> random_opts(Refs stores, std::mt19937_64& rng, int tries, bool is_local = false,
                                    const LaneRules& rules = {}) {
  std::vector<Opt> opts;
  for (int i = 0; i < tries; ++i) {
    const Refs axes = axes_of(stores);
    if (axes.empty()) break;
    const auto kind = static_cast<OptKind>(rng() % kOptKinds);
    if (is_local && kind == OptKind::Task) continue;  // every worker runs all of a local nest
    const bool counts = kind != OptKind::Front && kind != OptKind::Task;
    static constexpr int64_t kAmounts[] = {2, 4, 8, 16, 3};
    const Ref axis = axes[rng() % axes.size()];
    const Opt opt{kind, id_of(stores, axis), counts ? kAmounts[rng() % 5] : 0};
    OptResult result = try_opt(stores, opt, rules);
    if (!result) continue;
    stores = std::move(result.stores);
    opts.push_back(opt);
  }
  return opts;
}

inline KernelOpts random_opts_of(Ref tree, std::mt19937_64& rng, int tries, const Machine& machine = {}) {
  KernelOpts opts;
  for (Ref nest : tree->src)
    opts.push_back(random_opts(prepare_nest(nest, machine), rng, tries, is_local_nest(nest), lane_rules(machine)));
  return opts;
}

inline std::string to_text(const KernelOpts& opts) {
  std::string text;
  for (const auto& nest : opts) text += "options: " + to_string(nest) + "\n";
  return text;
}

}  // namespace smelt::testing
