// Tiles: what one task of an attention does with a chunk of positions.
#include "schedule/tiles.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "graph/range_kind.h"
#include "graph/rules_algebra.h"
#include "graph/views.h"
#include "schedule/copy_columns.h"
#include "schedule/mask_limit.h"
#include "schedule/schedule.h"
#include "support/small_graphs.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

// Attention of `heads` over rows of 16, of which 8 are values; chunks of 32.
Ref small_attention(int64_t heads) {
  const Dim length = Dim(Dim(variable("chunks", 1, 8)).ref * 32);
  return sink({output(9, attention(input(0, {heads, 16}), input(1, {256, 16}), input(2, {1}, DType::I32), length, 8))});
}

// The same for many tokens.
Tensor attention_of_rows(Dim tokens, int64_t heads) {
  const Dim length = Dim(Dim(variable("chunks", 1, 8)).ref * 32);
  return attention_of_tokens(input(0, {tokens, heads, 16}), input(1, {256, 16}), input(2, {tokens}, DType::I32), length,
                             8);
}

Dim many_tokens() { return Dim(variable("tokens8", 1, 64) * 8); }

TileTensors scores_of(std::vector<Dim> shape, int axis) {
  const Tensor x = input(0, std::move(shape));
  return {.axis = axis, .chunk = 256, .inner = {x.ref()}, .results = {}, .sums = {}};
}

std::vector<int64_t> extents(std::vector<Dim> shape, int axis, int64_t bytes) {
  return shape_of_tile(scores_of(std::move(shape), axis), {.tile_bytes = bytes}).extents;
}

Refs tile_nests(const Kernel& kernel) {
  Refs out;
  for (Ref nest : nests_of(kernel))
    if (!tile_ranges(nest->src).empty()) out.push_back(nest);
  return out;
}

}  // namespace

TEST_CASE(
    "where processors would have several tiles of a context in turn, a tile has more heads than a unit has columns") {
  const Machine machine = *known_machine("h200");
  CHECK(wide_chunks(machine, 1, 20) == 2 * 132 / 3);
  CHECK(wide_chunks(machine, 8, 20) == 2 * 132 / 24);
  CHECK(wide_chunks(machine, 1, 8) > 1 << 20);
  CHECK(wide_chunks(*known_machine("zen4"), 1, 20) > 1 << 20);
  const auto shape = [&](int64_t tokens, int64_t heads, int64_t chunks) {
    const std::vector<Dim> dims{tokens, heads, Dim(variable("chunks", 1, chunks)), 256};
    const Tensor scores = input(0, dims), weights = input(1, dims, DType::U8);
    return shape_of_tile({.axis = 2, .chunk = 256, .inner = {scores.ref(), weights.ref()}}, machine);
  };
  CHECK(shape(1, 24, 88).extents == std::vector<int64_t>{1, 8, 1});
  CHECK(shape(1, 24, 89).extents == std::vector<int64_t>{1, 24, 1});
  CHECK(shape(8, 24, 12).extents == std::vector<int64_t>{1, 24, 1});
  CHECK(shape(1, 64, 89).extents == std::vector<int64_t>{1, 16, 1});  // more sums have no room
}

TEST_CASE("heads that a unit multiplies with bytes go on chip first, in short and in long contexts") {
  const auto copies = [](DType weights, const char* machine) {
    const std::vector<Dim> dims{1, 24, Dim(variable("chunks", 1, 13)), 256};
    const Ref scores = input(0, dims).ref(), weighted = input(1, dims, weights).ref();
    return shape_of_tile({.axis = 2, .chunk = 256, .inner = {scores, weighted}}, *known_machine(machine))
        .copies_columns;
  };
  CHECK(copies(DType::U8, "h200"));
  CHECK_FALSE(copies(DType::F32, "h200"));
  CHECK_FALSE(copies(DType::U8, "zen4"));
  CHECK_FALSE(copies(DType::U8, "m3-max"));  // a token alone goes without its unit
}

