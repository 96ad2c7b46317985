// LOCAL and GROUP as threads of a block: which options fit, what programs they make, where threads wait.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "codegen/block_threads.h"
#include "codegen/instruction_views.h"
#include "support/byte_rows.h"
#include "support/judge.h"
#include "support/small_graphs.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

const Machine kBlocks{.parallelism = Parallelism::Threads, .block_threads = 256, .warp_threads = kWarp};

// Axes of a product: o0 and o1 of its rows and columns, r1.0 of the sum, r1.1 of its partial sums.
Refs prepared_stores(Ref root) { return prepared(kernel_of(root).tree, 0, kBlocks); }

std::string reason(Ref root, std::vector<Opt> opts) {
  const Opt last = opts.back();
  opts.pop_back();
  const LaneRules rules = lane_rules(kBlocks);
  return why_not(apply_opts(prepared_stores(root), opts, rules), last, rules);
}

Ref matmul() { return sink({output(2, linear(input(0, {8, 512}), input(1, {64, 512})))}); }

int64_t count(const Program& program, Inst kind) {
  return std::count_if(program.code.begin(), program.code.end(), [&](const Instruction& x) { return x.kind == kind; });
}

// The program for these options, after it has run and agreed with the interpreter.
Program judged(Ref root, const std::vector<Opt>& opts) {
  const JudgedKernel kernel = kernel_of(root);
  REQUIRE(kernel.tree->src.size() == 1);
  CHECK(problem_with(kernel, {opts}, kBlocks) == "");
  return program_of(kernel, {opts}, kBlocks);
}

}  // namespace

TEST_CASE("several axes are in threads, as many as a block has") {
  CHECK(reason(matmul(), {local("o1", 16), local("o0", 8)}) == "");
  CHECK(reason(matmul(), {local("o1", 16), group("r1.1", 16)}) == "");
  CHECK(reason(matmul(), {local("o1", 64), local("o0", 8)}) == "local: a block has at most 256 threads");
  CHECK(reason(matmul(), {local("o1", 64), group("r1.1", 8)}) == "group: a block has at most 256 threads");
  CHECK(reason(matmul(), {matrix("o0", 4)}) == "matrix: a thread has no unit for matrices of bytes");
}

TEST_CASE("threads need no neighbours side by side, unlike the lanes of a vector") {
  CHECK(reason(matmul(), {local("o0", 8)}) == "");
}

TEST_CASE("the first axis taken has its neighbours in neighbouring threads") {
  const LaneRules rules = lane_rules(kBlocks);
  const Refs stores = apply_opts(prepared_stores(matmul()), {local("o1", 16), local("o0", 8)}, rules);
  CHECK(threads_of(stores) == 128);
  std::vector<int64_t> strides;
  for (Ref r : axes_of(stores))
    if (is_of_threads(r)) strides.push_back(thread_stride(r));
  CHECK(strides == std::vector<int64_t>{16, 1});
}

// Of five sums each is needed for three outputs, which take threads that the terms of the sum take as well.
TEST_CASE("digits that overlap begin anew with each digit that stands beside both") {
  const Tensor sums = sum(input(0, {5, 12}), 1);
  const Ref root = sink({output(1, expand(unsqueeze(sums, 1), {5, 3}) * 0.25)});
  const std::vector<Opt> opts = {group("r1.1", 4), local("o1", 3), local("o0", 5)};
  const Program p = judged(root, opts);
  CHECK(p.threads == 64);
  std::set<int64_t> strides;
  for (Ref r : axes_of(apply_opts(prepared_stores(root), opts, lane_rules(kBlocks))))
    if (is_of_threads(r)) strides.insert(thread_stride(r));
  CHECK(strides == std::set<int64_t>{1, 12});
}

TEST_CASE("a sum over the threads of a warp needs no on-chip memory") {
  const Program p = judged(matmul(), {group("r1.1", 32)});
  CHECK(p.threads == 32);
  CHECK(count(p, Inst::Shuffle) == 5);
  CHECK(count(p, Inst::Barrier) == 0);
  CHECK(p.scratch_bytes == 0);
}

