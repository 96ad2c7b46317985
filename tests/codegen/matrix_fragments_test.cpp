// Sums of bytes as products of matrices in the registers of a warp: which options make them, where their elements lie,
// and that they are the same sums.
#include "codegen/matrix_fragments.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "base/resident_blocks.h"
#include "codegen/instruction_views.h"
#include "graph/matrix_shape.h"
#include "schedule/tiles.h"
#include "support/byte_rows.h"
#include "support/judge.h"
#include "support/program_builder.h"
#include "support/small_graphs.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

const Machine kWarps = *known_machine("h100");

Opt dot(AxisName axis) { return {OptKind::Dot, axis.id, 4}; }

// Axes: o0 tokens, o1.0 rows by 8 or 16, o1.1 of these; of the sum r1.0 words, r1.1 bytes, r2 groups.
JudgedKernel product(int64_t lanes, int64_t words = 8) {
  return kernel_of(sink({output(9, grouped_product(16, 2 * lanes, 3, words, lanes))}));
}

// Tokens are rows of the unit, rows of the weight its columns.
const std::vector<Opt> kTokensAsRows{upcast("o1.1", 2), local("o1.10", 4), local("o0", 8),
                                     dot("r1.1"),       unroll("r1.0", 8), matrix("o0.0", 2)};
// The other way round.
const std::vector<Opt> kTokensAsColumns{split("o0", 8), upcast("o0.1", 2), local("o0.10", 4), local("o1.1", 8),
                                        dot("r1.1"),    unroll("r1.0", 8), matrix("o1.10", 2)};

std::vector<const Instruction*> all_of_kind(const Program& program, Inst kind) {
  std::vector<const Instruction*> found;
  for (const Instruction& x : program.code)
    if (x.kind == kind) found.push_back(&x);
  return found;
}

std::string reason(const JudgedKernel& k, std::vector<Opt> opts, const Machine& machine = kWarps) {
  const Opt last = opts.back();
  opts.pop_back();
  const LaneRules rules = lane_rules(machine);
  return why_not(apply_opts(prepared(k.tree, 0, machine), opts, rules), last, rules);
}

}  // namespace

TEST_CASE("sums of bytes become products of fragments, with either side as their rows") {
  struct Case {
    int64_t lanes;
    std::vector<Opt> opts;
    bool a_is_signed;
  };
  for (const Case& c : {Case{8, kTokensAsRows, true}, Case{16, kTokensAsColumns, false}}) {
    CAPTURE(to_string(c.opts));
    const JudgedKernel k = product(c.lanes);
    REQUIRE(reason(k, c.opts) == "");
    const Program p = program_of(k, {c.opts}, kWarps);
    const auto products = all_of_kind(p, Inst::MatrixDot);
    REQUIRE(!products.empty());
    for (const Instruction* x : products) {
      CHECK(x->src.size() == 6);
      CHECK(matrix_shape(*x).a_is_signed == c.a_is_signed);
    }
    CHECK(all_of_kind(p, Inst::MatrixItem).size() == 4 * products.size());
    CHECK(problem_with(k, {c.opts}, kWarps) == "");
    // The same bits as without the unit.
    std::vector<Opt> plain = c.opts;
    plain.back().kind = OptKind::Upcast;
    CHECK(all_of_kind(program_of(k, {plain}, kWarps), Inst::MatrixDot).empty());
    CHECK(bits_with(k, {c.opts}, kWarps) == bits_with(k, {plain}, kWarps));
  }
}

TEST_CASE("sums stay in the unit over the steps of a longer one") {
  const JudgedKernel k = product(8, 32);
  const Program p = program_of(k, {kTokensAsRows}, kWarps);
  const auto products = all_of_kind(p, Inst::MatrixDot);
  REQUIRE(!products.empty());
  for (const Instruction* x : products) CHECK(x->src.size() == 6 + 4);
  CHECK(problem_with(k, {kTokensAsRows}, kWarps) == "");
}