TEST_CASE("columns are copied if each warp would read much of them again") {
  const auto copies = [](int64_t terms) {
    const Ref chunk = make_range(output_range(0), constant(4), RangeKind::Tile),
              head = make_range(output_range(1), constant(8), RangeKind::Loop),
              position = make_range(output_range(2), constant(256), RangeKind::Loop),
              term = make_range(kFirstReduceRange, constant(terms), RangeKind::Reduce);
    const auto row = [&](int64_t slot, Ref rows) {
      return make_load(DType::F32, make(Op::Param, DType::Void, {}, {.i = slot}),
                       simplify(rows * (4 * terms) + term * 4));
    };
    const Ref score = make_reduce(Op::ReduceSum, DType::F32, {row(1, head) * row(2, position)}, Refs{term});
    const Ref store = make_store(make(Op::Param, DType::Void, {}, {.i = 3}), simplify(head * 1024 + position * 4),
                                 score, Refs{chunk, head, position});
    return copy_columns(store, 0, [](int64_t bytes) { return make(Op::Local, DType::Void, {}, {.list = {bytes}}); });
  };
  CHECK(copies(64).copies.empty());
  const CopiedColumns copied = copies(128);
  REQUIRE(copied.copies.size() == 1);
  const auto reads = [](Ref store, int64_t slot) {
    const Refs nodes = toposort(store);
    return std::any_of(nodes.begin(), nodes.end(), [&](Ref n) {
      return n->op == Op::Load && LoadView(n).buffer->op == Op::Param && LoadView(n).buffer->arg.i == slot;
    });
  };
  CHECK(reads(copied.copies[0], 1));
  CHECK_FALSE(reads(copied.store, 1));  // each position is read once
  CHECK(reads(copied.store, 2));
}

TEST_CASE("a tile holds as many rows as its memory takes, from the last axis on") {
  const Ref chunks = variable("chunks", 1, 8), tokens = variable("tokens8", 1, 8);
  CHECK(extents({20, Dim(chunks), 256}, 1, 10 << 10) == std::vector<int64_t>{10, 1});
  // Never all, if it can be halved: a single chunk is work for two.
  CHECK(extents({20, Dim(chunks), 256}, 1, 32 << 10) == std::vector<int64_t>{10, 1});
  CHECK(extents({15, Dim(chunks), 256}, 1, 32 << 10) == std::vector<int64_t>{15, 1});
  CHECK(extents({20, Dim(chunks), 256}, 1, 16) == std::vector<int64_t>{1, 1});
  // Of an axis of unknown length what is known to divide it.
  CHECK(extents({2, Dim(tokens * 8), Dim(chunks), 256}, 2, 8 << 10) == std::vector<int64_t>{1, 8, 1});
  CHECK(extents({2, Dim(tokens * 8), Dim(chunks), 256}, 2, 16 << 10) == std::vector<int64_t>{2, 8, 1});
}

TEST_CASE("scores and weights of a chunk stay on chip, and all steps share the loop over chunks") {
  const Schedule schedule = make_schedule(small_attention(6));
  REQUIRE(schedule.kernels.size() == 2);
  const Refs nests = tile_nests(schedule.kernels[0]);
  CHECK(nests.size() == 6);
  for (Ref nest : nests) CHECK(tile_ranges(nest->src) == tile_ranges(nests[0]->src));
  const auto on_chip = std::count_if(nests.begin(), nests.end(),
                                     [](Ref nest) { return StoreView(nest->src[0]).buffer->op == Op::Local; });
  CHECK(on_chip == 3);  // scores, maxima, weights
  CHECK(tile_nests(schedule.kernels[1]).empty());
}

TEST_CASE("positions behind the last that counts are left out") {
  const Schedule schedule = make_schedule(small_attention(6));
  const Ref scores = tile_nests(schedule.kernels[0])[0]->src[0];
  const Ref positions = scores->src.back();
  CHECK(!const_int(positions->src[0]));
  CHECK(positions->src[0]->max == 32);
  // As many in every step that reads them.
  for (Ref nest : tile_nests(schedule.kernels[0]))
    for (Ref r : ranges_of(nest->src[0]))
      if (!const_int(r->src[0]) && static_cast<RangeKind>(r->arg.list[0]) != RangeKind::Tile)
        CHECK(r->src[0] == positions->src[0]);
}

