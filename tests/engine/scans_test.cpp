// Scans: steps one after another, as kernels beside the interpreter, and what their schedule is.
#include "schedule/scans.h"

#include <doctest/doctest.h>

#include "graph/steps.h"
#include "schedule/schedule.h"
#include "schedule/tiles.h"
#include "support/run_graph.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

constexpr int64_t kHeads = 3, kBlocks = 2, kRows = 8, kColumns = 4, kSteps = 5;

// Of each head and block a matrix, which a step changes by its own sums; twice in a step.
struct SmallScan {
  explicit SmallScan(Dim steps, std::vector<int32_t> begins)
      : begins_(std::move(begins)),
        flags(param(0, DType::I32, {steps}, "begins")),
        first(param(1, DType::F32, {kHeads, kBlocks, steps, kRows, kColumns}, "first")),
        keys(param(2, DType::F32, {kHeads, 1, steps, kRows}, "keys")) {}

  struct Changed {
    Tensor state, out;
  };
  Changed change(Tensor state) const {
    Changed all{.state = state, .out = {}};
    for (int turn = 0; turn < 2; ++turn) {
      const Tensor key = unsqueeze(keys * (turn + 1.0), 4);
      const Tensor by_key = place(sum(all.state * key, 3));
      all.out = turn == 0 ? by_key : all.out + by_key;
      all.state = place(all.state * 0.5 - key * unsqueeze(by_key, 3) * 0.1);
    }
    all.out = place(all.out);
    return all;
  }

  Ref root() const {
    const Tensor left = left_before(0, {first.shape().begin(), first.shape().end()});
    const Tensor is_begin = unsqueeze(unsqueeze(equal(flags, scalar(1, DType::I32)), 1), 2);
    const Changed changed = change(place(where(is_begin, first, left)));
    const Dim steps = first.dim(2);
    const int64_t elements = kHeads * kBlocks * kRows * kColumns;
    const Tensor rows = param(3, DType::I32, {steps}, "rows"), kept = param(4, DType::F32, {8, elements}, "kept");
    const Tensor values = reshape(permute(changed.state, {2, 0, 1, 3, 4}), {steps, elements});
    return sink({output(5, permute(changed.out, {2, 0, 1, 3})), write_rows(kept, rows, 0, values).ref(),
                 leave(left, 2, changed.state)});
  }

  Inputs inputs() const {
    const int64_t matrix = kHeads * kBlocks * kRows * kColumns;
    std::vector<int32_t> rows;
    for (size_t s = 0; s < begins_.size(); ++s)
      rows.push_back(begins_[s] && s > 0 ? rows.back() + 1 : rows.empty() ? 1 : rows.back());
    return {.buffers = {{0, as_bytes(begins_)},
                        {1, random_floats(matrix * kSteps, 1)},
                        {2, random_floats(kHeads * kSteps * kRows, 2)},
                        {3, as_bytes(rows)},
                        {4, random_floats(8 * matrix, 3)}},
            .variables = {{"steps", kSteps}}};
  }

  std::vector<int32_t> begins_;
  Tensor flags, first, keys;
};

Dim some_steps() { return Dim(variable("steps", 1, 8)); }

}  // namespace

TEST_CASE("a scan finds what the step before has left, or begins anew") {
  for (const std::vector<int32_t>& begins : {std::vector<int32_t>{1, 0, 0, 0, 0}, {1, 0, 1, 0, 0}, {1, 1, 1, 1, 1}}) {
    const SmallScan scan(some_steps(), begins);
    CHECK(compare(scan.root(), scan.inputs()).worst < 1e-5);
  }
}

TEST_CASE("a scan of a known number of steps, and of one, is the same") {
  const SmallScan five(Dim(kSteps), {1, 0, 0, 1, 0});
  CHECK(compare(five.root(), five.inputs()).worst < 1e-5);
  const SmallScan one(Dim(1), {1});
  CHECK(compare(one.root(), one.inputs()).worst < 1e-5);
}

TEST_CASE("the steps of a scan are one kernel, which keeps what passes between them in one buffer on chip") {
  const Schedule schedule = make_schedule(SmallScan(some_steps(), {1, 0, 0, 0, 0}).root());
  const auto has_steps = [](const Kernel& k) {
    return std::any_of(nests_of(k).begin(), nests_of(k).end(), [](Ref nest) { return bool(chunk_range(nest->src)); });
  };
  REQUIRE(std::count_if(schedule.kernels.begin(), schedule.kernels.end(), has_steps) == 1);
  const Kernel& kernel = *std::find_if(schedule.kernels.begin(), schedule.kernels.end(), has_steps);
  std::map<int64_t, int> states;  // how often each is stored
  for (Ref nest : nests_of(kernel))
    for (Ref store : stores_of(nest)) {
      CHECK(tile_ranges({store}).size() == 2);
      const Ref buffer = StoreView(store).buffer;
      if (buffer->op == Op::Local && local_bytes(buffer) == kRows * kColumns * 4) ++states[number_of_buffer(buffer)];
    }
  CHECK(states.size() == 1);
  CHECK(states.begin()->second == 4);  // before the first step, what a step finds, and its two turns
}