TEST_CASE("products begin with what is added to them, and go on with each other") {
  for (const auto& [words, products] : {std::pair<int64_t, size_t>{8, 1}, {16, 2}}) {
    CAPTURE(words);
    const Tensor raw = input(0, {2, 3, words, 8, 4}, DType::U8),
                 w = reshape(permute(raw, {0, 3, 1, 2, 4}), {1, 16, 3, words * 4}),
                 x = reshape(input(1, {16, 3, words * 4}, DType::I8), {16, 1, 3, words * 4}),
                 more = unsqueeze(input(2, {16, 3}, DType::I32), 1);
    const Tensor sums = sum(cast(w, DType::I32) * cast(x, DType::I32), -1) + more;
    const JudgedKernel k = kernel_of(
        sink({output(9, sum(cast(sums, DType::F32) * unsqueeze(permute(input(3, {3, 16}), {1, 0}), 0), -1))}));
    std::vector<Opt> opts = kTokensAsRows;
    opts[4].amount = words;
    REQUIRE(reason(k, opts) == "");
    const Program p = program_of(k, {opts}, kWarps);
    const auto found = all_of_kind(p, Inst::MatrixDot);
    CHECK(found.size() == products);
    for (const Instruction* product : found) CHECK(product->src.size() == 6 + 4);
    CHECK(problem_with(k, {opts}, kWarps) == "");
  }
}

TEST_CASE("so many words are written out as one short product takes, or several products") {
  for (const auto& [words, products] : {std::pair<int64_t, size_t>{4, 1}, {12, 3}, {16, 2}, {32, 4}}) {
    CAPTURE(words);
    const JudgedKernel k = product(8, words);
    std::vector<Opt> opts = kTokensAsRows;
    opts[4].amount = words;
    REQUIRE(reason(k, opts) == "");
    const Program p = program_of(k, {opts}, kWarps);
    const auto found = all_of_kind(p, Inst::MatrixDot);
    CHECK(found.size() == products);
    for (const Instruction* x : found) CHECK(matrix_shape(*x).k == (words % 8 ? 16 : 32));
    CHECK(problem_with(k, {opts}, kWarps) == "");
  }
}

TEST_CASE("threads take words of a matrix that lie side by side, and tokens share them") {
  const Dim tokens = Dim(variable("tokens32", 1, 4) * 32);
  const JudgedKernel k = kernel_of(sink({output(9, grouped_product(tokens, 256, 3, 8, 8))}), {{"tokens32", 2}});
  const std::vector<Opt> opts = choose_opts(prepared(k.tree, 0, kWarps), kWarps, false);
  const auto is_lane = [](const Opt& o) { return o == local("o1.1", 8); };
  CHECK(std::any_of(opts.begin(), opts.end(), is_lane));
  const Program p = program_of(k, {opts}, kWarps);
  const auto products = all_of_kind(p, Inst::MatrixDot);
  // Two tokens of a thread times two blocks of rows, and each word of a row in two products.
  std::map<int, int> uses;
  for (const Instruction* x : products)
    for (size_t i = 0; i < 4; ++i) ++uses[x->src[i]];
  REQUIRE(!uses.empty());
  for (const auto& [word, times] : uses) CHECK(times == 2);
  CHECK(problem_with(k, {opts}, kWarps) == "");
}

TEST_CASE("rows of a prompt go to as many warps as divide them, two blocks of 16 each where that is more") {
  const Dim tokens = Dim(variable("tokens32", 1, 4) * 32);
  const auto warps_of = [&](int64_t rows) {
    const JudgedKernel k = kernel_of(sink({output(9, grouped_product(tokens, rows, 3, 8, 8))}), {{"tokens32", 1}});
    const std::vector<Opt> opts = choose_opts(prepared(k.tree, 0, kWarps), kWarps, false);
    CHECK(problem_with(k, {opts}, kWarps) == "");
    return program_of(k, {opts}, kWarps).threads / kWarp;
  };
  CHECK(warps_of(576) == 6);
  CHECK(warps_of(1024) == 4);
  CHECK(warps_of(80) == 5);
  CHECK(warps_of(32) == 2);
}

// Of 8 tokens, whose words lie side by side as fragments want them.
static Tensor product_of_batch(int64_t rows, int64_t groups, int64_t first_weight = 0) {
  constexpr int64_t kTokens = 8, kLanes = 8, kWords = 8;
  const Tensor raw = input(first_weight, {rows / kLanes, groups, kWords, kLanes, 4}, DType::U8);
  const Tensor w = reshape(permute(raw, {0, 3, 1, 2, 4}), {1, rows, groups, 4 * kWords});
  const Tensor x = unsqueeze(permute(input(1, {groups, kTokens, 4 * kWords}, DType::I8), {1, 0, 2}), 1);
  const Tensor sums = cast(sum(cast(w, DType::I32) * cast(x, DType::I32), -1), DType::F32);
  const Tensor scale_w = unsqueeze(permute(input(first_weight + 2, {groups, rows}), {1, 0}), 0),
               scale_x = unsqueeze(input(3, {kTokens, groups}), 1);
  return sum(sums * scale_w * scale_x, -1);
}

