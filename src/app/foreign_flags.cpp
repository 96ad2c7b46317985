#include "app/foreign_flags.h"

#include <algorithm>
#include <string_view>

namespace smelt {
namespace {

enum class Kind { Same, Always, Answer };

struct Foreign {
  std::string_view spelling;
  Kind kind;
  int values;             // that may follow and belong to it
  std::string_view text;  // smelt's spelling, or the answer
};

constexpr Foreign kForeign[] = {
#define SAME(spelling, ours) {spelling, Kind::Same, 1, ours},
#define ALWAYS(spelling, values, why) {spelling, Kind::Always, values, why},
#define ANSWER(spelling, values, answer) {spelling, Kind::Answer, values, answer},
#include "app/foreign_flags.def"
#undef SAME
#undef ALWAYS
#undef ANSWER
};

const Foreign* find(std::string_view spelling) {
  for (const Foreign& f : kForeign)
    if (f.spelling == spelling) return &f;
  return nullptr;
}

// A value can be a negative number, but no flag.
bool is_flag(std::string_view word) {
  return word.size() > 1 && word[0] == '-' && !(word[1] >= '0' && word[1] <= '9') && word[1] != '.';
}

// llama.cpp's names of cache types.
std::string our_cache_type(const std::string& value) { return value == "q8_0" ? "q8" : value; }

}  // namespace

Result<std::vector<std::string>> in_our_spelling(const std::vector<std::string>& arguments, const HasOption& has) {
  std::vector<std::string> out;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--") {  // everything after it is a value
      out.insert(out.end(), arguments.begin() + static_cast<ptrdiff_t>(i), arguments.end());
      break;
    }
    const size_t equals = word.find('=');
    const std::string spelling = word.substr(0, equals);
    if (out.size() > 0 && out.back() == "--cache-type" && !is_flag(word)) {
      out.push_back(our_cache_type(word));
      continue;
    }
    const Foreign* foreign = is_flag(word) && !has(spelling) ? find(spelling) : nullptr;
    if (!foreign) {
      out.push_back(word);
    } else if (foreign->kind == Kind::Answer) {
      return Error{spelling + ": " + std::string(foreign->text)};
    } else if (foreign->kind == Kind::Same) {
      out.emplace_back(foreign->text);
      if (equals != std::string::npos) out.push_back(word.substr(equals + 1));
    } else if (equals == std::string::npos) {
      for (int v = 0; v < foreign->values && i + 1 < arguments.size() && !is_flag(arguments[i + 1]); ++v) ++i;
    }
  }
  return out;
}

std::string nearest(const std::string& word, const std::vector<std::string>& known) {
  const auto distance = [](const std::string& a, const std::string& b) {
    std::vector<size_t> row(b.size() + 1);
    for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= a.size(); ++i) {
      size_t diagonal = std::exchange(row[0], i);
      for (size_t j = 1; j <= b.size(); ++j)
        diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])}));
    }
    return row[b.size()];
  };
  std::string best;
  size_t least = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& k : known) {
    const size_t d = k.starts_with(word) && word.size() > 1 ? 1 : distance(word, k);
    if (d < least) least = d, best = k;
  }
  return best;
}

}  // namespace smelt
