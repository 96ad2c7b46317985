// Filters that make texts of texts.
#include <algorithm>

#include "jinja/format.h"
#include "jinja/functions.h"
#include "jinja/interpreter.h"
#include "jinja/json.h"
#include "jinja/repr.h"
#include "jinja/text_tools.h"
#include "jinja/unicode.h"

namespace smelt::jinja {
namespace {

using Subject = const Value&;
using Given = const Arguments&;

template <std::string (*change)(std::string_view)>
Value changed(Interpreter&, Subject value, Given given) {
  Parameters("this filter", given, {});
  const Text text = to_text(value);
  return text.remade(change(text.bytes()));
}

Value trim(Interpreter&, Subject value, Given given) {
  const Parameters p("trim", given, {"chars"});
  const Text text = to_text(value);
  return p.is_absent(0) ? strip_spaces(text, Side::both) : strip_characters(text, p.text(0).bytes(), Side::both);
}

// As jinja has it: words begin after white space and opening brackets.
std::string title(std::string_view text) {
  std::string out;
  size_t begin = 0;
  const auto add_word = [&](size_t end) {
    if (begin == end) return;
    const Character first = character_at(text, begin);
    out += to_upper(text.substr(begin, first.end - begin)) + to_lower(text.substr(first.end, end - first.end));
    begin = end;
  };
  bool between = false;
  for (size_t pos = 0; pos < text.size();) {
    const Character c = character_at(text, pos);
    const bool divides = is_space(c.codepoint) || std::string_view("-({[<").find(text[pos]) != std::string_view::npos;
    if (divides != between) add_word(pos);
    between = divides;
    pos = c.end;
  }
  add_word(text.size());
  return out;
}

Value string(Interpreter&, Subject value, Given given) {
  Parameters("string", given, {});
  return to_text(value);
}

Value safe(Interpreter&, Subject value, Given given) {
  Parameters("safe", given, {});
  return to_text(value).as_markup();
}

Value escape(Interpreter&, Subject value, Given given) {
  Parameters("escape", given, {});
  return escaped(to_text(value));
}

Value force_escape(Interpreter&, Subject value, Given given) {
  Parameters("forceescape", given, {});
  return escaped(Text(to_text(value)).as_plain());
}

Value replace(Interpreter& interpreter, Subject value, Given given) {
  const Parameters p("replace", given, {"old", "new", "count"});
  const int64_t count = p.is_absent(2) ? -1 : p.integer(2, -1);
  Text text = jinja::replace(to_text(value), to_text(p[0]).bytes(), to_text(p[1]), count);
  interpreter.charge_bytes(text.size());
  return text;
}

Value format(Interpreter& interpreter, Subject value, Given given) {
  if (!given.positional.empty() && !given.named.empty()) fail("format takes arguments with names or without, not both");
  if (given.named.empty()) return percent_format(interpreter, to_text(value), make_tuple(given.positional));
  auto dict = std::make_shared<Dict>();
  for (const auto& [name, argument] : given.named) dict->set(Value(name), argument);
  return percent_format(interpreter, to_text(value), DictRef(std::move(dict)));
}

Value indent(Interpreter& interpreter, Subject value, Given given) {
  const Parameters p("indent", given, {"width", "first", "blank"});
  if (!value.is_text()) fail("indent needs a string");
  Text by;
  if (p.has(0) && p[0].is_text()) {
    by = p[0].text();
  } else {
    const int64_t width = p.integer(0, 4);
    interpreter.charge_bytes(static_cast<size_t>(std::clamp<int64_t>(width, 0, int64_t{1} << 40)));
    by = Text(std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' '));
  }
  Text text = to_text(value);
  text.append("\n");
  const std::vector<Text> lines = split_lines(text, false);
  Text out;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.append("\n");
    if (i == 0 ? p.flag(1, false) : p.flag(2, false) || !lines[i].empty()) out.append(by);
    out.append(lines[i]);
    interpreter.charge_bytes(out.size());
  }
  return out;
}

Value truncate(Interpreter&, Subject value, Given given) {
  const Parameters p("truncate", given, {"length", "killwords", "end", "leeway"});
  const auto is_short_list = [&] {
    return value.is_sequence() && static_cast<int64_t>(value.sequence()->items.size()) <= p.integer(0, 255);
  };
  if (value.is_undefined() || is_short_list()) return value;
  if (!value.is_text()) fail("truncate needs a string");
  const Text text = to_text(value), end = p.text(2, "...");
  const int64_t length = p.integer(0, 255), leeway = p.is_absent(3) ? 5 : p.integer(3, 5);
  const std::vector<size_t> starts = character_starts(text.bytes());
  const auto end_length = static_cast<int64_t>(count_characters(end.bytes()));
  if (length < end_length || leeway < 0) fail("truncate: the length is shorter than its end");
  if (static_cast<int64_t>(starts.size()) - 1 <= length + leeway) return text;
  Text out = text.slice(0, starts[static_cast<size_t>(length - end_length)]);
  if (!p.flag(1, false)) out = split_from_right(out, " ", 1).front();
  out.append(end);
  return out;
}