TEST_CASE("warps of a batch share partial sums until a thread has few, or one each where their number is odd") {
  const auto warps_of = [&](int64_t groups) {
    const JudgedKernel k = kernel_of(sink({output(9, product_of_batch(32, groups))}));
    const std::vector<Opt> opts = choose_opts(prepared(k.tree, 0, kWarps), kWarps, false);
    CAPTURE(to_string(opts));
    CHECK(problem_with(k, {opts}, kWarps) == "");
    const Program p = program_of(k, {opts}, kWarps);
    CHECK(all_of_kind(p, Inst::MatrixDot).size() <= 10);  // for whose words there are registers
    return p.threads / kWarp;
  };
  CHECK(warps_of(64) == 8);    // 16 partial sums
  CHECK(warps_of(256) == 16);  // 64
  CHECK(warps_of(160) == 8);   // 40, of which 5 are left to a thread
  CHECK(warps_of(90) == 18);   // 18, or 9 for each thread
}

TEST_CASE("where a batch has many rows, blocks are small, and a warp multiplies its tokens with two blocks of rows") {
  Machine machine = kWarps;
  machine.tasks = 4;
  const auto warps_of = [&](Tensor product, size_t uses) {
    const JudgedKernel k = kernel_of(sink({output(9, product)}));
    const std::vector<Opt> opts = choose_opts(prepared(k.tree, 0, machine), machine, false);
    CAPTURE(to_string(opts));
    CHECK(problem_with(k, {opts}, machine) == "");
    const Program p = program_of(k, {opts}, machine);
    std::map<std::vector<int>, size_t> products;  // of the words of tokens
    for (const Instruction* x : all_of_kind(p, Inst::MatrixDot)) ++products[{x->src.begin() + 4, x->src.begin() + 6}];
    REQUIRE(!products.empty());
    for (const auto& [words, times] : products) CHECK(times == uses);
    return p.threads / kWarp;
  };
  CHECK(warps_of(product_of_batch(1024, 64), 2) == 4);
  CHECK(warps_of(product_of_batch(64, 64), 1) == 8);
  // Two products have no registers for that: each multiplies them once.
  const Tensor gate = product_of_batch(1024, 64), up = product_of_batch(1024, 64, 4);
  CHECK(warps_of(gate * up, 2) == 4);
}

TEST_CASE("blocks have the threads of a large product that runs beside what a tile makes") {
  Machine machine = kWarps;
  machine.processors = 16;
  machine.local_operations = machine.small_kernel_operations = 0;
  const auto threads_beside = [&](int64_t rows) {
    const Tensor sums = bytes_of_blocks(input(5, {160, 32, 32})).sums;
    const JudgedKernel k = kernel_of(sink({output(9, product_of_batch(rows, 64)), output(8, sums)}), {}, 0, machine);
    const auto is_of_tile = [](Ref nest) { return !tile_ranges(stores_of(nest)).empty(); };
    const Refs nests(k.tree->src.begin(), k.tree->src.end());
    CHECK(std::count_if(nests.begin(), nests.end(), is_of_tile) == static_cast<int64_t>(nests.size()) - 1);
    CHECK(problem_with(k, {}, machine) == "");
    return program_of(k, {}, machine).threads;
  };
  const JudgedKernel alone = kernel_of(sink({output(9, product_of_batch(1024, 64))}), {}, 0, machine);
  CHECK(program_of(alone, {}, machine).threads < machine.block_threads);
  CHECK(threads_beside(1024) == program_of(alone, {}, machine).threads);
  CHECK(threads_beside(64) == 256);  // as many as the tile wants
}