TEST_CASE("a sum over warps passes through on-chip memory") {
  const Program p = judged(matmul(), {group("r1.1", 256)});
  CHECK(p.threads == 256);
  CHECK(count(p, Inst::Shuffle) == 5);
  CHECK(p.scratch_bytes == 256 * 4);
  // Before threads read what others have stored, and before they store again in the next round.
  CHECK(count(p, Inst::Barrier) == 2);
}

TEST_CASE("sums of several outputs wait for each other once") {
  const Program p = judged(matmul(), {local("o0", 4), upcast("o1", 4), group("r1.1", 64)});
  CHECK(p.threads == 256);
  CHECK(count(p, Inst::Barrier) == 2);
}

TEST_CASE("sums that make up one output wait for each other once") {
  const Tensor x = input(0, {8, 512});
  const Ref root = sink({output(3, linear(x, input(1, {64, 512})) * linear(x, input(2, {64, 512})))});
  const Program p = judged(root, {group("r1.1", 64)});
  CHECK(p.threads == 64);
  CHECK(p.scratch_bytes == 2 * 64 * 4);
  CHECK(count(p, Inst::Barrier) == 2);
}

TEST_CASE("the outputs of a block that has more threads are stored once") {
  const Program p = judged(matmul(), {local("o1", 4)});
  CHECK(p.threads == 32);
  for (const Instruction& x : p.code)
    if (x.kind == Inst::Store) CHECK(x.src.size() == 4);
  CHECK(p.tasks == 1);
  CHECK(judged(matmul(), {local("o1", 32), front("o0"), task("o0"), task("o1.0")}).tasks == 16);
}

TEST_CASE("a sum and the outputs that it is the same for use the same threads") {
  const LaneRules rules = lane_rules(kBlocks);
  const Ref root = sink({output(2, rms_norm(input(0, {4, 256}), input(1, {256})))});
  const JudgedKernel kernel = kernel_of(root);
  const Refs stores = prepared(kernel.tree, 0, kBlocks);
  const Refs axes = axes_of(stores);
  const RangeId last = id_of(stores, axes.back());
  REQUIRE(!is_output_axis(stores, axes.back()));
  const Refs grouped = apply_opts(stores, {group(last, 32), local("o1", 8)}, rules);
  CHECK(threads_of(grouped) == 32);
  CHECK(threads_of(apply_opts(stores, {group(last, 32), local("o0", 4)}, rules)) == 128);
  for (const Opt& outputs : {local("o1", 8), local("o1", 64), local("o0", 4), upcast("o1", 4)})
    CHECK(problem_with(kernel, {{group(last, 32), outputs}}, kBlocks) == "");
}

TEST_CASE("copies of an output that share a sum over threads make it once") {
  const Ref root = sink({output(2, rms_norm(input(0, {1, 1024}), input(1, {1024})))});
  const Refs stores = prepared(kernel_of(root).tree, 0, kBlocks);
  const RangeId last = id_of(stores, axes_of(stores).back());
  CHECK(count(judged(root, {group(last, 256), upcast("o1", 4)}), Inst::Shuffle) ==
        count(judged(root, {group(last, 256)}), Inst::Shuffle));
}

TEST_CASE("nests of a kernel have tasks of their own, and blocks that one leaves idle begin with the next") {
  const Tensor x = input(0, {64});
  const JudgedKernel kernel = kernel_of(sink({output(1, x * 2.0), output(2, slice(x, 0, 0, 32) + 1.0)}));
  REQUIRE(kernel.tree->src.size() == 2);
  const KernelOpts opts{{local("o0", 32), task("o0.0")}, {local("o0", 8), task("o0.0")}};
  CHECK(problem_with(kernel, opts, kBlocks) == "");
  CHECK(program_of(kernel, opts, kBlocks).tasks == 2 + 4);
}