Value center(Interpreter& interpreter, Subject value, Given given) {
  const Parameters p("center", given, {"width"});
  Arguments width;
  width.positional.push_back(p.get(0, Value(80)));
  const Value text = to_text(value);
  return find_method(text, "center")(interpreter, text, width);
}

Value wordcount(Interpreter& interpreter, Subject value, Given given) {
  Parameters("wordcount", given, {});
  const std::string text = to_text(value).bytes();
  int64_t count = 0;
  bool in_word = false;
  for (size_t pos = 0; pos < text.size();) {
    const Character c = character_at(text, pos);
    const Value letter(std::string_view(text).substr(c.begin, c.end - c.begin));
    const bool is_word = letter.bytes() == "_" || is_true(find_method(letter, "isalnum")(interpreter, letter, {}));
    count += is_word && !in_word;
    in_word = is_word;
    pos = c.end;
  }
  return count;
}

// In a query, spaces are "+" and slashes are escaped, too.
std::string quoted_for_url(std::string_view text, bool is_query) {
  static constexpr std::string_view kPlain = "_.-~";
  std::string out;
  for (char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                          kPlain.find(c) != kPlain.npos || (c == '/' && !is_query);
    char buffer[4];
    std::snprintf(buffer, sizeof buffer, "%%%02X", static_cast<unsigned>(static_cast<uint8_t>(c)));
    out += is_plain ? std::string(1, c) : c == ' ' && is_query ? "+" : buffer;
  }
  return out;
}

Value urlencode(Interpreter& interpreter, Subject value, Given given) {
  Parameters("urlencode", given, {});
  const bool is_list = value.is_dict() || value.is_sequence();
  if (!is_list) {
    const Text text = to_text(value);
    return text.remade(quoted_for_url(text.bytes(), false));
  }
  const Value pairs = value.is_dict() ? find_method(value, "items")(interpreter, value, {}) : value;
  const SequenceRef sequence = interpreter.items_of(pairs);
  Text out;
  for (const Value& pair : sequence->items) {
    const SequenceRef both = interpreter.items_of(pair);
    if (both->items.size() != 2) fail("urlencode needs pairs");
    if (!out.empty()) out.append("&");
    const Text key = to_text(both->items[0]), text = to_text(both->items[1]);
    out.append(key.remade(quoted_for_url(key.bytes(), true)));
    out.append("=");
    out.append(text.remade(quoted_for_url(text.bytes(), true)));
    interpreter.charge_bytes(out.size());
  }
  return out;
}

// With the signature that Hugging Face gives it.
Value tojson(Interpreter& interpreter, Subject value, Given given) {
  const Parameters p("tojson", given, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii = p.flag(0, false);
  style.sort_keys = p.flag(3, false);
  if (!p.is_absent(1)) {
    if (p[1].is_text()) {
      style.indent = p[1].bytes();
    } else {
      const int64_t width = std::clamp<int64_t>(p.integer(1, 0), 0, 1000);
      style.indent = std::string(static_cast<size_t>(width), ' ');
    }
    style.item_separator = ",";
  }
  if (!p.is_absent(2)) {
    const SequenceRef both = interpreter.items_of(p[2]);
    if (both->items.size() != 2 || !both->items[0].is_text() || !both->items[1].is_text()) {
      fail("tojson: separators are two strings");
    }
    style.item_separator = both->items[0].bytes();
    style.key_separator = both->items[1].bytes();
  }
  return to_json(interpreter, value, style);
}

constexpr NamedFilter kFilters[] = {{"upper", changed<to_upper>},
                                    {"lower", changed<to_lower>},
                                    {"capitalize", changed<to_capitalized>},
                                    {"title", changed<title>},
                                    {"trim", trim},
                                    {"string", string},
                                    {"safe", safe},
                                    {"escape", escape},
                                    {"e", escape},
                                    {"forceescape", force_escape},
                                    {"replace", replace},
                                    {"format", format},
                                    {"indent", indent},
                                    {"truncate", truncate},
                                    {"center", center},
                                    {"wordcount", wordcount},
                                    {"urlencode", urlencode},
                                    {"tojson", tojson}};

}  // namespace

std::span<const NamedFilter> text_filters() { return kFilters; }

}  // namespace smelt::jinja
