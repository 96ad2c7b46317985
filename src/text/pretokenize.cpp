#include "text/pretokenize.h"

#include "text/utf8.h"

namespace smelt {
namespace {

struct Char {
  ClassBits bits;
  uint8_t length;
};

Char char_at(std::string_view text, size_t pos) {
  static const ClassBits* const table = class_table();
  uint8_t byte = static_cast<uint8_t>(text[pos]);
  if (byte < 0x80) return {table[byte], 1};
  Utf8Char c = utf8_at(text, pos);
  return {c.status == Utf8::valid ? table[c.codepoint] : ClassBits{0}, c.length};
}

// The end of at most `most` characters of the set; `count` says how many there were.
size_t skip(std::string_view text, size_t pos, CharSet set, int64_t most, int64_t& count) {
  for (count = 0; pos < text.size() && count < most; ++count) {
    Char c = char_at(text, pos);
    if (!set.contains(c.bits)) break;
    pos += c.length;
  }
  return pos;
}

// lead? body{least,most} tail*; the position itself where it does not match.
size_t match_run(const Alternative& alternative, std::string_view text, size_t pos) {
  // Greedy, as in the expressions: the lead is taken if the body still matches after it. The body
  // has one character at least, so one look is enough for that.
  size_t begin = pos;
  if (alternative.lead != Alternative::Lead::none) {
    Char first = char_at(text, pos);
    size_t after = pos + first.length;
    bool takes = alternative.lead_set.contains(first.bits) && after < text.size() &&
                 alternative.body.contains(char_at(text, after).bits);
    if (takes) begin = after;
    if (!takes && alternative.lead == Alternative::Lead::required) return pos;
  }
  int64_t count = 0;
  size_t end = skip(text, begin, alternative.body, alternative.most, count);
  if (count < alternative.least) return pos;
  return alternative.tail.classes ? skip(text, end, alternative.tail, Alternative::kUnlimited, count) : end;
}

size_t match_contraction(bool any_case, std::string_view text, size_t pos) {
  if (text[pos] != '\'') return pos;
  auto letter = [&](size_t i) {
    char c = i < text.size() ? text[i] : '\0';
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  char first = letter(pos + 1), second = letter(pos + 2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return pos + 2;
  if (second == 'e' && (first == 'r' || first == 'v')) return pos + 3;
  if (second == 'l' && first == 'l') return pos + 3;
  return pos;
}

// A maximal run of upper, then what lower+ can still have: all that follows or, where nothing does, what greed gave
// back to it, which ends with the last character of the run that has no case.
size_t match_upper_lower(const Alternative& alternative, std::string_view text, size_t pos, bool needs_lower) {
  int64_t count = 0;
  size_t end = pos, last_both = pos;
  while (end < text.size()) {
    const Char c = char_at(text, end);
    if (!alternative.upper.contains(c.bits)) break;
    end += c.length;
    if (alternative.body.contains(c.bits)) last_both = end;
  }
  const size_t lower_end = skip(text, end, alternative.body, Alternative::kUnlimited, count);
  if (count > 0 && (needs_lower || end > pos)) return lower_end;
  return needs_lower ? last_both : end;
}

size_t match_cased_word(const Alternative& alternative, std::string_view text, size_t pos) {
  const Char first = char_at(text, pos);
  const size_t after_lead = alternative.lead_set.contains(first.bits) ? pos + first.length : pos;
  for (const bool needs_lower : {true, false}) {
    for (const size_t begin : {after_lead, pos}) {
      const size_t end = match_upper_lower(alternative, text, begin, needs_lower);
      if (end == begin) continue;
      return alternative.then_contraction && end < text.size() ? match_contraction(true, text, end) : end;
    }
  }
  return pos;
}

}  // namespace

void StageScanner::scan_spaces(size_t pos) {
  if (pos < spaces_end_) return;
  newlines_end_ = 0;
  while (pos < text_.size()) {
    Char c = char_at(text_, pos);
    if (!(c.bits & char_class::space)) break;
    last_space_ = pos;
    pos += c.length;
    if (c.bits & char_class::newline) newlines_end_ = pos;
  }
  spaces_end_ = pos;
}

// The end of the match at `pos`; `pos` where there is none.
size_t StageScanner::match(const Alternative& alternative, size_t pos) {
  switch (alternative.form) {
    case Alternative::Form::run: return match_run(alternative, text_, pos);
    case Alternative::Form::cased_word: return match_cased_word(alternative, text_, pos);
    case Alternative::Form::contraction: return match_contraction(alternative.any_case, text_, pos);
    case Alternative::Form::lines:
    case Alternative::Form::spaces:
    case Alternative::Form::trailing_spaces: break;
  }
  if (!(char_at(text_, pos).bits & char_class::space)) return pos;
  scan_spaces(pos);
  bool at_end = spaces_end_ == text_.size();
  if (alternative.form == Alternative::Form::lines) return newlines_end_ > pos ? newlines_end_ : pos;
  if (alternative.form == Alternative::Form::trailing_spaces) return at_end ? spaces_end_ : pos;
  return at_end || last_space_ == pos ? spaces_end_ : last_space_;
}

size_t StageScanner::match(size_t pos) {
  for (const Alternative& alternative : *stage_)
    if (size_t end = match(alternative, pos); end > pos) return end;
  return pos;
}

std::string_view StageScanner::next() {
  size_t begin = done_;
  if (match_end_ > begin) {
    done_ = match_end_;
    return text_.substr(begin, done_ - begin);
  }
  for (size_t pos = begin; pos < text_.size(); pos += char_at(text_, pos).length) {
    size_t end = match(pos);
    if (end == pos) continue;
    // A gap goes out first; the match waits for the next call.
    match_end_ = end;
    done_ = pos > begin ? pos : end;
    return text_.substr(begin, done_ - begin);
  }
  done_ = text_.size();
  return text_.substr(begin);
}

}  // namespace smelt