TEST_CASE("a mask of two conditions ends where one of them does, and has no other limit") {
  const Ref position = make_range(0, constant(256), RangeKind::Loop), own = variable("own", 0, 1000);
  const Ref behind = binary(Op::Lt, own, position), before = binary(Op::Lt, simplify(position + 39), own);
  const Ref outside = binary(Op::Or, before, behind);
  const Mask mask{outside, false}, inside{unary(Op::Not, outside), true};
  CHECK(!limit_of(mask, position));
  REQUIRE(end_of(mask, position));
  CHECK(*end_of(mask, position) == simplify(own + 1));
  CHECK(end_of(inside, position) == end_of(mask, position));
  CHECK(!end_of({before, false}, position));
  CHECK(!end_of({outside, true}, position));
  CHECK(end_of({behind, false}, position) == limit_of({behind, false}, position));
}

TEST_CASE("with many rows a tile goes over the chunks and nothing of a chunk reaches memory") {
  const Schedule schedule = make_schedule(sink({output(9, attention_of_rows(many_tokens(), 4) * 2.0)}));
  REQUIRE(schedule.kernels.size() == 1);
  CHECK(schedule.temps.empty());
  const Refs nests = tile_nests(schedule.kernels[0]);
  std::vector<bool> in_chunk;
  for (Ref nest : nests) {
    CHECK(tile_ranges(nest->src) == tile_ranges(nests[0]->src));
    in_chunk.push_back(static_cast<bool>(chunk_range(nest->src)));
  }
  // What the chunks begin with, the chunks, the result.
  CHECK(!in_chunk.front());
  CHECK(!in_chunk.back());
  CHECK(std::count(in_chunk.begin(), in_chunk.end(), false) == 4);
  const auto first = std::find(in_chunk.begin(), in_chunk.end(), true);
  CHECK(std::find(std::find(first, in_chunk.end(), false), in_chunk.end(), true) == in_chunk.end());
  // Chunks behind the last position that counts are left out.
  const Ref chunks = chunk_range(nests[static_cast<size_t>(first - in_chunk.begin())]->src);
  CHECK(chunks->src[0]->op == Op::Min);
}

TEST_CASE("few rows, and sums that are used in another way, leave each chunk a tile of its own") {
  const Tensor few = attention_of_rows(Dim(16), 4);
  CHECK(make_schedule(sink({output(9, few)})).kernels.size() == 2);
  // The greatest of all tokens: not made row by row.
  const Tensor many = attention_of_rows(many_tokens(), 4);
  for (Ref nest : nests_of(make_schedule(sink({output(9, max(many, 0))})).kernels[0])) CHECK(!chunk_range(nest->src));
}

TEST_CASE("a chunk has as many tasks as the machine asks for, where its rows can be halved") {
  const Ref chunks = variable("chunks", 1, 8);
  const auto tasks = [&](int64_t wanted) {
    const TileTensors scores = scores_of({16, Dim(chunks), 256}, 1);
    return 16 / shape_of_tile(scores, {.chunk_tasks = wanted, .tile_bytes = 64 << 10}).extents[0];
  };
  CHECK(tasks(1) == 1);
  CHECK(tasks(2) == 2);
  CHECK(tasks(5) == 8);
  CHECK(tasks(100) == 16);
}

TEST_CASE("tokens of a prompt come into a tile first, as many as a unit has columns; then heads") {
  const Ref chunks = variable("chunks", 1, 8);
  const TileTensors scores = scores_of({many_tokens(), 20, Dim(chunks), 256}, 2);
  const TileShape on_gpu = shape_of_tile(scores, *known_machine("h100"));
  CHECK(on_gpu.extents == std::vector<int64_t>{8, 2, 1});
  CHECK(on_gpu.step == 256);
  CHECK(shape_of_tile(scores, {.tile_bytes = 8 << 10}).extents == std::vector<int64_t>{1, 5, 1});
}

TEST_CASE("of the heads of one token a tile has as many as the machine says, those of one key first") {
  const Ref chunks = variable("chunks", 1, 64);
  const auto extents = [&](std::vector<Dim> shape, int axis) {
    return shape_of_tile(scores_of(std::move(shape), axis), *known_machine("h100")).extents;
  };
  CHECK(extents({1, 20, Dim(chunks), 256}, 2) == std::vector<int64_t>{1, 4, 1});
  CHECK(extents({1, 8, 8, Dim(chunks), 256}, 3) == std::vector<int64_t>{1, 1, 4, 1});
  CHECK(extents({1, 8, 3, Dim(chunks), 256}, 3) == std::vector<int64_t>{1, 1, 3, 1});
  CHECK(extents({8, 8, 2, Dim(chunks), 256}, 3) == std::vector<int64_t>{1, 2, 2, 1});
}