// Tiles of 16 tokens, each with the weights that its number in `ids` says.
static Tensor product_of_chosen(Dim tiles, int64_t rows, int64_t groups) {
  constexpr int64_t kChoices = 64, kLanes = 8, kWords = 8, kPlaces = 16;
  const Tensor ids = input(4, {tiles}, DType::I32);
  const Tensor raw = gather(input(0, {kChoices, rows / kLanes, groups, kWords, kLanes, 4}, DType::U8), ids);
  const Tensor w = reshape(permute(raw, {0, 1, 4, 2, 3, 5}), {tiles, 1, rows, groups, 4 * kWords});
  const Tensor x = unsqueeze(input(1, {tiles, kPlaces, groups, 4 * kWords}, DType::I8), 2);
  const Tensor sums = cast(sum(cast(w, DType::I32) * cast(x, DType::I32), -1), DType::F32);
  const Tensor scale_w = reshape(permute(input(2, {groups, rows}), {1, 0}), {1, 1, rows, groups}),
               scale_x = unsqueeze(input(3, {tiles, kPlaces, groups}), 2);
  return sum(sums * scale_w * scale_x, -1);
}

TEST_CASE("weights that are chosen by what was read are sent on chip rounds ahead, others are not") {
  const Dim tiles(variable("tiles", 1, 4));
  for (int64_t groups : {16, 48}) {
    const JudgedKernel k = kernel_of(sink({output(9, product_of_chosen(tiles, 64, groups))}), {{"tiles", 3}});
    const std::vector<Opt> opts = choose_opts(prepared(k.tree, 0, kWarps), kWarps, false);
    CAPTURE(to_string(opts));
    Machine without = kWarps, with_two_slots = kWarps;
    without.ring_bytes = 0;
    const Program p = program_of(k, {opts}, kWarps);
    CHECK(!all_of_kind(p, Inst::MatrixDot).empty());
    CHECK(!all_of_kind(p, Inst::Copy).empty());
    const int64_t slots = groups_left(*all_of_kind(p, Inst::CopyWait).at(0)) + 2;
    with_two_slots.ring_bytes = p.scratch_bytes / slots * 2 + kOnChipAlign;
    const Program two = program_of(k, {opts}, with_two_slots);
    CHECK(groups_left(*all_of_kind(two, Inst::CopyWait).at(0)) == 0);
    CHECK(all_of_kind(program_of(k, {opts}, without), Inst::Copy).empty());
    for (const Machine& machine : {kWarps, with_two_slots, without}) {
      CHECK(problem_with(k, {opts}, machine) == "");
      CHECK(bits_with(k, {opts}, machine) == bits_with(k, {opts}, without));
    }
  }
  const Dim tokens = Dim(variable("tokens32", 1, 4) * 32);
  const JudgedKernel shared = kernel_of(sink({output(9, grouped_product(tokens, 256, 16, 8, 8))}), {{"tokens32", 2}});
  const std::vector<Opt> opts = choose_opts(prepared(shared.tree, 0, kWarps), kWarps, false);
  CHECK(all_of_kind(program_of(shared, {opts}, kWarps), Inst::Copy).empty());
}

// The same for a batch: tiles of 8 places, whose words lie side by side as fragments want them.
static Tensor product_of_chosen_batch(int64_t tiles, int64_t rows, int64_t groups) {
  constexpr int64_t kChoices = 64, kLanes = 8, kWords = 8, kPlaces = 8;
  const Tensor raw =
      gather(input(0, {kChoices, rows / kLanes, groups, kWords, kLanes, 4}, DType::U8), input(4, {tiles}, DType::I32));
  const Tensor w = reshape(permute(raw, {0, 1, 4, 2, 3, 5}), {tiles, 1, rows, groups, 4 * kWords});
  const Tensor x = unsqueeze(permute(input(1, {tiles, groups, kPlaces, 4 * kWords}, DType::I8), {0, 2, 1, 3}), 2);
  const Tensor sums = cast(sum(cast(w, DType::I32) * cast(x, DType::I32), -1), DType::F32);
  return sum(sums * unsqueeze(permute(input(3, {tiles, groups, kPlaces}), {0, 2, 1}), 2), -1);
}

TEST_CASE("warps that share sums find their words on chip, where all blocks have room that registers leave") {
  Machine machine = kWarps, without = kWarps;
  machine.tasks = without.tasks = 1;
  without.ring_bytes = 0;
  for (int64_t groups : {32, 64}) {
    const JudgedKernel k = kernel_of(sink({output(9, product_of_chosen_batch(4, 64, groups))}));
    const std::vector<Opt> opts = choose_opts(prepared(k.tree, 0, machine), machine, false);
    CAPTURE(to_string(opts));
    const Program p = program_of(k, {opts}, machine);
    CHECK(std::any_of(opts.begin(), opts.end(), [](const Opt& opt) { return opt.kind == OptKind::Group; }));
    CHECK(!all_of_kind(p, Inst::Copy).empty());
    const int64_t blocks = resident_blocks(p.threads, true);
    CHECK(blocks > 1);
    CHECK(blocks * p.scratch_bytes < machine.processor_memory_bytes);
    CHECK(problem_with(k, {opts}, machine) == "");
    CHECK(bits_with(k, {opts}, machine) == bits_with(k, {opts}, without));
  }
}

