#include "model/codebook.h"

#include <string_view>

#include "base/ensure.h"

namespace smelt {
namespace {

int64_t word_of(int number, int base, int digits) {
  int64_t word = 0;
  for (int j = 0; j < digits; ++j, number /= base) word |= int64_t{number % base} << (8 * (j % 4) + 4 * (j / 4));
  return word;
}

int hex_value(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

std::vector<int64_t> words_of(int base, int digits, std::string_view members) {
  std::vector<int64_t> words;
  for (size_t i = 0; i < members.size(); ++i)
    for (int bit = 0; bit < 4; ++bit)
      if (hex_value(members[i]) >> bit & 1) words.push_back(word_of(4 * static_cast<int>(i) + bit, base, digits));
  return words;
}

}  // namespace

const std::vector<int64_t>& codebook_words(Codebook book) {
  switch (book) {
#define CODEBOOK(name, base, digits, members)                                  \
  case Codebook::name: {                                                       \
    static const std::vector<int64_t> words = words_of(base, digits, members); \
    return words;                                                              \
  }
#include "model/codebooks.def"
#undef CODEBOOK
  }
  ENSURE(false, "no such codebook");
}

}  // namespace smelt
