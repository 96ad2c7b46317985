#include "text/unigram.h"

#include <algorithm>
#include <limits>

#include "text/utf8.h"

namespace smelt {
namespace {

constexpr float kUnknownCost = 10;
constexpr size_t kPart = size_t{1} << 24;  // bytes; each takes 12 more while it is encoded

// In the library's texts a space has three bytes.
size_t library_length(std::string_view piece) {
  return piece.size() + 2 * static_cast<size_t>(std::count(piece.begin(), piece.end(), ' '));
}

float as_float(double x) {
  constexpr double kMost = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(x, -kMost, kMost));
}

bool counts(TokenType type) { return type == TokenType::normal || type == TokenType::user_defined; }

}  // namespace

UnigramModel::UnigramModel(std::span<const std::string> pieces, std::span<const TokenType> types,
                           std::span<const double> scores, int32_t unknown)
    : scores_(scores.begin(), scores.end()), unknown_(unknown) {
  // The library begins with the least positive number: logarithms are below it.
  float least = std::numeric_limits<float>::max(), most = std::numeric_limits<float>::min();
  std::vector<int32_t> sorted;
  byte_ids_.fill(-1);
  for (size_t i = pieces.size(); i-- > 0;) {
    if (types[i] == TokenType::byte) byte_ids_[static_cast<uint8_t>(pieces[i][0])] = static_cast<int32_t>(i);
    if (counts(types[i]) && !pieces[i].empty()) sorted.push_back(static_cast<int32_t>(i));
    if (types[i] != TokenType::normal) continue;
    least = std::min(least, as_float(scores[i]));
    most = std::max(most, as_float(scores[i]));
  }
  unknown_score_ = least - kUnknownCost;
  // Those that a user has defined win over all that is made of others.
  for (size_t i = 0; i < pieces.size(); ++i)
    if (types[i] == TokenType::user_defined) scores_[i] = static_cast<float>(library_length(pieces[i])) * most - 0.1;
  std::sort(sorted.begin(), sorted.end(), [&](int32_t a, int32_t b) {
    const int order = pieces[a].compare(pieces[b]);
    return order != 0 ? order < 0 : a < b;
  });
  build(pieces, std::move(sorted));
}

void UnigramModel::build(std::span<const std::string> pieces, std::vector<int32_t> sorted) {
  struct Range {
    size_t begin, end, depth;  // of sorted pieces that share so many bytes
  };
  std::vector<Range> ranges = {{0, sorted.size(), 0}};
  nodes_.emplace_back();
  for (size_t node = 0; node < nodes_.size(); ++node) {
    auto [at, end, depth] = ranges[node];
    for (; at < end && pieces[sorted[at]].size() == depth; ++at)
      if (depth > 0 && nodes_[node].id < 0) nodes_[node].id = sorted[at];
    nodes_[node].first_child = static_cast<uint32_t>(nodes_.size());
    while (at < end) {
      const char byte = pieces[sorted[at]][depth];
      size_t next = at;
      while (next < end && pieces[sorted[next]][depth] == byte) ++next;
      nodes_.push_back({.byte = static_cast<uint8_t>(byte)});
      ranges.push_back({at, next, depth + 1});
      ++nodes_[node].children;
      at = next;
    }
  }
}

const UnigramModel::TrieNode* UnigramModel::child(const TrieNode& node, uint8_t byte) const {
  const auto begin = nodes_.begin() + node.first_child, end = begin + node.children;
  const auto found = std::lower_bound(begin, end, byte, [](const TrieNode& n, uint8_t b) { return n.byte < b; });
  return found != end && found->byte == byte ? &*found : nullptr;
}

// All tokens that begin at a place, as the last step to where they end.
void UnigramModel::add_steps(std::string_view text, size_t begin, std::span<Step> steps) const {
  const float so_far = steps[begin].score;
  const size_t character = utf8_at(text, begin).length;
  const auto offer = [&](size_t end, int32_t id, double score) {
    Step& step = steps[end];
    if (step.begin == kNowhere || score > step.score) step = {id, static_cast<uint32_t>(begin), as_float(score)};
  };
  bool has_character = false;
  const TrieNode* node = &nodes_[0];
  for (size_t end = begin; end < text.size();) {
    node = child(*node, static_cast<uint8_t>(text[end++]));
    if (!node) break;
    if (node->id < 0) continue;
    offer(end, node->id, scores_[static_cast<size_t>(node->id)] + so_far);
    has_character = has_character || end - begin == character;
  }
  if (!has_character) offer(begin + character, -1, unknown_score_ + so_far);
}

void UnigramModel::append_unknown(std::string_view character, std::vector<int32_t>& out, bool& after_unknown) const {
  const auto id_of = [&](char c) { return byte_ids_[static_cast<uint8_t>(c)]; };
  if (std::all_of(character.begin(), character.end(), [&](char c) { return id_of(c) >= 0; })) {
    for (const char c : character) out.push_back(id_of(c));
    return;
  }
  if (!after_unknown && unknown_ >= 0) out.push_back(unknown_);
  after_unknown = true;
}

void UnigramModel::encode_part(std::string_view text, std::vector<int32_t>& out) const {
  std::vector<Step> steps(text.size() + 1);
  for (size_t at = 0; at < text.size(); at += utf8_at(text, at).length) add_steps(text, at, steps);
  std::vector<size_t> ends;
  for (size_t end = text.size(); end > 0; end = steps[end].begin) ends.push_back(end);
  bool after_unknown = false;
  for (size_t i = ends.size(); i-- > 0;) {
    const Step& step = steps[ends[i]];
    if (step.id < 0) {
      append_unknown(text.substr(step.begin, ends[i] - step.begin), out, after_unknown);
      continue;
    }
    out.push_back(step.id);
    after_unknown = false;
  }
}

void UnigramModel::encode(std::string_view text, std::vector<int32_t>& out) const {
  while (!text.empty()) {
    size_t end = std::min(kPart, text.size());
    while (end < text.size() && text[end] != ' ' && end > kPart / 2) --end;
    encode_part(text.substr(0, end), out);
    text.remove_prefix(end);
  }
}

}  // namespace smelt
