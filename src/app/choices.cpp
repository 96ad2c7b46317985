#include "app/choices.h"

#include <algorithm>
#include <cmath>

#include "evaluation/token_loss.h"

namespace smelt {
namespace {

using Tokens = std::vector<int32_t>;

size_t common_prefix(const std::vector<Tokens>& texts) {
  size_t shared = texts.front().size();
  for (const Tokens& text : texts) {
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(shared, text.size()));
    shared = static_cast<size_t>(std::mismatch(text.begin(), end, texts.front().begin()).first - text.begin());
  }
  return shared;
}

// The tokens of a text that are scored: those of first .. end - 1.
struct Scored {
  size_t first = 0, end = 0;
};

// Where all texts go on for long enough behind their answers, these are left out, as is the last token of a text, often
// a full stop.
std::vector<Scored> scored_parts(const Tokenizer& tokenizer, const ChoiceTask& task, const std::vector<Tokens>& texts) {
  constexpr size_t kShortest = 3;
  const size_t shared = common_prefix(texts);
  const bool skips = !task.beginnings.empty() && std::all_of(texts.begin(), texts.end(), [&](const Tokens& text) {
    return text.size() - shared > kShortest;
  });
  std::vector<Scored> parts;
  for (size_t i = 0; i < texts.size(); ++i) {
    const size_t first = skips ? tokenizer.encode(task.beginnings[i], false).size() : shared;
    Scored part{std::clamp<size_t>(first, 1, texts[i].size() - 1), texts[i].size()};
    if (!task.beginnings.empty() && part.end - part.first > 1) --part.end;
    parts.push_back(part);
  }
  return parts;
}

// The mean of log p of a part, which is not empty. What the session has in common with the text is not read again.
Result<double> mean_of(Session& session, const Tokens& text, const Scored& part, const std::atomic<bool>* cancel) {
  int64_t shared = 0;
  for (const CachedToken& token : session.tokens()) {
    if (shared + 1 >= static_cast<int64_t>(part.first) || token.id != text[static_cast<size_t>(shared)]) break;
    ++shared;
  }
  session.rewind(shared);
  const auto begin = static_cast<size_t>(session.position());
  double sum = 0;
  const auto add = [&](int64_t index, std::span<const float> logits) {
    const size_t next = begin + static_cast<size_t>(index) + 1;
    if (next >= part.first) sum -= negative_log_probability(logits, text[next]);
  };
  SMELT_CHECK(session.append_all(std::span(text).subspan(begin, part.end - 1 - begin), add, cancel));
  return sum / static_cast<double>(part.end - part.first);
}

}  // namespace

ChoiceScore::Interval ChoiceScore::interval() const {
  constexpr double kZ = 1.959963984540054;  // 95 % of a normal distribution lie so many deviations from its mean
  const auto n = static_cast<double>(done);
  const double p = accuracy(), z = kZ * kZ / n, middle = p + z / 2, half = std::sqrt(z * (p * (1 - p) + z / 4));
  return {(middle - half) / (1 + z), (middle + half) / (1 + z)};
}

Result<std::vector<double>> score_answers(Session& session, const Tokenizer& tokenizer, const ChoiceTask& task,
                                          const std::atomic<bool>* cancel) {
  std::vector<Tokens> texts;
  for (const std::string& text : task.texts) {
    texts.push_back(tokenizer.encode(text, false));
    if (texts.back().size() < 2)
      return Error{"[perplexity] '" + text + "' has fewer than two tokens; nothing can be scored"};
  }
  const std::vector<Scored> parts = scored_parts(tokenizer, task, texts);
  std::vector<double> means;
  for (size_t i = 0; i < texts.size(); ++i) {
    SMELT_TRY(mean, mean_of(session, texts[i], parts[i], cancel));
    means.push_back(mean);
  }
  return means;
}

}  // namespace smelt
