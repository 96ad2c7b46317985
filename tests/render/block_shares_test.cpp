#include <doctest/doctest.h>

#include <string>

#include "render/nvptx.h"
#include "runtime/llvm/ptx.h"

using namespace smelt;

namespace {

constexpr int kIndex = 0, kCount = 1, kBefore = 2;

Instruction binary(Op op, int x, int y) { return {.kind = Inst::Value, .op = op, .dtype = DType::I64, .src = {x, y}}; }

// Two nests, each behind `before` tasks of others: thread 0 of a block stores where it begins, (index - before) mod
// count, and how far behind that it is.
Program two_nests(bool waits) {
  Program program{.name = "two_nests", .buffers = 1, .threads = 32, .tasks = 8};
  const auto add = [&](Instruction x) {
    program.code.push_back(std::move(x));
    return static_cast<int>(program.code.size()) - 1;
  };
  add({.kind = Inst::Part, .dtype = DType::I64, .arg = {.i = 0}});
  add({.kind = Inst::Part, .dtype = DType::I64, .arg = {.i = 1}});
  add({.kind = Inst::Value, .op = Op::Const, .dtype = DType::I64, .arg = {.i = 23}});
  const int memory = add({.kind = Inst::Buffer});
  if (waits) add({.kind = Inst::Await, .arg = {.i = 1}});
  for (int nest = 0; nest < 2; ++nest) {
    const int turn = add(binary(Op::Mod, add(binary(Op::Sub, kIndex, kBefore)), kCount));
    const int offset = add({.kind = Inst::Value, .op = Op::Const, .dtype = DType::I64, .arg = {.i = 8 * nest}});
    add({.kind = Inst::Store, .dtype = DType::I64, .src = {memory, offset, turn}});
  }
  return program;
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("which tasks a block has is known before its launch waits, and computed once") {
  const std::string text = render_nvptx(two_nests(true));
  CHECK(count(text, "srem i64") == 1);
  CHECK(text.find("srem i64") < text.find("griddepcontrol.wait"));
  CHECK(count(text, "select i1") == 1);  // index - before may be negative: the remainder is that of a floor
}

TEST_CASE("the same where launches do not overlap") {
  const std::string text = render_nvptx(two_nests(false));
  CHECK(count(text, "srem i64") == 1);
  CHECK(count(text, "griddepcontrol.wait") == 0);
}

TEST_CASE("the optimiser leaves quotients where they are") {
  const Program program = two_nests(true);
  const Source source{
      .text = render_nvptx(program), .entry = program.name, .shape = {.buffers = 1, .threads = 32, .tasks = 8}};
  const std::string ptx = compile_ptx(source, "sm_90a");
  REQUIRE(ptx.find("rem.s64") != std::string::npos);
  CHECK(ptx.find("rem.s64") < ptx.find("griddepcontrol.wait"));
}
