// Products of fragments as text for GPUs.
#include <doctest/doctest.h>

#include "graph/matrix_shape.h"
#include "render/msl.h"
#include "render/nvptx.h"
#include "runtime/llvm/ptx.h"
#include "support/golden.h"
#include "support/program_builder.h"

using namespace smelt;

namespace {

// A product of words at the beginning of the first buffer, added to sums where `adds`; a thread stores its first sum.
Program product(const MatrixShape& shape, bool adds) {
  test::ProgramBuilder p("product", 1, 0, 32);
  const int pointer = p.buffer(0), at = p.mul(p.thread_index(), p.integer(4));
  const int word = p.load(DType::U32, 1, pointer, at);
  std::vector<int> operands(static_cast<size_t>(shape.a_words() + shape.b_words()), word);
  if (adds) operands.resize(operands.size() + static_cast<size_t>(shape.sums()), p.bitcast(word, DType::I32));
  const int dot = p.add({.kind = Inst::MatrixDot, .dtype = DType::I32, .src = operands, .arg = {.list = shape.list()}});
  p.store(pointer, at, p.add({.kind = Inst::MatrixItem, .dtype = DType::I32, .src = {dot}}));
  return p.program();
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a product of fragments is one instruction of a warp") {
  for (bool a_is_signed : {true, false})
    for (bool adds : {true, false}) {
      const Program program =
          product({.m = 16, .n = 8, .k = 32, .in_fragments = true, .a_is_signed = a_is_signed}, adds);
      const std::string text = render_nvptx(program);
      CHECK(contains(text, a_is_signed ? "@llvm.nvvm.mma.m16n8k32.row.col.s8.u8(" : "row.col.u8.s8("));
      const Source source{.text = text, .entry = program.name, .shape = {.buffers = 1, .threads = 32, .tasks = 1}};
      for (const char* architecture : {"sm_80", "sm_90a"})
        CHECK(contains(compile_ptx(source, architecture), a_is_signed
                                                              ? "mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32"
                                                              : "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32"));
    }
}

TEST_CASE("GPUs of 2018 have a smaller product") {
  const Program program = product({.m = 8, .n = 8, .k = 16, .in_fragments = true}, true);
  const Source source{
      .text = render_nvptx(program), .entry = program.name, .shape = {.buffers = 1, .threads = 32, .tasks = 1}};
  CHECK(contains(compile_ptx(source, "sm_75"), "mma.sync.aligned.m8n8k16.row.col.s32.s8.u8.s32"));
}

TEST_CASE("a product of bytes is products of matrices of halves on GPUs of Apple") {
  const MatrixShape shape{.m = 16, .n = 8, .k = 16, .in_fragments = true, .a_is_signed = false};
  CHECK_GOLDEN(render_msl(product(shape, true)), "render/product_of_bytes.metal");
}

TEST_CASE("a product of halves is steps of the unit of four warps, whose columns come on chip by copies with signals") {
  const MatrixShape shape{.m = 64, .n = 64, .k = 32, .in_fragments = true, .b_stride = 512, .of_halves = true};
  constexpr int kThreads = 128;
  test::ProgramBuilder p("product", 1, 8 << 10, kThreads);
  const int memory = p.buffer(0), chip = p.scratch(0), signal = p.scratch(4 << 10), zero = p.integer(0);
  const int thread = p.thread_index(), at = p.mul(thread, p.integer(4));
  p.add({.kind = Inst::SignalInit, .src = {signal, zero}, .arg = {.i = 1}});
  p.add({.kind = Inst::Barrier});
  const int is_first = p.op(Op::Lt, {thread, p.integer(1)});
  p.add({.kind = Inst::BulkCopy, .src = {memory, zero, chip, zero, signal, zero, is_first}, .arg = {.i = 4096}});
  p.add({.kind = Inst::SignalWait, .src = {signal, zero, zero}});
  const int word = p.load(DType::U32, 1, memory, at), number = p.bitcast(word, DType::F32);
  const int halves = p.add({.kind = Inst::Value, .op = Op::Halves, .dtype = DType::U32, .src = {number, number}});
  const int scaled =
      p.add({.kind = Inst::Value, .op = Op::ScaledHalves, .dtype = DType::U32, .src = {word, number}, .arg = {.i = 8}});
  const int less = p.add({.kind = Inst::Value, .op = Op::LessHalves, .dtype = DType::U32, .src = {scaled, number}});
  std::vector<int> operands;
  for (int64_t i = 0; i < shape.a_words(); ++i) operands.push_back(i % 2 ? halves : less);
  operands.push_back(chip);
  operands.push_back(zero);
  const int dot = p.add({.kind = Inst::MatrixDot, .dtype = DType::F32, .src = operands, .arg = {.list = shape.list()}});
  p.store(memory, at, p.add({.kind = Inst::MatrixItem, .dtype = DType::F32, .src = {dot}, .arg = {.i = 31}}));
  const Source source{
      .text = render_nvptx(p.program()), .entry = "product", .shape = {.buffers = 1, .threads = kThreads, .tasks = 1}};
  const std::string ptx = compile_ptx(source, "sm_90a");
  for (const char* part :
       {"wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16", "wgmma.fence", "wgmma.wait_group.sync.aligned 0",
        "mbarrier.init.shared.b64", "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes",
        "mbarrier.try_wait.parity", "cvt.rn.bf16x2.f32", "fma.rn.bf16x2", "mul.rn.bf16x2", "sub.rn.bf16x2"})
    CHECK_MESSAGE(contains(ptx, part), part);
  size_t steps = 0;
  for (size_t i = ptx.find("wgmma.mma"); i != std::string::npos; i = ptx.find("wgmma.mma", i + 1)) ++steps;
  CHECK(steps == 2);
}
