// Products of small matrices: compiled code gives the bits of the evaluator, by tiles and by sums of words.
#include <doctest/doctest.h>

#include "support/amx_emulator.h"
#include "support/amx_target.h"
#include "support/byte_programs.h"
#include "support/run_program.h"

using namespace smelt;
using namespace smelt::test;

TEST_CASE("products of matrices are exact as sums of words") {
  for (const MatrixShape& shape : kMatrixShapes) {
    CAPTURE(shape.m);
    CAPTURE(shape.k);
    const Program program = matrix_product(shape, 3);
    const Buffers buffers = matrix_operands(shape, 3);
    const Buffers expected = evaluated(program, buffers);
    for (const CpuTarget& target : runnable_targets())
      CHECK(compiled(program, buffers, {}, 1, target)[2] == expected[2]);
  }
}

TEST_CASE("a product outside of its buffers is found by the evaluator") {
  const MatrixShape shape{.m = 4, .n = 16, .k = 32, .a_stride = 32, .b_stride = 64};
  for (size_t side : {0, 1}) {
    Buffers buffers = matrix_operands(shape, 1);
    buffers[side].pop_back();
    CHECK(!try_evaluate(matrix_product(shape, 1), buffers).ok());
  }
}

TEST_CASE("products of matrices are checked") {
  const MatrixShape shape{.m = 4, .n = 16, .k = 32, .a_stride = 32, .b_stride = 64};
  const Program good = matrix_product(shape, 1);
  CHECK(problem_of(good) == "");
  const auto with = [&](Inst kind, auto change) {
    Program bad = good;
    for (Instruction& x : bad.code)
      if (x.kind == kind) change(x);
    return problem_of(bad);
  };
  CHECK(with(Inst::MatrixDot, [](Instruction& x) { x.arg.list[0] = 0; }).find("no shape") != std::string::npos);
  CHECK(with(Inst::MatrixDot, [](Instruction& x) { x.src[2] = x.src[3]; }).find("no pointer") != std::string::npos);
  CHECK(with(Inst::MatrixItem, [](Instruction& x) { x.arg.i = 4; }).find("there are 4 rows") != std::string::npos);
  CHECK(with(Inst::Store, [&](Instruction& x) {
          for (size_t i = 0; i < good.code.size(); ++i)
            if (good.code[i].kind == Inst::MatrixDot) x.src[2] = static_cast<int>(i);
        }).find("read by item") != std::string::npos);
}

#if defined(__x86_64__) && defined(__linux__)
TEST_CASE("products of matrices are exact as tiles") {
  const AmxEmulator emulator;
  for (const MatrixShape& shape : kMatrixShapes) {
    CAPTURE(shape.m);
    CAPTURE(shape.k);
    const Program program = matrix_product(shape, 3);
    const Buffers buffers = matrix_operands(shape, 3);
    CHECK(compiled(program, buffers, {}, 1, amx_target())[2] == evaluated(program, buffers)[2]);
    CHECK(!amx_state().configured);  // tiles are given back
  }
}

TEST_CASE("shapes that fit become tiles, and one configuration serves a whole function") {
  const auto count = [](const std::string& text, const std::string& word) {
    size_t n = 0;
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
    return n;
  };
  for (const MatrixShape& shape : kMatrixShapes) {
    const Program program = matrix_product(shape, 3);
    const Source source{render_llvm(program, machine_of(amx_target())), program.name};
    const std::string code = assembly(source, amx_target());
    const bool fits = shape.n <= 16 && (shape.words() <= 16 || shape.words() % 16 == 0);
    const int64_t steps = (shape.words() + 15) / 16;
    CAPTURE(shape.k);
    const char* name = shape.a_is_signed ? "tdpbsud" : "tdpbusd";
    CHECK(count(code, name) == static_cast<size_t>(!fits ? 0 : steps > 4 ? 1 : steps));
    CHECK(count(code, "tilestored") == static_cast<size_t>(fits ? shape.m > 0 : 0));  // once, whatever k is
    CHECK(count(code, "ldtilecfg") == fits);
    CHECK(count(code, "tilerelease") == fits);
  }
}
#endif