TEST_CASE("threads that a nest does not want are left out, and wait in front of it and behind it") {
  const Tensor x = input(0, {8, 512});
  const JudgedKernel kernel =
      kernel_of(sink({output(2, linear(x, input(1, {64, 512}))), output(4, linear(x, input(3, {64, 512})))}));
  REQUIRE(kernel.tree->src.size() == 2);
  const KernelOpts opts{{group("r1.1", 64)}, {local("o0", 4), upcast("o1", 4), group("r1.1", 64)}};
  CHECK(problem_with(kernel, opts, kBlocks) == "");
  const Program p = program_of(kernel, opts, kBlocks);
  CHECK(p.threads == 256);
  int loops = 0, inside = 0, of_all = 0;
  for (const Instruction& i : p.code) {
    if (i.kind == Inst::Loop && i.arg.i > 0) CHECK(i.arg.i == 64), ++loops;
    if (i.kind == Inst::Barrier) ++(i.arg.i == 64 ? inside : of_all);
  }
  CHECK(loops == 1);
  CHECK(inside > 0);
  CHECK(of_all > 1);
}

// 192 threads have an output each, and all of them the sum that the first 128 of these share. The block has 256.
TEST_CASE("threads behind those that share a sum read it from them, not from threads that are left out") {
  const JudgedKernel kernel =
      kernel_of(sink({output(2, rms_norm(input(0, {4, 768}), input(1, {768}))), output(4, input(3, {1024}) * 2.0)}));
  REQUIRE(kernel.tree->src.size() == 2);
  const Refs stores = prepared(kernel.tree, 0, kBlocks);
  const KernelOpts opts{{group(id_of(stores, axes_of(stores).back()), 128), local("o1", 192)}, {local("o0", 256)}};
  const Program p = program_of(kernel, opts, kBlocks);
  CHECK(p.threads == 256);
  CHECK(std::any_of(p.code.begin(), p.code.end(),
                    [](const Instruction& x) { return x.kind == Inst::Loop && x.arg.i == 192; }));
  CHECK(problem_with(kernel, opts, kBlocks) == "");
}

TEST_CASE("each nest of a tile is left to the warps that it wants") {
  const Dim tokens = Dim(variable("tokens8", 1, 8) * 8);
  const Tensor x = rms_norm(input(0, {tokens, 128}), input(1, {128}));
  const JudgedKernel kernel = kernel_of(rows_to_bytes(reshape(x, {tokens, 4, 32}), false), {{"tokens8", 2}});
  REQUIRE(kernel.tree->src.size() >= 4);
  const Program p = program_of(kernel, {}, kBlocks);
  std::set<int64_t> threads;
  for (const Instruction& i : p.code)
    if (i.kind == Inst::Loop && i.arg.i > 0) threads.insert(i.arg.i);
  CHECK(p.threads > kWarp);
  REQUIRE(!threads.empty());
  CHECK(*threads.rbegin() < p.threads);
  CHECK(problem_with(kernel, {}, kBlocks) == "");
}

// A norm, the scale, bytes and their sum of 32 numbers, which a block of more threads has made: nests of one warp.
TEST_CASE("nests of the same warps go on where the one before has ended, in its registers") {
  const Dim tokens = Dim(variable("tokens8", 1, 8) * 8);
  const Tensor x = rms_norm(sum(input(0, {tokens, 32, 256}), -1), input(1, {32}));
  const JudgedKernel kernel = kernel_of(rows_to_bytes(reshape(x, {tokens, 1, 32}), true), {{"tokens8", 2}});
  const Program p = program_of(kernel, {}, kBlocks);
  CHECK(problem_with(kernel, {}, kBlocks) == "");
  const auto is_of_warp = [](const Instruction& x) { return x.kind == Inst::Loop && x.arg.i == kWarp; };
  REQUIRE(p.threads > kWarp);
  REQUIRE(std::count_if(p.code.begin(), p.code.end(), is_of_warp) == 1);
  const auto loop = std::find_if(p.code.begin(), p.code.end(), is_of_warp),
             end = std::find_if(loop, p.code.end(), [](const Instruction& x) { return x.kind == Inst::EndLoop; });
  int shuffles = 0;
  for (auto x = loop; x != end; ++x) {
    CHECK(x->kind != Inst::Barrier);
    if (x->kind == Inst::Store) CHECK(p.code[static_cast<size_t>(AccessView(*x).pointer)].kind == Inst::Buffer);
    shuffles += x->kind == Inst::Shuffle;
  }
  CHECK(shuffles == 4 + 5 + 5);  // the norm's sum, the maximum and the sum of bytes
}

