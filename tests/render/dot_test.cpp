// Sums of products of bytes and look-ups of bytes: compiled code gives the bits of the evaluator, with every instruction
// that this machine has for them, and the code of the other processors compiles.
#include <doctest/doctest.h>

#include <random>

#include "support/program_builder.h"
#include "support/run_program.h"

using namespace smelt;
using namespace smelt::test;

namespace {

constexpr int kWords = 64;

// out[i] = dot4(sum[i], x[i], y[i]), `lanes` at a time; y may be one word for all lanes.
Program dots(int lanes, int64_t greatest, bool broadcast) {
  ProgramBuilder p("dots", 4);
  const int out = p.buffer(3), loop = p.loop(kWords / lanes),
            offset = p.mul(loop, p.integer(4 * lanes));
  const int sum = p.load(DType::I32, lanes, p.buffer(0), offset);
  const int x = p.load(DType::U32, lanes, p.buffer(1), offset);
  const int y = p.load(DType::U32, broadcast ? 1 : lanes, p.buffer(2), offset);
  const int dot = p.add({.kind = Inst::Value,
                         .op = Op::Dot4,
                         .dtype = DType::I32,
                         .lanes = lanes,
                         .src = {sum, x, y},
                         .arg = {.i = greatest}});
  p.store(out, offset, dot);
  p.end(loop);
  return p.program();
}

Program look_ups(int lanes, const std::vector<int64_t>& table) {
  ProgramBuilder p("look_ups", 2);
  const int out = p.buffer(1), loop = p.loop(kWords / lanes),
            offset = p.mul(loop, p.integer(4 * lanes));
  const int x = p.load(DType::U32, lanes, p.buffer(0), offset);
  p.store(out, offset,
          p.add({.kind = Inst::Value,
                 .op = Op::Lut4,
                 .dtype = DType::U32,
                 .lanes = lanes,
                 .src = {x},
                 .arg = {.list = table}}));
  p.end(loop);
  return p.program();
}

Bytes random_bytes(uint64_t seed, int lowest, int greatest) {
  std::mt19937_64 random(seed);
  Bytes bytes;
  for (int i = 0; i < 4 * kWords; ++i) {
    // The extremes often: that is where 16-bit sums would overflow.
    const uint64_t kind = random() % 4;
    const auto spread = static_cast<uint64_t>(greatest - lowest + 1);
    const int value = kind == 0   ? lowest
                      : kind == 1 ? greatest
                                  : lowest + static_cast<int>(random() % spread);
    bytes.push_back(static_cast<std::byte>(value));
  }
  return bytes;
}

}  // namespace

TEST_CASE("sums of products of bytes are exact with every instruction for them") {
  for (int64_t greatest : {1, 15, 63, 127, 255})
    for (int lanes : {1, 2, 4, 8, 16, 32})
      for (bool broadcast : {false, true}) {
        const Buffers buffers{random_bytes(1, -128, 127),
                              random_bytes(2, 0, static_cast<int>(greatest)),
                              random_bytes(3, -128, 127), Bytes(4 * kWords)};
        const Program program = dots(lanes, greatest, broadcast);
        const Buffers expected = evaluated(program, buffers);
        for (const CpuTarget& target : runnable_targets()) {
          CAPTURE(target.cpu);
          CAPTURE(greatest);
          CAPTURE(lanes);
          CHECK(compiled(program, buffers, {}, 1, target)[3] == expected[3]);
        }
      }
}

TEST_CASE("processors with other instructions for sums of bytes use theirs") {
  const std::pair<std::string, std::string> wanted[] = {
      {"sapphirerapids", "vpdpbusd"}, {"alderlake", "vpdpbusd"},  {"x86-64-v4", "vpmaddubsw"},
      {"x86-64-v3", "vpmaddubsw"},    {"x86-64-v2", "pmaddubsw"}, {"neoverse-n1", "sdot"},
      {"neoverse-v1", "usdot"},       {"aarch64", "mla"}};
  for (const auto& [name, instruction] : wanted) {
    CAPTURE(name);
    const CpuTarget target = named_target(name).take();
    for (int64_t greatest : {15, 255}) {
      const Program program = dots(target.vector_bytes / 4, greatest, false);
      const Source source{render_llvm(program, llvm_options(target)), program.name};
      CHECK(assembly(source, target).find(instruction) != std::string::npos);
    }
  }
}

TEST_CASE("each byte of a word is looked up") {
  const std::vector<int64_t> small{-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};
  std::vector<int64_t> large;
  for (int i = 0; i < 40; ++i) large.push_back(255 - 3 * i);
  for (const auto& table : {small, large})
    for (int lanes : {1, 4, 8, 16}) {
      CAPTURE(lanes);
      const Buffers buffers{random_bytes(4, 0, static_cast<int>(table.size()) - 1),
                            Bytes(4 * kWords)};
      const Program program = look_ups(lanes, table);
      const Buffers expected = evaluated(program, buffers);
      for (const CpuTarget& target : runnable_targets())
        CHECK(compiled(program, buffers, {}, 1, target)[1] == expected[1]);
    }
}
