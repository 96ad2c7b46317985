// Products of small matrices: compiled code gives the bits of the evaluator, by tiles and by sums of words.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "support/amx_emulator.h"
#include "support/amx_target.h"
#include "support/byte_programs.h"
#include "support/run_program.h"

using namespace smelt;
using namespace smelt::test;

namespace {

// Sums of up to 640 products of less than 256 each, off by less than a rounding for each of them.
void check_halves(const MatrixShape& shape, const CpuTarget& target) {
  CAPTURE(shape.m);
  CAPTURE(shape.k);
  CAPTURE(shape.blocks);
  const Program program = matrix_product(shape, 3);
  const Buffers buffers = matrix_operands(shape, 3);
  const Bytes expected = evaluated(program, buffers)[2], found = compiled(program, buffers, {}, 1, target)[2];
  double worst = 0, greatest = 0;
  for (size_t at = 0; at < expected.size(); at += 4) {
    float x = 0, y = 0;
    std::memcpy(&x, expected.data() + at, 4), std::memcpy(&y, found.data() + at, 4);
    worst = std::max(worst, std::abs(double(x) - double(y)));
    greatest = std::max(greatest, std::abs(double(x)));
  }
  CHECK(greatest > 1);
  CHECK(worst < 0x1p-20 * static_cast<double>(shape.k) * greatest);
}

}  // namespace

TEST_CASE("products of halves are those of the evaluator as sums of vectors") {
  for (const MatrixShape& shape : kShapesOfHalves)
    for (const CpuTarget& target : runnable_targets()) check_halves(shape, target);
}

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

TEST_CASE("products of halves are those of the evaluator as tiles, blocks side by side") {
  const AmxEmulator emulator;
  for (const MatrixShape& shape : kShapesOfHalves) {
    check_halves(shape, amx_target());
    CHECK(!amx_state().configured);
    const Program program = matrix_product(shape, 3);
    const Source source{render_llvm(program, machine_of(amx_target())), program.name};
    const std::string code = assembly(source, amx_target());
    CHECK(code.find("tdpbf16ps") != std::string::npos);
    CHECK((code.find("prefetcht1") != std::string::npos) == (shape.a_ahead > 0));
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
