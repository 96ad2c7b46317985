// Index arithmetic in 32 bits: where it is, and that it reaches every byte of a weight beyond 4 GiB.
#include "codegen/narrow_indices.h"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <algorithm>

#include "codegen/instruction_views.h"
#include "codegen/known_bounds.h"
#include "graph/rules_algebra.h"
#include "support/judge.h"
#include "support/small_graphs.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

const Machine kBlocks{.parallelism = Parallelism::Threads, .block_threads = 256, .warp_threads = kWarp};
const Machine kVectors{};

Ref slot(int64_t number) { return make(Op::Param, DType::Void, {}, {.i = number}); }

// out[r] = w[r * step + first], byte by byte
Ref one_byte_a_row(int64_t rows, int64_t step, int64_t first) {
  const Ref row = make_range(64, constant(rows), RangeKind::Loop);
  const Ref byte = make(Op::Load, DType::U8, {slot(1), simplify(row * step + first)});
  return sink({sink({make(Op::Store, DType::Void, {slot(0), row, byte, row})})});
}

// out[r] = w[index[0] * step + r * 3]
Ref a_chosen_row(int64_t rows, int64_t step) {
  const Ref row = make_range(64, constant(rows), RangeKind::Loop);
  const Ref chosen = cast(make(Op::Load, DType::I32, {slot(2), constant(0)}), DType::I64);
  const Ref byte = make(Op::Load, DType::U8, {slot(1), simplify(chosen * step + row * 3)});
  return sink({sink({make(Op::Store, DType::Void, {slot(0), row, byte, row})})});
}

Program made(Ref tree, const std::vector<Opt>& opts, const Machine& machine) {
  return generate({.tree = tree, .name = "kernel", .machine = machine, .opts = {opts}}).program;
}

const Instruction& offset_of_weight(const Program& p) {
  for (const Instruction& x : p.code)
    if (x.kind == Inst::Load && p.code[static_cast<size_t>(x.src[0])].arg.i == 1)
      return p.code[static_cast<size_t>(x.src[1])];
  REQUIRE(false);
  return p.code[0];
}

int64_t wide_multiplications(const Program& p) {
  return std::count_if(p.code.begin(), p.code.end(), [](const Instruction& x) {
    return x.kind == Inst::Value && x.op == Op::Mul && x.dtype == DType::I64;
  });
}

int64_t converted_constants(const Program& p) {
  return std::count_if(p.code.begin(), p.code.end(), [&](const Instruction& x) {
    return x.kind == Inst::Value && x.op == Op::Cast && is_constant(p.code[static_cast<size_t>(x.src[0])]);
  });
}

// Memory of any size, of which only what is written to exists.
class LargeMemory {
 public:
  explicit LargeMemory(int64_t bytes)
      : bytes_(static_cast<size_t>(bytes)),
        data_(::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    REQUIRE(data_ != MAP_FAILED);
  }
  ~LargeMemory() { ::munmap(data_, bytes_); }
  LargeMemory(const LargeMemory&) = delete;
  LargeMemory& operator=(const LargeMemory&) = delete;
  ByteSpan span() { return {static_cast<std::byte*>(data_), bytes_}; }

 private:
  size_t bytes_;
  void* data_;
};

}  // namespace

TEST_CASE("offsets are i32 up to the last byte that they reach, on a GPU all and on a CPU those of vectors") {
  const std::vector<Opt> lanes{local("o0", 8)};
  // The last row begins at byte 2^31 - 1, and at 2^31.
  const Ref fits = one_byte_a_row(8, 1 << 28, (1 << 28) - 1), does_not = one_byte_a_row(8, 1 << 28, 1 << 28);
  for (const Machine& machine : {kBlocks, kVectors}) {
    CHECK(offset_of_weight(made(fits, lanes, machine)).dtype == DType::I32);
    CHECK(offset_of_weight(made(does_not, lanes, machine)).dtype == DType::I64);
  }
  CHECK(offset_of_weight(made(fits, lanes, kVectors)).lanes == 8);
  CHECK(offset_of_weight(made(fits, {}, kVectors)).dtype == DType::I64);
  CHECK(wide_multiplications(made(fits, {}, kVectors)) > 0);
}