TEST_CASE("few rounds of a ring are written out, many are a loop") {
  const Dim tiles(variable("tiles", 1, 4));
  // With four slots three rounds are on their way when a task begins.
  const auto count = [&](int64_t groups, Inst kind) {
    const JudgedKernel k = kernel_of(sink({output(9, product_of_chosen(tiles, 64, groups))}), {{"tiles", 3}});
    const Program p = program_of(k, {choose_opts(prepared(k.tree, 0, kWarps), kWarps, false)}, kWarps);
    return static_cast<int64_t>(all_of_kind(p, kind).size());
  };
  const int64_t of_round = count(16, Inst::Copy) / 4;  // as many for each of four rounds, and none behind
  CHECK(of_round > 0);
  CHECK(count(16, Inst::CopyWait) == 4);
  CHECK(count(16, Inst::Copy) == 4 * of_round);
  CHECK(count(16, Inst::CopyGroup) == 3 + 4);
  CHECK(count(24, Inst::CopyWait) == 1);
  CHECK(count(24, Inst::Copy) == (3 + 1) * of_round);
}

TEST_CASE("products of tiles that are not in use are not computed, also where all of their terms are written out") {
  const Dim tiles(variable("tiles", 1, 4));
  for (int64_t groups : {2, 32}) {
    const Tensor all = product_of_chosen(tiles, 64, groups);
    const Tensor is_used = less(cast(iota({tiles}, 0), DType::I32), input(5, {1}, DType::I32));
    const Tensor used = where(unsqueeze(unsqueeze(is_used, 1), 1), all, scalar(0));
    const JudgedKernel k = kernel_of(sink({output(9, used)}), {{"tiles", 3}});
    const std::vector<Opt> opts = choose_opts(prepared(k.tree, 0, kWarps), kWarps, false);
    CAPTURE(to_string(opts));
    int depth = 0, condition = 0, products = 0;  // depth of the loop that runs or not; 0: outside of it
    for (const Instruction& x : program_of(k, {opts}, kWarps).code) {
      if (x.kind == Inst::Loop && ++depth == 2) condition = depth;
      if (x.kind == Inst::EndLoop && depth-- == condition) condition = 0;
      if (x.kind != Inst::MatrixDot) continue;
      ++products;
      CHECK(condition > 0);  // inside of the loop over tasks
    }
    CHECK(products > 0);
    CHECK(problem_with(k, {opts}, kWarps) == "");
  }
}

TEST_CASE("what is no product of fragments has a reason") {
  const JudgedKernel k = product(8);
  CHECK(reason(k, {matrix("o0", 2)}) == "matrix: there are no sums of products of words");
  std::vector<Opt> opts = kTokensAsRows;
  opts[4].amount = 2;
  CHECK(reason(k, opts) == "matrix: 2 words are written out, a row of the unit has 8");
  CHECK(reason(k, {local("o1.1", 4), local("o0", 8), dot("r1.1"), unroll("r1.0", 8), matrix("o0.0", 2)}) ==
        "matrix: a thread does not have two neighbouring columns");
  CHECK(reason(k, {upcast("o1.1", 2), local("o0", 8), local("o1.10", 4), dot("r1.1"), unroll("r1.0", 8),
                   matrix("o0.0", 2)}) ==
        "matrix: a warp is not 8 threads along the rows of one side times 4 along the columns of the other");
  Machine without = kWarps;
  without.matrix_units.clear();
  CHECK(reason(k, kTokensAsRows, without) == "matrix: a thread has no unit for matrices of bytes");
}

