// Sums of products of halves as products of a unit of four warps, whose columns lie on chip: which options make them,
// what brings the columns there, and that they are the sums that the graph says.
#include "codegen/matrix_halves.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "codegen/instruction_views.h"
#include "graph/matrix_shape.h"
#include "graph/rules_algebra.h"
#include "support/judge.h"
#include "support/program_builder.h"
#include "support/small_graphs.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

const Machine kWarpgroups = *known_machine("h100");

enum class Weights { Nibbles, WithMinima, Bytes, Signed, LongBlocks };
// How halves of tokens lie: as graph/matrix_shape.h says, or in the order of rows.
enum class Order { Quads, Rows };

Tensor f32(Tensor x) { return cast(x, DType::F32); }
Tensor rounded(Tensor x) { return f32(cast(x, DType::BF16)); }

int64_t block_of(Weights weights) { return weights == Weights::LongBlocks ? 256 : 32; }

// The integers of blocks: nibbles of 16 bytes, or bytes. [1, rows, blocks, block_of(weights)]
Tensor integers(Weights weights, int64_t rows, int64_t blocks) {
  const bool is_whole = weights != Weights::Nibbles && weights != Weights::WithMinima;
  const int64_t words = is_whole ? block_of(weights) / 4 : 4;
  const Tensor raw = input(0, {rows / 8, blocks, words, 8, 4}, weights == Weights::Signed ? DType::I8 : DType::U8);
  const Tensor bytes = reshape(permute(raw, {0, 3, 1, 2, 4}), {1, rows, blocks, 1, 4 * words});
  if (is_whole) return reshape(bytes, {1, rows, blocks, 4 * words});
  const std::vector<Dim> both{1, rows, blocks, 2, 16};
  const Tensor shift = cast(iota(both, 3) * 4.0, DType::U8);
  return reshape((expand(bytes, both) >> shift) & int64_t{15}, {1, rows, blocks, 32});
}

// Halves [tokens, k].
Tensor halves_of_tokens(Order order, Dim tokens, int64_t k) {
  const Dim eights = Dim(simplify(tokens.ref / 8));
  if (order == Order::Rows)
    return reshape(permute(input(1, {eights, k / 8, 8, 8}, DType::BF16), {0, 2, 1, 3}), {tokens, k});
  const Tensor quads = input(1, {eights, k / 16, 2, 8, 4, 2}, DType::BF16);
  return reshape(permute(quads, {0, 3, 1, 4, 5, 2}), {tokens, k});
}

// [tokens, rows] of sums over the blocks of rows, with what is multiplied as a prompt has it.
Tensor product(Weights weights, Dim tokens, int64_t rows, int64_t blocks, Order order) {
  const auto of_block = [&](int slot) {
    return reshape(permute(input(slot, {blocks, rows}, DType::F16), {1, 0}), {1, rows, blocks, 1});
  };
  const int64_t k = block_of(weights) * blocks;
  const Tensor integer = f32(integers(weights, rows, blocks));
  Tensor values = rounded((weights == Weights::Signed ? integer : integer - 8.0) * rounded(f32(of_block(2))));
  if (weights == Weights::WithMinima) values = rounded(values - rounded(f32(of_block(3))));
  return sum(reshape(values, {1, rows, k}) * f32(unsqueeze(halves_of_tokens(order, tokens, k), 1)), -1);
}

// Of one tile of tokens, if not said otherwise: they are judged slowly.
JudgedKernel kernel(Weights weights, int64_t rows, int64_t blocks = 8, Order order = Order::Quads, int64_t tiles = 1) {
  const Dim tokens = Dim(variable("tokens64", 1, 2) * 64);
  return kernel_of(sink({output(9, product(weights, tokens, rows, blocks, order))}), {{"tokens64", tiles}});
}

std::vector<Opt> chosen(const JudgedKernel& k, const Machine& machine = kWarpgroups) {
  return choose_opts(prepared(k.tree, 0, machine), machine, false);
}

std::vector<const Instruction*> all_of_kind(const Program& program, Inst kind) {
  std::vector<const Instruction*> found;
  for (const Instruction& x : program.code)
    if (x.kind == kind) found.push_back(&x);
  return found;
}

int64_t count_of(const Program& program, Op op) {
  return std::count_if(program.code.begin(), program.code.end(),
                       [&](const Instruction& x) { return x.kind == Inst::Value && x.op == op; });
}

}  // namespace

