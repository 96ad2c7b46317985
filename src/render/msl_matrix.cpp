#include "render/msl_matrix.h"

#include "base/ensure.h"

namespace smelt {
namespace {

constexpr int64_t kMostRows = 16;

constexpr const char* kTwoElements =
    "static inline simdgroup_half8x8 two_elements(half x, half y) {\n"
    "  simdgroup_half8x8 m;\n"
    "  m.thread_elements()[0] = x;\n"
    "  m.thread_elements()[1] = y;\n"
    "  return m;\n"
    "}\n";

std::string number(int64_t value) { return std::to_string(value); }

// The lowest byte of a word as a half.
std::string byte_of(const std::string& word, bool is_signed) {
  return is_signed ? "half(char(" + word + "))" : "half(uchar(" + word + "))";
}

std::string parameters(const MatrixShape& shape) {
  std::string text;
  for (int64_t i = 0; i < shape.a_words(); ++i) text += "uint a" + number(i) + ", ";
  for (int64_t i = 0; i < shape.b_words(); ++i) text += "uint b" + number(i) + ", ";
  return text;
}

std::string moved(const std::string& type, const std::string& name, const std::string& word, const std::string& from) {
  return "  const " + type + " " + name + " = simd_shuffle(" + word + ", ushort(" + from + "));\n";
}

// Words of a block: those of a's rows, and of b's two columns.
std::string words_of_block(const MatrixShape& shape, int64_t block) {
  const std::string r = number(block), b = "b" + r;
  std::string text =
      moved("uint", "left" + r, b, "4 * column + row / 2") + moved("uint", "right" + r, b, "4 * column + 4 + row / 2");
  for (int64_t m = 0; m < shape.row_blocks(); ++m) {
    const std::string i = number(block * shape.row_blocks() + m);
    text += moved("uint", "rows" + i, "a" + i, "4 * row + column / 2");
  }
  return text;
}

// Half of a block's bytes: bytes `first` and the next of each word of a row are neighbours along k.
std::string products_of_half(const MatrixShape& shape, int64_t block, int64_t first) {
  const std::string shift = number(8 * first), next = number(8 * first + 8), r = number(block);
  const std::string b = "columns" + r + (first ? "b" : "a"), of_row = first ? " >> (" + shift + " + own)" : " >> own";
  std::string text = "  const simdgroup_half8x8 " + b + " =\n      two_elements(" +
                     byte_of("left" + r + of_row, !shape.a_is_signed) + ", " +
                     byte_of("right" + r + of_row, !shape.a_is_signed) + ");\n";
  for (int64_t m = 0; m < shape.row_blocks(); ++m) {
    const std::string word = "rows" + number(block * shape.row_blocks() + m), sums = "sums" + number(m);
    text += "  simdgroup_multiply_accumulate(" + sums + ", two_elements(" +
            byte_of(first ? word + " >> " + shift : word, shape.a_is_signed) + ", " +
            byte_of(word + " >> " + next, shape.a_is_signed) + "), " + b + ", " + sums + ");\n";
  }
  return text;
}

// From where the unit leaves them to where fragments have them.
std::string given_back(const MatrixShape& shape) {
  std::string text = "  const ushort holder = lane / 16 * 16 + lane / 2 % 2 * 8 + lane / 4 % 4 * 2 + lane % 2;\n", all;
  for (int64_t i = 0; i < shape.sums(); ++i) {
    const std::string element = "sums" + number(i / 2) + ".thread_elements()[" + number(i % 2) + "]";
    text += moved("float", "sum" + number(i), element, "holder");
    all += (i ? ", int(sum" : "int(sum") + number(i) + ")";
  }
  const std::string type = msl_sums_type(shape), wrapping = "as_type<u" + type + ">(";
  return text + "  return as_type<" + type + ">(" + wrapping + "c) + " + wrapping + type + "(" + all + ")));\n";
}

std::string function_text(const MatrixShape& shape, const std::string& name) {
  const std::string type = msl_sums_type(shape);
  std::string text = "// c + a b: " + number(shape.m) + " rows of " + number(shape.k) + " bytes times 8 columns.\n" +
                     "static inline " + type + " " + name + "(" + parameters(shape) + type + " c, int thread) {\n";
  text += "  const ushort lane = thread % 32, row = lane / 16 * 4 + lane / 2 % 4;\n";
  text += "  const ushort column = lane / 8 % 2 * 4 + lane % 2 * 2, own = 8 * (row & 1);\n";
  for (int64_t m = 0; m < shape.row_blocks(); ++m)
    text += "  simdgroup_float8x8 sums" + number(m) + " = make_filled_simdgroup_matrix<float, 8, 8>(0);\n";
  for (int64_t block = 0; block < shape.word_blocks(); ++block) {
    text += words_of_block(shape, block);
    for (int64_t first : {0, 2}) text += products_of_half(shape, block, first);
  }
  return text + given_back(shape) + "}\n";
}

}  // namespace

std::string msl_sums_type(const MatrixShape& shape) { return "int" + number(shape.sums()); }

std::string msl_matrix_product(const MatrixShape& shape, MslPreamble& preamble) {
  ENSURE(shape.in_fragments && shape.m <= kMostRows, "[render] Metal: only products of fragments are rendered");
  preamble.add("two_elements", kTwoElements);
  const std::string name = "product_" + number(shape.m) + "x8x" + number(shape.k) + (shape.a_is_signed ? "_su" : "_us");
  preamble.add(name, function_text(shape, name));
  return name;
}

}  // namespace smelt
