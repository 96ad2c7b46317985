#include "text/bpe.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>

#include "support/cpu_time.h"
#include "text/sample_vocabulary.h"

using namespace smelt;

namespace {

using Tokens = std::vector<std::string>;
using Merges = std::vector<std::pair<std::string, std::string>>;  // lowest rank first

// The definition: look through the whole word for the best merge, apply it, begin again.
Tokens encode_slowly(const Merges& merges, std::string_view word) {
  Tokens tokens;
  for (char c : word) tokens.emplace_back(1, c);
  for (;;) {
    size_t best_rank = merges.size(), best_at = 0;
    for (size_t at = 0; at + 1 < tokens.size(); ++at)
      for (size_t rank = 0; rank < best_rank; ++rank)
        if (merges[rank] == std::pair(tokens[at], tokens[at + 1])) best_rank = rank, best_at = at;
    if (best_rank == merges.size()) return tokens;
    tokens[best_at] += tokens[best_at + 1];
    tokens.erase(tokens.begin() + best_at + 1);
  }
}

struct SmallModel {
  BpeModel model;
  Tokens texts;

  explicit SmallModel(const Merges& merges) {
    std::map<std::string, int32_t> ids;
    for (int byte = 0; byte < 256; ++byte) {
      model.byte_ids[byte] = byte;
      texts.emplace_back(1, static_cast<char>(byte));
      ids[texts.back()] = byte;
    }
    model.merges = MergeTable(merges.size());
    for (uint32_t rank = 0; rank < merges.size(); ++rank) {
      auto [left, right] = merges[rank];
      auto [joined, is_new] = ids.try_emplace(left + right, static_cast<int32_t>(texts.size()));
      if (is_new) texts.push_back(left + right);
      model.merges.add(ids.at(left), ids.at(right), {rank, joined->second});
    }
  }

  Tokens encode(std::string_view word, size_t window = BpeEncoder::kWindow) const {
    std::vector<int32_t> ids;
    BpeEncoder(model, window).encode_word(word, ids);
    Tokens tokens;
    for (int32_t id : ids) tokens.push_back(texts[id]);
    return tokens;
  }
};

// Merges of tokens that there are at that point, in any order of usefulness: worse than real
// vocabularies.
Merges random_merges(std::mt19937& random, int count) {
  Tokens tokens = {"a", "b", "c"};
  std::set<std::pair<std::string, std::string>> seen;
  Merges merges;
  for (int i = 0; i < count; ++i) {
    std::pair<std::string, std::string> merge(tokens[random() % tokens.size()], tokens[random() % tokens.size()]);
    if (merge.first.size() + merge.second.size() > 8 || !seen.insert(merge).second) continue;
    tokens.push_back(merge.first + merge.second);
    merges.push_back(merge);
  }
  return merges;
}

std::string random_word(std::mt19937& random, size_t length) {
  std::string word;
  while (word.size() < length) word.append(1 + random() % 4, "abc"[random() % 3]);
  return word;
}

double seconds_for(const Tokenizer& tokenizer, const std::string& text) {
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    best = std::min(best, test::cpu_seconds_of([&] { CHECK(tokenizer.encode(text).size() > 0); }));
  }
  return best;
}

}  // namespace

TEST_CASE("merges apply by rank, the leftmost first") {
  SmallModel model({{"l", "o"}, {"o", "w"}, {"lo", "w"}, {"e", "r"}, {"a", "a"}});
  CHECK(model.encode("lower") == Tokens{"low", "er"});
  CHECK(model.encode("ow") == Tokens{"ow"});
  CHECK(model.encode("aaa") == Tokens{"aa", "a"});
  CHECK(model.encode("x") == Tokens{"x"});
  CHECK(model.encode("").empty());
}

TEST_CASE("the first of two equal merges counts") {
  SmallModel model({{"a", "b"}, {"b", "c"}, {"a", "b"}});
  CHECK(model.encode("abc") == Tokens{"ab", "c"});
}

TEST_CASE("the queue gives what the definition gives, also when ranks are in no sensible order") {
  std::mt19937 random(1);
  for (int round = 0; round < 150; ++round) {
    Merges merges = random_merges(random, 20);
    if (round % 2) std::shuffle(merges.begin(), merges.end(), random);
    // A shuffled list may use a token before the merge that makes it; SmallModel wants both parts
    // to exist.
    if (round % 2)
      std::stable_sort(merges.begin(), merges.end(), [](auto& a, auto& b) {
        return std::max(a.first.size(), a.second.size()) < std::max(b.first.size(), b.second.size());
      });
    SmallModel model(merges);
    std::string word = random_word(random, 60);
    CHECK(model.encode(word) == encode_slowly(merges, word));
  }
}

TEST_CASE("windows give the same tokens as whole words") {
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    SmallModel model(random_merges(random, 30));
    std::string word = round % 3 == 0 ? std::string(500, 'a') : random_word(random, 500);
    Tokens whole = model.encode(word, 1000);
    for (size_t window : {1, 4, 16, 37, 128}) CHECK(model.encode(word, window) == whole);
  }
}

TEST_CASE("a border that depends on the far right is found by encoding the word as a whole") {
  // Pairs form from the right end: "ax" first, which leaves the next a without its neighbour, and
  // so on.
  Merges merges = {{"a", "x"}};
  std::string left = "a", text = "ax";
  for (int i = 0; i < 12; ++i) {
    merges.emplace_back("a", text);
    text = "a" + text;
  }
  merges.emplace_back("a", "a");
  SmallModel model(merges);
  const std::string word = std::string(40, 'a') + "x";
  for (size_t window : {8, 13, 32}) CHECK(model.encode(word, window) == encode_slowly(merges, word));
}

TEST_CASE("bytes without a token are left out") {
  SmallModel model(Merges{{"a", "b"}});
  model.model.byte_ids['x'] = -1;
  CHECK(model.encode("axbx") == Tokens{"ab"});
  CHECK(model.encode("xxxxxxxxxxxxaxxxxxxxxxxxb", 4) == Tokens{"ab"});
  CHECK(model.encode(std::string(100, 'x'), 4).empty());
}

TEST_CASE("time is linear in the length of one word") {
  TokenizerData data = test::byte_vocabulary();
  for (std::string run : {"a", " ", "\n", "!"})
    for (int i = 0; i < 8; ++i, run += run) test::add_merge(data, run, run);
  Tokenizer tokenizer = test::make(std::move(data));
  for (const char* unit : {"a", " ", "\n", "!", "7", "ab", "\n ", " \t", "\xE4\xB8\x80", "\xFF", "'"}) {
    std::string small, large;
    while (small.size() < (32 << 10)) small += unit;
    while (large.size() < (512 << 10)) large += unit;
    CAPTURE(unit);
    // 16 times the text: a quadratic step anywhere would make it 256 times the time.
    CHECK(seconds_for(tokenizer, large) < 64 * seconds_for(tokenizer, small));
    CHECK(tokenizer.decode(tokenizer.encode(small)) == small);
  }
}