TEST_CASE("a sum inside of another one has partial sums as well, if lanes are threads") {
  // sum over i of a[i] * sum over j of x[r, i, j] * b[j]
  const Tensor inner = sum(input(0, {4, 64, 128}) * input(1, {1, 1, 128}), -1),
               outer = sum(inner * input(2, {1, 64}), -1);
  const JudgedKernel kernel = kernel_of(sink({output(3, outer)}));
  const auto partials = [&](const Machine& machine) {
    const Refs axes = axes_of(prepared(kernel.tree, 0, machine));
    return std::count_if(axes.begin(), axes.end(), [](Ref r) { return kind_of(r) == RangeKind::Partial; });
  };
  CHECK(partials(kBlocks) == 2);
  CHECK(partials({}) <= 1);
  const std::vector<Opt> chosen = choose_opts(prepared(kernel.tree, 0, kBlocks), kBlocks, false);
  CHECK(std::count_if(chosen.begin(), chosen.end(), [](const Opt& o) { return o.kind == OptKind::Group; }) == 2);
  CHECK(problem_with(kernel, {chosen}, kBlocks) == "");
  CHECK(problem_with(kernel, {{}}, kBlocks) == "");
}

TEST_CASE("a sum of any length leaves few partial sums to a thread, as each is written out") {
  for (int64_t groups : {24, 45, 90, 344}) {
    const Tensor inner = sum(input(0, {64, groups, 8}) * input(1, {1, groups, 8}), -1);
    const JudgedKernel kernel = kernel_of(sink({output(3, sum(inner * input(2, {1, groups}), -1))}));
    const Refs stores = prepared(kernel.tree, 0, kBlocks);
    const std::vector<Opt> opts = choose_opts(stores, kBlocks, false);
    CAPTURE(groups);
    int64_t left = 1, shares = 1;
    for (Ref r : axes_of(stores))
      if (kind_of(r) == RangeKind::Partial) shares *= RangeView(r).count();
    for (Ref r : axes_of(apply_opts(stores, opts, lane_rules(kBlocks))))
      if (kind_of(r) == RangeKind::Partial) left *= RangeView(r).count();
    CHECK(shares >= 8);
    CHECK(left <= 9);
    CHECK(problem_with(kernel, {opts}, kBlocks) == "");
  }
}

TEST_CASE("threads share a sum of two groups, which each of them would make beside a longer one") {
  const auto shares = [](int64_t groups) {
    const Tensor inner = sum(
        cast(input(0, {64, groups, 8}, DType::I8), DType::I32) * cast(input(1, {1, groups, 8}, DType::I8), DType::I32),
        -1);
    const JudgedKernel kernel = kernel_of(sink({output(3, sum(cast(inner, DType::F32) * input(2, {1, groups}), -1))}));
    const Refs stores = prepared(kernel.tree, 0, kBlocks);
    CHECK(problem_with(kernel, {choose_opts(stores, kBlocks, false)}, kBlocks) == "");
    int64_t count = 1;
    for (Ref r : axes_of(stores))
      if (kind_of(r) == RangeKind::Partial) count *= RangeView(r).count();
    return count;
  };
  CHECK(shares(2) == 2);
  CHECK(shares(3) == 1);
  CHECK(shares(16) == 4);
}

