// What a block of a GPU computes of its share of the tasks, and where.
#include <doctest/doctest.h>

#include <string>

#include "render/nvptx.h"
#include "runtime/llvm/ptx.h"
#include "support/program_builder.h"

using namespace smelt;

namespace {

// Two nests, each behind 23 tasks of others: where a block begins in them, (index - 23) mod count, is stored.
Program two_nests(bool waits) {
  test::ProgramBuilder p("two_nests", 1, 0, kWarp);
  const int index = p.part(), blocks = p.parts(), before = p.integer(23), memory = p.buffer(0);
  if (waits) p.add({.kind = Inst::Await, .arg = {.i = 1}});
  for (int nest = 0; nest < 2; ++nest) {
    const int behind = p.op(Op::Sub, {index, before});
    p.store(memory, p.integer(8 * nest), p.op(Op::Mod, {behind, blocks}));
  }
  return p.program();
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