TEST_CASE("products of a prompt's halves are made by four warps, of columns that come on chip in bulk") {
  for (Weights weights : {Weights::Nibbles, Weights::WithMinima, Weights::Bytes, Weights::Signed}) {
    const JudgedKernel k = kernel(weights, 128, 8, Order::Quads, weights == Weights::Nibbles ? 2 : 1);
    const std::vector<Opt> opts = chosen(k);
    CAPTURE(to_string(opts));
    const Program p = program_of(k, {opts}, kWarpgroups);
    CHECK(p.threads == 256);
    const auto products = all_of_kind(p, Inst::MatrixDot);
    REQUIRE(products.size() == 1);
    const MatrixShape shape = matrix_shape(*products[0]);
    CHECK(shape.of_halves);
    CHECK(shape.n == 64);
    CHECK(shape.k == 128);
    CHECK(all_of_kind(p, Inst::MatrixItem).size() == 32);
    CHECK(!all_of_kind(p, Inst::BulkCopy).empty());
    CHECK(all_of_kind(p, Inst::SignalWait).size() == 1);
    CHECK(count_of(p, Op::ScaledHalves) == shape.a_words());
    CHECK(count_of(p, Op::LessHalves) == (weights == Weights::WithMinima ? shape.a_words() : 0));
    CHECK(count_of(p, Op::Halves) == 0);
    CHECK(problem_with(k, {opts}, kWarpgroups) == "");
  }
}

TEST_CASE("rounds of blocks that are longer are one loop, and are sent ahead as others are") {
  const JudgedKernel k = kernel(Weights::LongBlocks, 128, 3);
  const std::vector<Opt> opts = chosen(k);
  CAPTURE(to_string(opts));
  const Program p = program_of(k, {opts}, kWarpgroups);
  const auto products = all_of_kind(p, Inst::MatrixDot);
  REQUIRE(products.size() == 1);
  CHECK(matrix_shape(*products[0]).k == 128);
  CHECK(!all_of_kind(p, Inst::BulkCopy).empty());
  CHECK(all_of_kind(p, Inst::SignalWait).size() == 1);
  CHECK(problem_with(k, {opts}, kWarpgroups) == "");
}

TEST_CASE("where a thread does not have all bytes of a word, they are numbers before they are halves") {
  const JudgedKernel k = kernel(Weights::Nibbles, 128, 8, Order::Rows);
  const std::vector<Opt> opts = chosen(k);
  const Program p = program_of(k, {opts}, kWarpgroups);
  const auto products = all_of_kind(p, Inst::MatrixDot);
  REQUIRE(products.size() == 1);
  CHECK(count_of(p, Op::Halves) == matrix_shape(*products[0]).a_words());
  CHECK(count_of(p, Op::ScaledHalves) == 0);
  CHECK(problem_with(k, {opts}, kWarpgroups) == "");
}

TEST_CASE("as many groups of four warps as the rows have, and none where they have not four times 16") {
  const auto threads_of = [&](int64_t rows) {
    const JudgedKernel k = kernel(Weights::Nibbles, rows);
    const std::vector<Opt> opts = chosen(k);
    CAPTURE(to_string(opts));
    CHECK(problem_with(k, {opts}, kWarpgroups) == "");
    const Program p = program_of(k, {opts}, kWarpgroups);
    return all_of_kind(p, Inst::MatrixDot).empty() ? 0 : p.threads;
  };
  CHECK(threads_of(64) == 128);
  CHECK(threads_of(192) == 128);
  CHECK(threads_of(256) == 256);
  CHECK(threads_of(32) == 0);
}

TEST_CASE("without room on chip for the columns there are no such products, and the sums are right all the same") {
  const JudgedKernel k = kernel(Weights::Nibbles, 64);
  Machine without = kWarpgroups, too_small = kWarpgroups;
  without.ring_bytes = 0;
  too_small.ring_bytes = 16 << 10;  // of one round
  CHECK(unit_for_halves(without) == nullptr);
  for (const Machine& machine : {without, too_small}) {
    const std::vector<Opt> opts = chosen(k, machine);
    CHECK(all_of_kind(program_of(k, {opts}, machine), Inst::MatrixDot).empty());
    CHECK(problem_with(k, {opts}, machine) == "");
  }
}

namespace {

// Attention of tokens over keys u8 and values i8 as a cache has them (model/byte_cache.h), in chunks of 256 positions.
// [tokens, heads, width]
Tensor attention_by_halves(Dim tokens, int64_t heads, int64_t width, int64_t rows) {
  const Dim length = Dim(variable("chunks", 1, 2) * 256);
  const auto first = [&](Tensor x) { return slice(x, 0, 0, length); };
  const Tensor keys = reshape(permute(input(1, {rows / 16, width / 4, 16, 4}, DType::U8), {0, 2, 1, 3}), {rows, width}),
               values = reshape(permute(input(2, {rows / 64, 16, width, 4}, DType::I8), {0, 1, 3, 2}), {rows, width});
  const Tensor columns = place(place(cast(input(0, {tokens, heads, width}), DType::BF16)));
  const Tensor key = cast(f32(first(keys)) - 128.0, DType::BF16);
  const Tensor score = sum(f32(unsqueeze(columns, 2)) * f32(key), -1) * first(input(3, {rows})) * 0.01;
  const Tensor position = unsqueeze(cast(input(4, {tokens}, DType::I32), DType::I64), 1);
  const Tensor above = less(position, unsqueeze(iota({length}, 0), 0));
  const Tensor masked = where(unsqueeze(above, 1), scalar(-1e30), score);
  const Tensor scale = reshape(first(input(5, {rows})), {1, 1, length, 1});
  return softmax_average_of_bytes(unsqueeze(masked, 3), first(values), scale, 2, kHalvesTimesScale);
}

// Of eight tokens, in both chunks.
void put_positions(JudgedKernel& k) {
  const std::array<int32_t, 8> positions{0, 7, 255, 256, 300, 301, 510, 511};
  for (Bytes& buffer : k.buffers)
    if (buffer.size() == sizeof positions) std::memcpy(buffer.data(), positions.data(), sizeof positions);
}

}  // namespace