// Eight superblocks of eight groups, whose low and high halves share words: d[r, i] * sum over g of the group's scale
// times its sum of products, for each token.
JudgedKernel superblocks(int64_t rows, int64_t tokens = 1) {
  const Tensor words = input(0, {rows, 8, 4, 1, 8}, DType::U8);
  const Tensor shift = cast(iota({2, 1}, 0) * 4.0, DType::U8);
  const Tensor q = reshape((words >> shift) & 15, {1, rows, 8, 8, 8});
  const Tensor x = input(1, {tokens, 1, 8, 8, 8}, DType::I8);
  const Tensor sums = cast(sum(cast(q, DType::I32) * cast(x, DType::I32), -1), DType::F32);
  const Tensor scaled = sums * input(2, {1, rows, 8, 8}) * input(3, {1, rows, 8, 1});
  return kernel_of(sink({output(4, sum(reshape(scaled, {tokens, rows, 64}), -1))}));
}

Refs partials_in(const Refs& stores) {
  Refs axes = axes_of(stores);
  std::erase_if(axes, [](Ref r) { return kind_of(r) != RangeKind::Partial; });
  return axes;
}

TEST_CASE("groups of superblocks are shared out along several axes, the last of which threads take first") {
  Machine large = kBlocks;
  large.processors = 8, large.processor_threads = 1024;
  const JudgedKernel kernel = superblocks(16);
  const Refs stores = prepared(kernel.tree, 0, large), partials = partials_in(stores);
  REQUIRE(partials.size() == 2);
  const int64_t first_count = RangeView(partials[0]).count(), last_count = RangeView(partials[1]).count();
  CHECK(first_count * last_count == 16);  // four groups are left to each
  const LaneRules rules = lane_rules(large);
  const RangeId first = id_of(stores, partials[0]), last = id_of(stores, partials[1]);
  const Opt of_first = group(first, first_count), of_last = group(last, last_count);
  CHECK(why_not(stores, of_first, rules) ==
        "group: partial sums along another axis are combined after those of axis " + to_string(first));
  CHECK(why_not(stores, of_last, rules) == "");
  CHECK(why_not(apply_opt(stores, of_last, rules), of_first, rules) == "");
  CHECK(partials_in(apply_opts(stores, choose_opts(stores, large, false), rules)).empty());
  for (const std::vector<Opt>& opts : {std::vector<Opt>{}, {of_last}, {of_last, of_first}})
    CHECK(problem_with(kernel, {opts}, large) == "");
}

TEST_CASE("where there are rows for all threads, sums are shared out along one axis") {
  Machine small = kBlocks;
  small.processors = 2, small.processor_threads = 64;
  CHECK(partials_in(prepared(superblocks(16).tree, 0, small)).size() == 1);
  CHECK(partials_in(prepared(superblocks(8).tree, 0, small)).size() == 2);
  CHECK(partials_in(prepared(superblocks(8, 16).tree, 0, small)).size() == 2);  // more tokens are no more rows
}

TEST_CASE("partial sums are grouped by powers of two, or all of them") {
  const Ref root = sink({output(2, linear(input(0, {1, 96}), input(1, {4, 96})))});
  const LaneRules rules = lane_rules(kBlocks);
  const Refs partials =
      in_partials(kernel_of(root).tree->src[0]->src, axes_of(kernel_of(root).tree->src[0]->src).back(), 12);
  const RangeId last = id_of(partials, axes_of(partials).back());
  CHECK(why_not(partials, group(last, 4), rules) == "");
  CHECK(why_not(partials, group(last, 12), rules) == "");
  CHECK(why_not(partials, group(last, 6), rules) == "group: 6 partial sums are neither a power of two nor all of them");
}

