#include "jinja/text_tools.h"

#include <algorithm>

#include "jinja/unicode.h"

namespace smelt::jinja {
namespace {

template <class Drops>
Text strip(const Text& text, Side side, const Drops& drops) {
  const std::string& bytes = text.bytes();
  size_t begin = 0, end = bytes.size();
  while (side != Side::right && begin < end) {
    const Character c = character_at(bytes, begin);
    if (!drops(c)) break;
    begin = c.end;
  }
  while (side != Side::left && end > begin) {
    const Character c = character_before(bytes, end);
    if (!drops(c)) break;
    end = c.begin;
  }
  return text.slice(begin, end);
}

bool ends_line(uint32_t codepoint) {
  return (codepoint >= 0x0A && codepoint <= 0x0D) || (codepoint >= 0x1C && codepoint <= 0x1E) || codepoint == 0x85 ||
         codepoint == 0x2028 || codepoint == 0x2029;
}

}  // namespace

Text strip_spaces(const Text& text, Side side) {
  return strip(text, side, [](const Character& c) { return is_space(c.codepoint); });
}

Text strip_characters(const Text& text, std::string_view characters, Side side) {
  std::vector<uint32_t> dropped;
  for (size_t pos = 0; pos < characters.size();) {
    const Character c = character_at(characters, pos);
    dropped.push_back(c.codepoint);
    pos = c.end;
  }
  return strip(text, side, [&](const Character& c) {
    return std::find(dropped.begin(), dropped.end(), c.codepoint) != dropped.end();
  });
}

Text replace(const Text& text, std::string_view from, const Text& to, int64_t count) {
  const std::string& bytes = text.bytes();
  Text out;
  size_t done = 0;
  if (from.empty()) {
    const std::vector<size_t> starts = character_starts(bytes);
    for (size_t i = 0; i < starts.size() && count != 0; ++i, --count) {
      out.append(text.slice(done, starts[i]));
      out.append(to);
      done = starts[i];
    }
  } else {
    for (size_t at = bytes.find(from); at != bytes.npos && count != 0; at = bytes.find(from, done), --count) {
      out.append(text.slice(done, at));
      out.append(to);
      done = at + from.size();
    }
  }
  out.append(text.slice(done, bytes.size()));
  return out;
}

std::vector<Text> split(const Text& text, std::string_view separator, int64_t count) {
  std::vector<Text> parts;
  size_t begin = 0;
  for (; count != 0; --count) {
    const size_t at = text.bytes().find(separator, begin);
    if (at == std::string::npos) break;
    parts.push_back(text.slice(begin, at));
    begin = at + separator.size();
  }
  parts.push_back(text.slice(begin, text.size()));
  return parts;
}

std::vector<Text> split_from_right(const Text& text, std::string_view separator, int64_t count) {
  std::vector<Text> parts;
  size_t end = text.size();
  for (; count != 0 && end >= separator.size(); --count) {
    const size_t at = text.bytes().rfind(separator, end - separator.size());
    if (at == std::string::npos) break;
    parts.push_back(text.slice(at + separator.size(), end));
    end = at;
  }
  parts.push_back(text.slice(0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<Text> split_at_spaces(const Text& text, int64_t count) {
  const std::string& bytes = text.bytes();
  std::vector<Text> parts;
  size_t begin = skip_spaces(bytes, 0);
  for (; begin < bytes.size() && count != 0; --count) {
    size_t end = begin;
    while (end < bytes.size() && !is_space(character_at(bytes, end).codepoint)) end = character_at(bytes, end).end;
    parts.push_back(text.slice(begin, end));
    begin = skip_spaces(bytes, end);
  }
  if (begin < bytes.size()) parts.push_back(text.slice(begin, skip_spaces_back(bytes, bytes.size())));
  return parts;
}

std::vector<Text> split_at_spaces_from_right(const Text& text, int64_t count) {
  const std::string& bytes = text.bytes();
  std::vector<Text> parts;
  size_t end = skip_spaces_back(bytes, bytes.size());
  for (; end > 0 && count != 0; --count) {
    size_t begin = end;
    while (begin > 0 && !is_space(character_before(bytes, begin).codepoint))
      begin = character_before(bytes, begin).begin;
    parts.push_back(text.slice(begin, end));
    end = skip_spaces_back(bytes, begin);
  }
  if (end > 0) parts.push_back(text.slice(skip_spaces(bytes, 0), end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

Text escaped(const Text& text) {
  if (text.is_markup()) return text;
  Text out;
  size_t done = 0;
  const std::string& bytes = text.bytes();
  for (size_t i = 0; i < bytes.size(); ++i) {
    const char* entity = bytes[i] == '&'    ? "&amp;"
                         : bytes[i] == '<'  ? "&lt;"
                         : bytes[i] == '>'  ? "&gt;"
                         : bytes[i] == '"'  ? "&#34;"
                         : bytes[i] == '\'' ? "&#39;"
                                            : nullptr;
    if (!entity) continue;
    out.append(text.slice(done, i));
    out.append(entity);
    done = i + 1;
  }
  out.append(text.slice(done, bytes.size()));
  return std::move(out).as_markup();
}

std::vector<Text> split_lines(const Text& text, bool keep_ends) {
  const std::string& bytes = text.bytes();
  std::vector<Text> lines;
  size_t begin = 0;
  for (size_t pos = 0; pos < bytes.size();) {
    const Character c = character_at(bytes, pos);
    pos = c.end;
    if (!ends_line(c.codepoint)) continue;
    if (c.codepoint == '\r' && pos < bytes.size() && bytes[pos] == '\n') ++pos;
    lines.push_back(text.slice(begin, keep_ends ? pos : c.begin));
    begin = pos;
  }
  if (begin < bytes.size()) lines.push_back(text.slice(begin, bytes.size()));
  return lines;
}

}  // namespace smelt::jinja