TEST_CASE("options around products of fragments leave their sums as they are") {
  std::mt19937_64 rng(13);
  size_t with_products = 0, with_more = 0;
  for (int round = 0; round < 32; ++round) {
    const JudgedKernel k = kernel_of(sink({output(9, grouped_product(32, 32, 3, round % 2 ? 8 : 16, 8))}));
    std::vector<Opt> opts = kTokensAsRows;
    const LaneRules rules = lane_rules(kWarps);
    const std::vector<Opt> more =
        random_opts(apply_opts(prepared(k.tree, 0, kWarps), opts, rules), rng, 24, false, rules);
    opts.insert(opts.end(), more.begin(), more.end());
    CAPTURE(to_string(opts));
    with_products += !all_of_kind(program_of(k, {opts}, kWarps), Inst::MatrixDot).empty();
    with_more += more.size() >= 2;
    CHECK(problem_with(k, {opts}, kWarps) == "");
  }
  CHECK(with_products > 10);
  CHECK(with_more > 10);
}

// Every element of a fragment by the formulas of the PTX manual, element by element.
TEST_CASE("elements lie where the manual says, and are added to sums so far") {
  constexpr int kThreads = 32, kA = 4, kB = 2, kC = 4, kWords = kA + kB + kC;
  std::mt19937_64 rng(7);
  int a[16][32], b[32][8], c[16][8];
  for (auto& row : a)
    for (int& x : row) x = static_cast<int>(rng() % 256) - 128;
  for (auto& row : b)
    for (int& x : row) x = static_cast<int>(rng() % 256);
  for (auto& row : c)
    for (int& x : row) x = static_cast<int>(rng() % 2000) - 1000;
  const auto row_of_sum = [](int group, int i) { return i < 2 ? group : group + 8; };
  const auto column_of_sum = [](int in_group, int i) { return in_group * 2 + (i & 1); };
  std::vector<uint32_t> memory(kThreads * (kWords + kC));
  for (int t = 0; t < kThreads; ++t) {
    const int group = t >> 2, in_group = t % 4;
    uint32_t* mine = memory.data() + t * kWords;
    for (int i = 0; i < 4 * kA; ++i) {
      const int row = i < 4 || (i >= 8 && i < 12) ? group : group + 8;
      const int column = in_group * 4 + (i & 3) + (i < 8 ? 0 : 16);
      mine[i / 4] |= static_cast<uint32_t>(a[row][column] & 255) << (8 * (i % 4));
    }
    for (int i = 0; i < 4 * kB; ++i) {
      const int row = in_group * 4 + (i & 3) + (i < 4 ? 0 : 16);
      mine[kA + i / 4] |= static_cast<uint32_t>(b[row][group]) << (8 * (i % 4));
    }
    for (int i = 0; i < kC; ++i)
      mine[kA + kB + i] = static_cast<uint32_t>(c[row_of_sum(group, i)][column_of_sum(in_group, i)]);
  }
  test::ProgramBuilder p("product", 1, 0, kThreads);
  const int thread = p.thread_index(), begin = p.mul(thread, p.integer(4 * kWords));
  std::vector<int> operands;
  for (int r = 0; r < kWords; ++r)
    operands.push_back(p.load(r < kA + kB ? DType::U32 : DType::I32, 1, p.buffer(0), p.add2(begin, p.integer(4 * r))));
  const int dot = p.add({.kind = Inst::MatrixDot,
                         .dtype = DType::I32,
                         .src = operands,
                         .arg = {.list = MatrixShape{.m = 16, .n = 8, .k = 32, .in_fragments = true}.list()}});
  for (int r = 0; r < kC; ++r) {
    const int item = p.add({.kind = Inst::MatrixItem, .dtype = DType::I32, .src = {dot}, .arg = {.i = r}});
    p.store(p.buffer(0), p.add2(p.mul(thread, p.integer(4 * kC)), p.integer(4 * (kThreads * kWords + r))), item);
  }
  REQUIRE(problem_of(p.program()) == "");
  const ByteSpan buffers[] = {std::as_writable_bytes(std::span(memory))};
  const Status s = evaluate(p.program(), buffers, {}, 0, 1);
  REQUIRE_MESSAGE(s.ok(), (s ? "" : s.error().message));
  for (int t = 0; t < kThreads; ++t)
    for (int i = 0; i < kC; ++i) {
      const int row = row_of_sum(t >> 2, i), column = column_of_sum(t % 4, i);
      int sum = c[row][column];
      for (int k = 0; k < 32; ++k) sum += a[row][k] * b[k][column];
      CHECK(static_cast<int32_t>(memory[static_cast<size_t>(kThreads * kWords + kC * t + i)]) == sum);
    }
}