TEST_CASE("where launches overlap, a block asks for the weights of its first task and then waits") {
  Machine overlaps = kBlocks;
  overlaps.overlaps_launches = 1;
  // A task has 8 rows of 256 floats of the matrix; the four rows of the other side are too few to ask for.
  const JudgedKernel kernel = kernel_of(sink({output(2, linear(input(0, {4, 256}), input(1, {64, 256})))}));
  const std::vector<Opt> opts = {local("o1", 8), group("r1.1", 8), front("o1.0"), task("o1.0")};
  const Program program = program_of(kernel, {opts}, overlaps);
  REQUIRE(count(program, Inst::Fetch) == 1);
  REQUIRE(count(program, Inst::Await) == 1);
  const auto fetch = std::find_if(program.code.begin(), program.code.end(),
                                  [](const Instruction& x) { return x.kind == Inst::Fetch; });
  CHECK(fetch->arg.i == 8 * 256 * 4);
  CHECK(problem_with(kernel, {opts}, overlaps) == "");  // in bounds for every block, also for those without a task
  CHECK(count(program_of(kernel, {opts}, kBlocks), Inst::Await) == 0);
}

TEST_CASE("where launches overlap, nothing is asked for of a buffer that may be smaller than it looks") {
  Machine overlaps = kBlocks;
  overlaps.overlaps_launches = 1;
  // Each task sums one of 64 columns of 16 rows, over as many of these as there are.
  const auto asks = [&](Dim rows) {
    const JudgedKernel kernel =
        kernel_of(sink({output(2, sum(given_param(0, DType::F32, {64, rows, 16}, "given"), 1))}), {{"tokens", 2}});
    const std::vector<Opt> opts = {local("o1", 16), task("o0")};
    CHECK(problem_with(kernel, {opts}, overlaps) == "");
    return count(program_of(kernel, {opts}, overlaps), Inst::Fetch);
  };
  CHECK(asks(32) == 1);
  CHECK(asks(variable("tokens", 1, 32)) == 0);
}

// Products of 4 queries with the keys at 256 positions, which lie in 4 pages of 64.
JudgedKernel scores_of_pages(const Tensor& pages, const Machine& machine) {
  const Tensor position = iota({256}, 0);
  const Tensor row = cast(gather(pages, position / 64.0), DType::I64) * 64.0 + position % 64;
  const Tensor keys = gather(input(2, {4096, 32}), row);
  return kernel_of(sink({output(3, sum(unsqueeze(input(1, {4, 32}), 1) * unsqueeze(keys, 0), -1))}), {}, 0, machine);
}

TEST_CASE("where launches overlap, a block asks for the pages of its first task whose numbers no launch writes") {
  Machine overlaps = kBlocks;
  overlaps.overlaps_launches = 1;
  const JudgedKernel given = scores_of_pages(given_param(0, DType::I32, {4}, "pages"), overlaps),
                     written = scores_of_pages(input(0, {4}, DType::I32), overlaps);
  for (const std::vector<Opt>& opts : {std::vector<Opt>{local("o1.1", 64), task("o0"), task("o1.0")},
                                       {local("o1.1", 64), split("o1.0", 2), task("o0"), task("o1.00")}}) {
    const Program program = program_of(given, {opts}, overlaps);
    REQUIRE(count(program, Inst::Fetch) == 1);
    const auto fetch = std::find_if(program.code.begin(), program.code.end(),
                                    [](const Instruction& x) { return x.kind == Inst::Fetch; });
    CHECK(fetch->arg.i == 64 * 32 * 4);  // a page, each by one thread of one of the tasks that read it
    CHECK(fetch->src.size() == 3);
    const auto await = std::find_if(program.code.begin(), program.code.end(),
                                    [](const Instruction& x) { return x.kind == Inst::Await; });
    CHECK(std::count_if(program.code.begin(), await, [](const Instruction& x) { return x.kind == Inst::Load; }) == 1);
    CHECK(problem_with(given, {opts}, overlaps) == "");
    CHECK(count(program_of(written, {opts}, overlaps), Inst::Fetch) == 0);
  }
  // Copies of a position in two pages are asked for apart.
  const std::vector<Opt> copies = {local("o1.1", 64), upcast("o1.0", 2), task("o0"), task("o1.00")};
  CHECK(count(program_of(given, {copies}, overlaps), Inst::Fetch) == 2);
  CHECK(problem_with(given, {copies}, overlaps) == "");
  // Where every task reads all pages, none asks for them.
  CHECK(count(program_of(given, {{local("o1.1", 64), task("o0")}}, overlaps), Inst::Fetch) == 0);
}

