// What a block of a GPU computes before its launch waits.
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
  if (waits) p.add({.kind = Inst::Await});
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

namespace {

// Eight tasks of 64 threads in blocks of their own, behind 23 tasks of others in the same launch of 31: each thread
// stores the sum of two neighbours that the launch before has left.
Program neighbours(int64_t blocks) {
  test::ProgramBuilder p("neighbours", 2, 0, 2 * kWarp);
  p.add({.kind = Inst::Await});
  const int memory = p.buffer(0), sums = p.buffer(1), count = p.parts(), thread = p.thread_index();
  const int turn = p.op(Op::Mod, {p.op(Op::Add, {p.part(), p.integer(8)}), count}),
            rest = p.op(Op::Add, {p.op(Op::Sub, {p.integer(8), turn}), p.op(Op::Sub, {count, p.integer(1)})}),
            rounds = p.op(Op::Div, {p.op(Op::Max, {rest, p.integer(0)}), count});
  const int round = p.loop(p.integer(0), rounds), task = p.op(Op::Add, {turn, p.op(Op::Mul, {round, count})}),
            at = p.op(Op::Add, {p.op(Op::Mul, {task, p.integer(512)}), p.op(Op::Mul, {thread, p.integer(8)})});
  p.store(sums, at,
          p.op(Op::Add,
               {p.load(DType::I32, 1, memory, at), p.load(DType::I32, 1, memory, p.op(Op::Add, {at, p.integer(4)}))}));
  p.end(round);
  Program program = p.program();
  program.tasks = 31;
  program.blocks = blocks;
  return program;
}

}  // namespace

TEST_CASE("a block that has one task knows before the wait where it is") {
  const std::string text = render_nvptx(neighbours(31));
  const size_t wait = text.find("griddepcontrol.wait");
  REQUIRE(wait != std::string::npos);
  CHECK(text.find("nctaid") == std::string::npos);  // how many blocks there are is a constant
  CHECK(text.find(" phi ") == std::string::npos);   // one round at most: a branch
  const std::string behind = text.substr(wait);
  CHECK(behind.find("srem") == std::string::npos);
  // The second one of a pair lies 4 bytes behind the first one, which is added where it is loaded.
  CHECK(behind.find("i64 4") != std::string::npos);
}

TEST_CASE("blocks that have any number of tasks find the first one before the wait") {
  const std::string text = render_nvptx(neighbours(0));
  const size_t wait = text.find("griddepcontrol.wait");
  REQUIRE(wait != std::string::npos);
  CHECK(text.find("nctaid") < wait);
  CHECK(text.find(" phi ", wait) != std::string::npos);
  CHECK(text.find(" = mul ", wait) != std::string::npos);
}

TEST_CASE("one argument of each line is read before the wait") {
  const std::string text = render_nvptx(neighbours(31));
  const size_t trap = text.find("@none trap");
  REQUIRE(trap != std::string::npos);
  CHECK(trap < text.find("griddepcontrol.wait"));
  // The first line has the first six arguments: both buffers, and what the launch values and the clocks are at.
  CHECK(count(text, "ptrtoint ptr addrspace(1) %buffer") == 1);
}

TEST_CASE("nothing is multiplied between the wait and the first load, and neighbours are one load") {
  const Program program = neighbours(31);
  const Source source{.text = render_nvptx(program),
                      .entry = program.name,
                      .shape = {.buffers = 2, .threads = 64, .tasks = 31, .blocks = 31}};
  const std::string ptx = compile_ptx(source, "sm_90a");
  const size_t wait = ptx.find("griddepcontrol.wait"), load = ptx.find("ld.global", wait);
  REQUIRE(wait != std::string::npos);
  REQUIRE(load != std::string::npos);
  CHECK(ptx.substr(wait, load - wait).find("mul") == std::string::npos);
  CHECK(ptx.find(".v2", wait) != std::string::npos);  // neighbours are one load
}

namespace {

// Up to six tasks in blocks of their own, as many as the launch says: each stores what its page begins with, where the
// numbers of pages are given (or were stored by a launch before).
Program pages(bool are_given) {
  test::ProgramBuilder p("pages", 3, 0, kWarp);
  const int tasks = p.add({.kind = Inst::Symbol, .dtype = DType::I64, .arg = {.list = {1, 6}}});
  p.add({.kind = Inst::Await, .src = {p.op(Op::Lt, {p.integer(4), tasks})}});
  const int count = p.parts(), turn = p.part(),
            rest = p.op(Op::Add, {p.op(Op::Sub, {tasks, turn}), p.op(Op::Sub, {count, p.integer(1)})}),
            rounds = p.op(Op::Div, {p.op(Op::Max, {rest, p.integer(0)}), count});
  const int numbers = are_given ? p.add({.kind = Inst::Buffer, .arg = {.i = 0, .list = {1}}}) : p.buffer(0);
  const int round = p.loop(p.integer(0), rounds), task = p.op(Op::Add, {turn, p.op(Op::Mul, {round, count})}),
            number = p.load(DType::I32, 1, numbers, p.op(Op::Mul, {task, p.integer(4)})),
            at = p.op(Op::Mul, {p.cast(number, DType::I64), p.integer(256)});
  p.store(p.buffer(2), p.op(Op::Mul, {task, p.integer(4)}), p.load(DType::F32, 1, p.buffer(1), at));
  p.end(round);
  Program program = p.program();
  program.symbols = {"tasks"};
  program.tasks = program.blocks = 6;
  return program;
}

}  // namespace

TEST_CASE("what no launch writes is read before the wait, by blocks without a task at the begin of the buffer") {
  const std::string text = render_nvptx(pages(true));
  const size_t wait = text.find("griddepcontrol.wait"), load = text.find("load i32");
  REQUIRE(wait != std::string::npos);
  CHECK(load < wait);
  CHECK(text.find("select i1") < load);
  CHECK(text.find("load i32", wait) == std::string::npos);
  CHECK(text.find(", 256", wait) == std::string::npos);  // where the page begins is known, too
  CHECK(text.find("load float") > wait);
}

TEST_CASE("what a launch before may have written is read behind the wait") {
  const std::string text = render_nvptx(pages(false));
  CHECK(text.find("load i32") > text.find("griddepcontrol.wait"));
}

TEST_CASE("an eager launch lets the next one begin before it waits, another one behind its wait") {
  for (int64_t eager : {0, 1}) {
    test::ProgramBuilder p("eager", 1, 0, kWarp);
    p.add({.kind = Inst::Await, .arg = {.i = eager}});
    p.store(p.buffer(0), p.mul(p.thread_index(), p.integer(8)), p.integer(1));
    const std::string text = render_nvptx(p.program());
    const size_t wait = text.find("griddepcontrol.wait"), next = text.find("griddepcontrol.launch_dependents");
    REQUIRE(wait != std::string::npos);
    REQUIRE(next != std::string::npos);
    CHECK((next < wait) == (eager == 1));
  }
}

TEST_CASE("a launch of many tasks keeps the next one back") {
  const std::string text = render_nvptx(pages(true));
  const size_t wait = text.find("griddepcontrol.wait"), next = text.find("griddepcontrol.launch_dependents");
  REQUIRE(next != std::string::npos);
  CHECK(text.substr(wait, next - wait).find("br i1") != std::string::npos);
}