TEST_CASE("every byte of a weight of more than 4 GiB is found") {
  constexpr int64_t kRows = 8, kStep = kGiB, kFirst = 5;
  LargeMemory weight(kRows * kStep);
  for (int64_t r = 0; r < kRows; ++r) weight.span()[static_cast<size_t>(r * kStep + kFirst)] = std::byte(r + 1);
  const Ref tree = one_byte_a_row(kRows, kStep, kFirst);
  for (const Machine& machine : {kBlocks, kVectors})
    for (const std::vector<Opt>& opts : {std::vector<Opt>{}, {local("o0", 8)}, {upcast("o0", 4)}, {task("o0")}}) {
      Bytes out(kRows);
      const ByteSpan buffers[] = {out, weight.span()};
      const Status s = evaluate(made(tree, opts, machine), buffers, {}, 0, 1);
      CHECK_MESSAGE(s.ok(), (s ? "" : s.error().message));
      for (int64_t r = 0; r < kRows; ++r) CHECK(out[static_cast<size_t>(r)] == std::byte(r + 1));
    }
}

TEST_CASE("an index from memory is multiplied in 64 bits, what is added to it in 32") {
  constexpr int64_t kRows = 8, kStep = kGiB;
  LargeMemory weight(6 * kStep);
  const int32_t chosen = 5;
  for (int64_t r = 0; r < kRows; ++r) weight.span()[static_cast<size_t>(chosen * kStep + 3 * r)] = std::byte(r + 1);
  const Ref tree = a_chosen_row(kRows, kStep);
  for (const std::vector<Opt>& opts : {std::vector<Opt>{}, {local("o0", 8)}, {upcast("o0", 4)}, {task("o0")}}) {
    const Program p = made(tree, opts, kBlocks);
    CHECK(offset_of_weight(p).dtype == DType::I64);
    CHECK(wide_multiplications(p) == 1);
    CHECK(converted_constants(p) == 0);  // or nobody would see which loads are neighbours
    Bytes out(kRows), index(4);
    std::memcpy(index.data(), &chosen, 4);
    const ByteSpan buffers[] = {out, weight.span(), index};
    const Status s = evaluate(p, buffers, {}, 0, 1);
    CHECK_MESSAGE(s.ok(), (s ? "" : s.error().message));
    for (int64_t r = 0; r < kRows; ++r) CHECK(out[static_cast<size_t>(r)] == std::byte(r + 1));
  }
}

TEST_CASE("symbols, loops and parts have the bounds that the kernel's tree says") {
  const Dim tokens(variable("T", 1, 64));
  const JudgedKernel kernel = kernel_of(sink({output(2, input(0, {tokens, 32}) + input(1, {tokens, 32}))}), {{"T", 3}});
  const Program p = program_of(kernel, {{local("o1", 32), task("o0")}}, kBlocks);
  const std::vector<Bounds> bounds = known_bounds(p);
  bool has_symbol = false;
  for (size_t i = 0; i < p.code.size(); ++i) {
    if (p.code[i].kind == Inst::Symbol) CHECK(bounds[i] == Bounds{1, 64});
    if (p.code[i].kind == Inst::Loop) CHECK(bounds[i] == Bounds{0, 63});
    if (p.code[i].kind == Inst::Loop) CHECK(p.code[i].dtype == DType::I32);
    has_symbol |= p.code[i].kind == Inst::Symbol;
  }
  CHECK(has_symbol);
  CHECK(wide_multiplications(p) == 0);
  CHECK(problem_with(kernel, {{local("o1", 32), task("o0")}}, kBlocks) == "");
  // Evaluation refuses what the bounds do not hold.
  JudgedKernel beyond = kernel;
  beyond.variables["T"] = 65;
  CHECK(problem_with(beyond, {{local("o1", 32), task("o0")}}, kBlocks).find("should lie within 1 and 64") !=
        std::string::npos);
}