TEST_CASE("before it waits, a block reads only what no launch writes") {
  Machine overlaps = kBlocks;
  overlaps.overlaps_launches = 1;
  Program program = program_of(scores_of_pages(given_param(0, DType::I32, {4}, "pages"), overlaps),
                               {{local("o1.1", 64), task("o0"), task("o1.0")}}, overlaps);
  CHECK(problem_of(program) == "");
  for (Instruction& x : program.code)
    if (x.kind == Inst::Buffer) x.arg.list.clear();
  CHECK(problem_of(program).find("something has been done before it") != std::string::npos);
}

namespace {

// Where launches overlap: two tasks for each row.
Program tasks_of_rows(Dim rows, int64_t early_launch_tasks, int64_t processors = kBlocks.processors) {
  Machine overlaps = kBlocks;
  overlaps.overlaps_launches = 1;
  overlaps.early_launch_tasks = early_launch_tasks;
  overlaps.processors = processors;
  const std::vector<Opt> opts = {local("o1", 32), front("o1.0"), task("o1.0"), task("o0")};
  const JudgedKernel kernel =
      kernel_of(sink({output(2, linear(input(0, {rows, 64}), input(1, {64, 64})))}), {{"tokens", 4}});
  const Program program = program_of(kernel, {opts}, overlaps);
  CHECK(problem_of(program) == "");
  return program;
}

const Instruction& await_of(const Program& program) {
  const auto await = std::find_if(program.code.begin(), program.code.end(),
                                  [](const Instruction& x) { return x.kind == Inst::Await; });
  REQUIRE(await != program.code.end());
  return *await;
}

}  // namespace

TEST_CASE("a launch whose tasks have blocks of their own lets the next one begin before it waits") {
  const auto lets_begin = [](Dim rows, int64_t processors) {
    const Program program = tasks_of_rows(rows, 16, processors);
    return is_eager(await_of(program));
  };
  CHECK(lets_begin(64, 64));  // 128 tasks
  CHECK(!lets_begin(64, 2));  // most of them wait for a block
  CHECK(!lets_begin(variable("tokens", 1, 64), 64));
}

TEST_CASE("what a sum is added to is loaded before threads pass the sum on") {
  const Tensor sums = linear(input(0, {4, 256}), input(1, {64, 256}));
  const JudgedKernel kernel = kernel_of(sink({output(4, input(2, {4, 64}) + (sums + input(3, {4, 64})))}));
  const auto loads_behind_barrier = [&](const std::vector<Opt>& opts) {
    const Program program = program_of(kernel, {opts}, kBlocks);
    CHECK(problem_with(kernel, {opts}, kBlocks) == "");
    const auto barrier = std::find_if(program.code.begin(), program.code.end(),
                                      [](const Instruction& x) { return x.kind == Inst::Barrier; });
    REQUIRE(barrier != program.code.end());
    return std::count_if(barrier, program.code.end(), [&](const Instruction& x) {
      return x.kind == Inst::Load && program.code[static_cast<size_t>(x.src[0])].kind == Inst::Buffer;
    });
  };
  CHECK(loads_behind_barrier({local("o1", 4), group("r1.1", 32), task("o0"), task("o1.0")}) == 0);
  CHECK(loads_behind_barrier({upcast("o1", 16), local("o1.0", 4), group("r1.1", 32), task("o0")}) > 0);  // 16 of each
}