TEST_CASE("in a short context as few heads, but two, as leave a task to each processor") {
  const auto extents = [&](std::vector<Dim> shape, int axis) {
    return shape_of_tile(scores_of(std::move(shape), axis), *known_machine("h100")).extents;
  };
  const Ref few = variable("chunks", 1, 6), more = variable("chunks", 1, 13);
  CHECK(extents({1, 20, Dim(few), 256}, 2) == std::vector<int64_t>{1, 2, 1});
  CHECK(extents({1, 20, Dim(more), 256}, 2) == std::vector<int64_t>{1, 2, 1});
  CHECK(extents({1, 8, 3, Dim(more), 256}, 3) == std::vector<int64_t>{1, 1, 3, 1});
  CHECK(extents({1, 8, 8, Dim(more), 256}, 3) == std::vector<int64_t>{1, 1, 4, 1});
}

TEST_CASE("long contexts are wide where a block has room for a tile of many heads") {
  constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  CHECK(wide_chunks(*known_machine("h100"), 1, 20) == 88);
  CHECK(wide_chunks(*known_machine("h100"), 1, 8) == kNever);
  CHECK(wide_chunks(*known_machine("m3-max"), 1, 20) == kNever);
}

TEST_CASE("a block computes all positions of a chunk side by side where tokens are few") {
  const Ref chunks = variable("chunks", 1, 8);
  CHECK(shape_of_tile(scores_of({1, 20, Dim(chunks), 256}, 2), *known_machine("h100")).step == 256);
  TileTensors of_page = scores_of({1, 20, Dim(chunks), 64}, 2);
  of_page.chunk = 64;
  CHECK(shape_of_tile(of_page, *known_machine("h100")).step == 64);
  const Machine machine{.parallelism = Parallelism::Threads, .tile_positions = 64};
  CHECK(shape_of_tile(scores_of({1, 20, Dim(chunks), 256}, 2), machine).step == 64);
}

TEST_CASE("positions that a mask leaves are counted in steps of what a matrix unit multiplies at once") {
  const Ref chunks = variable("chunks", 1, 8);
  const auto step = [&](const Machine& machine, int64_t chunk) {
    TileTensors scores = scores_of({1, 20, Dim(chunks), chunk}, 2);
    scores.chunk = chunk;
    return shape_of_tile(scores, machine).step;
  };
  CHECK(step(*known_machine("sapphire-rapids"), 256) == 64);
  CHECK(step(*known_machine("sapphire-rapids"), 96) == 16);
  CHECK(step(*known_machine("zen4"), 256) == 16);
}

TEST_CASE("where tokens are few, chunks are as short as the machine says") {
  const auto tree = [](Tensor attention, int64_t positions) {
    const Schedule schedule = make_schedule(sink({output(9, attention)}), Machine{.chunk_positions = positions});
    return schedule.kernels[0].tree;
  };
  const Tensor few = attention_of_rows(Dim(1), 4), many = attention_of_rows(many_tokens(), 4);  // in chunks of 32
  CHECK(tree(few, 16) != tree(few, 0));
  CHECK(tree(few, 32) == tree(few, 0));
  CHECK(tree(few, 64) == tree(few, 0));
  CHECK(tree(few, 12) == tree(few, 0));  // is no divisor
  CHECK(tree(many, 16) == tree(many, 0));
}

TEST_CASE("odd rows of a chunk are cut where blocks of threads want many tasks") {
  const Ref chunks = variable("chunks", 1, 8);
  const auto tasks = [&](Parallelism parallelism) {
    const Machine machine{.parallelism = parallelism, .chunk_tasks = 10, .tile_bytes = 64 << 10};
    return 20 / shape_of_tile(scores_of({20, Dim(chunks), 256}, 1), machine).extents[0];
  };
  CHECK(tasks(Parallelism::Vectors) == 4);
  CHECK(tasks(Parallelism::Threads) == 20);
}