TEST_CASE("an attention of a prompt multiplies keys and values by what its tile has on chip") {
  const Dim tokens = Dim(variable("tokens8", 1, 2) * 8);
  JudgedKernel k = kernel_of(sink({output(9, attention_by_halves(tokens, 4, 64, 512) * 2.0)}),
                             {{"chunks", 2}, {"tokens8", 1}}, 1, kWarpgroups);
  put_positions(k);
  const Program p = program_of(k, {}, kWarpgroups);
  const auto products = all_of_kind(p, Inst::MatrixDot);
  REQUIRE(products.size() == 2);
  for (const Instruction* product : products) {
    CHECK(matrix_shape(*product).of_halves);
    CHECK(matrix_shape(*product).n == 32);  // 8 tokens of 4 heads
  }
  // What threads store is shown to the unit: queries once, weights in each chunk.
  const auto barriers = all_of_kind(p, Inst::Barrier);
  CHECK(std::count_if(barriers.begin(), barriers.end(), [](const Instruction* x) { return shows_unit(*x); }) >= 2);
  CHECK(all_of_kind(p, Inst::BulkCopy).empty());
  CHECK(problem_with(k, {}, kWarpgroups) == "");
}

TEST_CASE("an attention of a batch multiplies chunk by chunk, all heads of a token at once") {
  JudgedKernel k =
      kernel_of(sink({output(9, attention_by_halves(8, 24, 64, 512) * 2.0)}), {{"chunks", 2}}, 1, kWarpgroups);
  put_positions(k);
  // Else a weight lies between two halves, which sums in float and in double round to one and to the other.
  for (Bytes& buffer : k.buffers)
    if (buffer.size() == 512 * 64) std::rotate(buffer.begin(), buffer.begin() + 256, buffer.end());
  const Program p = program_of(k, {}, kWarpgroups);
  const auto products = all_of_kind(p, Inst::MatrixDot);
  REQUIRE(products.size() == 2);
  for (const Instruction* product : products) CHECK(matrix_shape(*product).n == 24);
  CHECK(problem_with(k, {}, kWarpgroups) == "");
}

namespace {

// Threads send 32 bytes of a buffer on chip, wait for round `waits_for` of the signal, and load a word of it.
Program program_of_signal(int64_t copies, int64_t waits_for) {
  constexpr int kThreads = 32;
  test::ProgramBuilder p("signal", 1, 64, kThreads);
  const int memory = p.buffer(0), chip = p.scratch(0), signal = p.scratch(32), zero = p.integer(0),
            thread = p.thread_index(), is_first = p.op(Op::Lt, {thread, p.integer(1)});
  p.add({.kind = Inst::SignalInit, .src = {signal, zero}, .arg = {.i = copies}});
  p.add({.kind = Inst::Barrier});
  p.add({.kind = Inst::BulkCopy, .src = {memory, zero, chip, zero, signal, zero, is_first}, .arg = {.i = 32}});
  if (waits_for >= 0) p.add({.kind = Inst::SignalWait, .src = {signal, zero, p.integer(waits_for)}});
  p.add({.kind = Inst::Barrier});  // which the rounds of a ring have in any case
  const int word = p.load(DType::U32, 1, chip, p.integer(4)), at = p.add2(p.mul(thread, p.integer(4)), p.integer(32));
  p.store(memory, at, word);
  return p.program();
}

std::string problem_of_signal(int64_t copies, int64_t waits_for) {
  std::vector<uint32_t> memory(8 + 32, 0);
  for (uint32_t i = 0; i < 8; ++i) memory[i] = 100 + i;
  const Program program = program_of_signal(copies, waits_for);
  REQUIRE(problem_of(program) == "");
  const ByteSpan buffers[] = {std::as_writable_bytes(std::span(memory))};
  const Status s = evaluate(program, buffers, {}, 0, 1);
  if (!s.ok()) return s.error().message;
  for (size_t i = 8; i < memory.size(); ++i) CHECK(memory[i] == 101);
  return "";
}

}  // namespace

TEST_CASE("what copies in bulk send is there when their signal was waited for, and not before") {
  CHECK(problem_of_signal(1, 0) == "");
  CHECK(problem_of_signal(1, -1).find("is read before it is written") != std::string::npos);
  CHECK(problem_of_signal(2, 0).find("it waits for copies that nobody sends") != std::string::npos);
  CHECK(problem_of_signal(1, 1).find("the rounds before it were not waited for") != std::string::npos);
}