TEST_CASE("a launch of many tasks of a long input lets none begin before its blocks have ended") {
  const auto keeps_back = [](Dim rows, int64_t early_launch_tasks) {
    const Program program = tasks_of_rows(rows, early_launch_tasks);
    const int condition = keeps_next_back(await_of(program));
    if (condition < 0) return std::string("never");
    const Instruction& is_long = program.code[static_cast<size_t>(condition)];
    CHECK(is_long.op == Op::Lt);
    return "from " + std::to_string(program.code[static_cast<size_t>(is_long.src[0])].arg.i) + " on";
  };
  CHECK(keeps_back(64, 16) == "never");  // as many in each launch
  CHECK(keeps_back(variable("tokens", 1, 64), 1 << 20) == "never");
  CHECK(keeps_back(variable("tokens", 1, 64), 16) == "from 16 on");
}

TEST_CASE("nothing is read or stored before the wait for the launch before") {
  Machine overlaps = kBlocks;
  overlaps.overlaps_launches = 1;
  Program program = program_of(kernel_of(matmul()), {{local("o1", 16)}}, overlaps);
  REQUIRE(problem_of(program) == "");
  program.code.push_back({.kind = Inst::Await});
  CHECK(problem_of(program).find("something has been done before it") != std::string::npos);
}

TEST_CASE("what only some tasks of a kernel want is made by the blocks that have one of these") {
  const auto normed_product = [](int x, int64_t k, int64_t rows) {
    return linear(rms_norm(input(x, {1, k}), input(x + 1, {k})), input(x + 2, {rows, k}));
  };
  const JudgedKernel kernel =
      kernel_of(sink({output(6, normed_product(0, 128, 64)), output(7, normed_product(3, 64, 32))}));
  REQUIRE(kernel.tree->src.size() == 4);  // two norms, two products
  const Program program = program_of(kernel, {}, kBlocks);
  REQUIRE(problem_of(program) == "");
  const auto conditions = std::count_if(program.code.begin(), program.code.end(),
                                        [](const Instruction& x) { return x.kind == Inst::Loop && is_condition(x); });
  CHECK(conditions == 4);  // a product reads nothing either where its norm was not made

  // The numbers are right for any number of blocks, also where many have nothing to do.
  const auto expected = evaluate_kernel({.tree = kernel.tree, .buffers = views(kernel.buffers)}).take();
  for (const int64_t blocks : {1, 2, 5, 200}) {
    std::vector<Bytes> after = kernel.buffers;
    std::vector<ByteSpan> spans(after.begin(), after.end());
    for (int64_t block = 0; block < blocks; ++block) {
      const Status done = evaluate(program, spans, {}, block, blocks);
      REQUIRE_MESSAGE(done.ok(), done.error().message);
    }
    const KernelDifference d = difference(expected, views(after));
    CHECK_MESSAGE(d.worst <= kAgreement, d.where);
  }
}

// With warps of another size each thread makes all weights for itself.
TEST_CASE("a warp shares the weights of a softmax over many elements, and the bits stay the same") {
  const Dim n(variable("chunks", 1, 64));
  const Tensor average = softmax_average(unsqueeze(input(0, {2, n}), 2), input(1, {2, n, 64}), 1);
  Machine others = kBlocks;
  others.warp_threads = kWarp / 2;
  for (int64_t chunks : {1, 5, 31, 32, 33, 64}) {
    const JudgedKernel kernel = kernel_of(sink({output(2, average)}), {{"chunks", chunks}});
    const KernelOpts opts{{local("o1", 64)}};
    CHECK(problem_with(kernel, opts, kBlocks) == "");
    CHECK(count(program_of(kernel, opts, kBlocks), Inst::WarpItem) > 0);
    CHECK(count(program_of(kernel, opts, others), Inst::WarpItem) == 0);
    CHECK(bits_with(kernel, opts, kBlocks) == bits_with(kernel, opts, others));
  }
}
