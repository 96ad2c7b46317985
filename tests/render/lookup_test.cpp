// Look-ups of four bytes of a word by a GPU's permutations of bytes: what the instructions give, step by step.
#include <doctest/doctest.h>

#include <map>
#include <random>
#include <sstream>

#include "render/llvm_lut.h"

using namespace smelt;

namespace {

// As the PTX manual has prmt.b32: a nibble of `which` names one of eight bytes, and its highest bit repeats the sign of
// that byte instead.
uint32_t permuted(uint32_t first, uint32_t second, uint32_t which) {
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t nibble = which >> (4 * i) & 15, from = nibble & 7;
    const uint32_t byte = (from < 4 ? first >> (8 * from) : second >> (8 * (from - 4))) & 0xff;
    result |= (nibble < 8 ? byte : byte & 0x80 ? 0xff : 0) << (8 * i);
  }
  return result;
}

// A line of the body is "%name = OP i32 X, Y" or "%name = call i32 @llvm.nvvm.prmt(i32 X, i32 Y, i32 Z)".
uint32_t run(const std::string& body, uint32_t x, const std::string& result) {
  std::map<std::string, uint32_t> values{{"%x", x}};
  const auto value = [&](const std::string& text) {
    return text.starts_with("%") ? values.at(text) : static_cast<uint32_t>(std::stoul(text));
  };
  std::istringstream lines(body);
  for (std::string line; std::getline(lines, line);) {
    for (char& c : line)
      if (c == ',' || c == '(' || c == ')') c = ' ';
    std::istringstream words(line);
    std::vector<std::string> w;
    for (std::string word; words >> word;)
      if (word != "i32" && word != "=" && word != "call") w.push_back(word);
    if (w.empty()) continue;
    REQUIRE(w.size() >= 4);
    const uint32_t a = value(w[2]), b = value(w[3]);
    REQUIRE((w[1] == "lshr" || w[1] == "and" || w[1] == "or" || w[1] == "@llvm.nvvm.prmt"));
    values[w[0]] = w[1] == "lshr" ? a >> b : w[1] == "and" ? a & b : w[1] == "or" ? a | b : permuted(a, b, value(w[4]));
  }
  return value(result);
}

}  // namespace

TEST_CASE("bytes of a word are looked up by permutations in tables of up to 16") {
  std::mt19937 random(7);
  for (size_t size : {3, 4, 8, 9, 15, 16}) {
    std::vector<int64_t> table(size);
    for (int64_t& entry : table) entry = static_cast<int64_t>(random() % 256);
    LlvmWriter out;
    const IrValue words = render_lut4(out, table, {.text = "%x", .dtype = DType::U32}, {.isa = Isa::Nvidia});
    CHECK(words.dtype == DType::U32);
    CHECK(out.constants().empty());
    CAPTURE(out.body());
    for (int i = 0; i < 200; ++i) {
      uint32_t index = 0, expected = 0;
      for (int byte = 0; byte < 4; ++byte) {
        const uint32_t at = random() % size;
        index |= at << (8 * byte);
        expected |= static_cast<uint32_t>(table[at]) << (8 * byte);
      }
      CHECK(run(out.body(), index, words.text) == expected);
    }
  }
}
