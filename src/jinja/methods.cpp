// Methods of str, dict, list and tuple.
#include <utf8proc.h>

#include <algorithm>

#include "jinja/format.h"
#include "jinja/functions.h"
#include "jinja/interpreter.h"
#include "jinja/repr.h"
#include "jinja/text_tools.h"
#include "jinja/unicode.h"

namespace smelt::jinja {
namespace {

using Subject = const Value&;
using Given = const Arguments&;

Value list_of(std::vector<Text> texts) {
  std::vector<Value> items;
  for (Text& text : texts) items.emplace_back(std::move(text));
  return make_list(std::move(items));
}

template <Side side>
Value strip(Interpreter&, Subject self, Given given) {
  const Parameters p("strip()", given, {"chars"});
  return p.is_absent(0) ? strip_spaces(self.text(), side) : strip_characters(self.text(), p.text(0).bytes(), side);
}

template <bool from_right>
Value split(Interpreter& interpreter, Subject self, Given given) {
  const Parameters p("split()", given, {"sep", "maxsplit"});
  const int64_t count = p.integer(1, -1);
  interpreter.charge(static_cast<int64_t>(self.text().size()) / 8);
  if (p.is_absent(0)) {
    return list_of(from_right ? split_at_spaces_from_right(self.text(), count) : split_at_spaces(self.text(), count));
  }
  const std::string& separator = p.text(0).bytes();
  if (separator.empty()) fail("split() needs a separator that is not empty");
  return list_of(from_right ? split_from_right(self.text(), separator, count)
                            : jinja::split(self.text(), separator, count));
}

Value splitlines(Interpreter& interpreter, Subject self, Given given) {
  interpreter.charge(static_cast<int64_t>(self.text().size()) / 8);
  return list_of(split_lines(self.text(), Parameters("splitlines()", given, {"keepends"}).flag(0, false)));
}

template <bool from_right>
Value partition(Interpreter&, Subject self, Given given) {
  const std::string& separator = Parameters("partition()", given, {"sep"}).text(0).bytes();
  if (separator.empty()) fail("partition() needs a separator that is not empty");
  const Text& text = self.text();
  const size_t at = from_right ? text.bytes().rfind(separator) : text.bytes().find(separator);
  if (at == std::string::npos) {
    if (from_right) return make_tuple({"", "", self});
    return make_tuple({self, "", ""});
  }
  const size_t end = at + separator.size();
  return make_tuple({text.slice(0, at), text.slice(at, end), text.slice(end, text.size())});
}

template <bool at_end>
bool has_affix(const Value& self, const Value& affix) {
  if (affix.is_sequence() && affix.sequence()->is_tuple()) {
    const auto& all = affix.sequence()->items;
    return std::any_of(all.begin(), all.end(), [&](const Value& one) { return has_affix<at_end>(self, one); });
  }
  if (!affix.is_text()) fail("startswith() and endswith() need a string or a tuple of strings");
  return at_end ? self.bytes().ends_with(affix.bytes()) : self.bytes().starts_with(affix.bytes());
}

template <bool at_end>
Value has_affix(Interpreter& interpreter, Subject self, Given given) {
  const Parameters p("startswith()", given, {"prefix", "start", "end"});
  if (p.is_absent(1) && p.is_absent(2)) return has_affix<at_end>(self, p[0]);
  return has_affix<at_end>(interpreter.slice(self, p.get(1, {}), p.get(2, {}), {}), p[0]);
}

template <bool at_end>
Value remove_affix(Interpreter&, Subject self, Given given) {
  const std::string& affix = Parameters("removeprefix()", given, {"prefix"}).text(0).bytes();
  const Text& text = self.text();
  if (affix.empty() || !has_affix<at_end>(self, Value(affix))) return self;
  return at_end ? text.slice(0, text.size() - affix.size()) : text.slice(affix.size(), text.size());
}

Value replace(Interpreter& interpreter, Subject self, Given given) {
  const Parameters p("replace()", given, {"old", "new", "count"});
  Text text = jinja::replace(self.text(), p.text(0).bytes(), p.text(1), p.integer(2, -1));
  interpreter.charge_bytes(text.size());
  return text;
}

template <std::string (*change)(std::string_view)>
Value changed(Interpreter&, Subject self, Given given) {
  Parameters("upper()", given, {});
  return self.text().remade(change(self.bytes()));
}

bool is_letter(uint32_t codepoint) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(codepoint))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return true;
    default: return false;
  }
}
utf8proc_category_t category(uint32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }
bool is_decimal(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }
bool is_numeric(uint32_t c) {
  return is_decimal(c) || category(c) == UTF8PROC_CATEGORY_NL || category(c) == UTF8PROC_CATEGORY_NO;
}
bool is_alphanumeric(uint32_t c) { return is_letter(c) || is_numeric(c); }
bool is_upper(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_LU; }
bool is_lower(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_LL; }

std::vector<uint32_t> codepoints(std::string_view text) {
  std::vector<uint32_t> all;
  for (size_t pos = 0; pos < text.size();) {
    const Character c = character_at(text, pos);
    all.push_back(c.codepoint);
    pos = c.end;
  }
  return all;
}

template <bool (*is_it)(uint32_t)>
Value all_are(Interpreter&, Subject self, Given given) {
  Parameters("isdigit()", given, {});
  const std::vector<uint32_t> all = codepoints(self.bytes());
  return !all.empty() && std::all_of(all.begin(), all.end(), is_it);
}

// Some letters have this case and none has the other.
template <bool (*has_case)(uint32_t), bool (*has_other)(uint32_t)>
Value is_cased(Interpreter&, Subject self, Given given) {
  Parameters("islower()", given, {});
  const std::vector<uint32_t> all = codepoints(self.bytes());
  return std::any_of(all.begin(), all.end(), has_case) && std::none_of(all.begin(), all.end(), has_other);
}

std::string title(std::string_view text) {
  std::string out;
  bool in_word = false;
  for (size_t pos = 0; pos < text.size();) {
    const Character c = character_at(text, pos);
    const std::string_view bytes = text.substr(c.begin, c.end - c.begin);
    out += in_word ? to_lower(bytes) : to_capitalized(bytes);
    in_word = is_upper(c.codepoint) || is_lower(c.codepoint) || category(c.codepoint) == UTF8PROC_CATEGORY_LT;
    pos = c.end;
  }
  return out;
}

std::string swapcase(std::string_view text) {
  std::string out;
  for (size_t pos = 0; pos < text.size();) {
    const Character c = character_at(text, pos);
    const std::string_view bytes = text.substr(c.begin, c.end - c.begin);
    out += is_upper(c.codepoint) ? to_lower(bytes) : to_upper(bytes);
    pos = c.end;
  }
  return out;
}

// The position of a substring, in characters, within start:end; -1 where it is not.
template <bool from_right>
int64_t position(Interpreter& interpreter, const Value& self, const Parameters& p) {
  const std::string& wanted = p.text(0).bytes();
  const bool whole = p.is_absent(1) && p.is_absent(2);
  const Value part = whole ? self : interpreter.slice(self, p.get(1, {}), p.get(2, {}), {});
  const size_t at = from_right ? part.bytes().rfind(wanted) : part.bytes().find(wanted);
  if (at == std::string::npos) return -1;
  int64_t before = static_cast<int64_t>(count_characters(std::string_view(part.bytes()).substr(0, at)));
  if (p.is_absent(1)) return before;
  const int64_t start = p.integer(1, 0), size = static_cast<int64_t>(count_characters(self.bytes()));
  if (start > size) return -1;
  return before + (start < 0 ? std::max<int64_t>(start + size, 0) : start);
}

template <bool from_right, bool must_exist>
Value find(Interpreter& interpreter, Subject self, Given given) {
  const int64_t at = position<from_right>(interpreter, self, Parameters("find()", given, {"sub", "start", "end"}));
  if (must_exist && at < 0) fail("substring not found");
  return at;
}

Value count_in_text(Interpreter&, Subject self, Given given) {
  const std::string& wanted = Parameters("count()", given, {"sub"}).text(0).bytes();
  if (wanted.empty()) return count_characters(self.bytes()) + 1;
  int64_t count = 0;
  for (size_t at = self.bytes().find(wanted); at != std::string::npos;
       at = self.bytes().find(wanted, at + wanted.size())) {
    ++count;
  }
  return count;
}

Value join(Interpreter& interpreter, Subject self, Given given) {
  const SequenceRef items = interpreter.items_of(Parameters("join()", given, {"iterable"})[0]);
  Text out;
  for (size_t i = 0; i < items->items.size(); ++i) {
    if (!items->items[i].is_text()) fail("join() needs strings");
    if (i > 0) out.append(self.text());
    out.append(items->items[i].text());
    interpreter.charge_bytes(out.size());
  }
  return out;
}

Value format(Interpreter& interpreter, Subject self, Given given) {
  return brace_format(interpreter, self.text(), given);
}

enum class Pad { left, right, both };

template <Pad where>
Value pad(Interpreter& interpreter, Subject self, Given given) {
  const Parameters p("center()", given, {"width", "fillchar"});
  const Text fill = p.text(1, " ");
  if (count_characters(fill.bytes()) != 1) fail("the fill character must be exactly one character long");
  const int64_t gap = p.integer(0, 0) - static_cast<int64_t>(count_characters(self.bytes()));
  p[0];
  if (gap <= 0) return self;
  interpreter.charge_bytes(static_cast<size_t>(std::min<int64_t>(gap, int64_t{1} << 40)));
  // As Python's center(): of an odd gap the larger half goes left where the width is odd.
  const int64_t left = where == Pad::left ? gap : where == Pad::right ? 0 : gap / 2 + (gap & p.integer(0, 0) & 1);
  Text out;
  for (int64_t i = 0; i < left; ++i) out.append(fill);
  out.append(self.text());
  for (int64_t i = left; i < gap; ++i) out.append(fill);
  return out;
}

Value zfill(Interpreter& interpreter, Subject self, Given given) {
  const int64_t width = Parameters("zfill()", given, {"width"}).integer(0, 0);
  const int64_t gap = width - static_cast<int64_t>(count_characters(self.bytes()));
  if (gap <= 0) return self;
  interpreter.charge_bytes(static_cast<size_t>(gap));
  const Text& text = self.text();
  const size_t sign = !text.empty() && (text.bytes()[0] == '-' || text.bytes()[0] == '+') ? 1 : 0;
  Text out = text.slice(0, sign);
  out.append(std::string(static_cast<size_t>(gap), '0'));
  out.append(text.slice(sign, text.size()));
  return out;
}

// --- dict
Value get(Interpreter&, Subject self, Given given) {
  const Parameters p("get()", given, {"key", "default"});
  const Value* value = self.dict()->find(p[0]);
  return value ? *value : p.get(1, Value());
}

template <Sequence::Type type>
Value view(Interpreter& interpreter, Subject self, Given given) {
  Parameters("items()", given, {});
  std::vector<Value> items;
  for (const auto& [key, value] : self.dict()->entries()) {
    if (type == Sequence::Type::keys) items.push_back(key);
    if (type == Sequence::Type::values) items.push_back(value);
    if (type == Sequence::Type::items) items.push_back(make_tuple({key, value}));
  }
  interpreter.charge(static_cast<int64_t>(items.size()));
  return std::make_shared<const Sequence>(type, std::move(items));
}

Value copy(Interpreter&, Subject self, Given given) {
  Parameters("copy()", given, {});
  return self;
}

Value refuse_change(Interpreter&, Subject self, Given) {
  fail("a template may not change a " + std::string(type_name(self)) + "; use a namespace");
}

// --- list and tuple
Value count_in_list(Interpreter& interpreter, Subject self, Given given) {
  const Parameters p("count()", given, {"value"});
  int64_t count = 0;
  for (const Value& item : self.sequence()->items) {
    interpreter.charge_for(item);
    count += are_equal(item, p[0]);
  }
  return count;
}

Value index_in_list(Interpreter& interpreter, Subject self, Given given) {
  const Parameters p("index()", given, {"value"});
  const auto& items = self.sequence()->items;
  for (size_t i = 0; i < items.size(); ++i) {
    interpreter.charge_for(items[i]);
    if (are_equal(items[i], p[0])) return i;
  }
  fail("the value is not in the list");
}

constexpr NamedFilter kText[] = {{"strip", strip<Side::both>},
                                 {"lstrip", strip<Side::left>},
                                 {"rstrip", strip<Side::right>},
                                 {"split", split<false>},
                                 {"rsplit", split<true>},
                                 {"splitlines", splitlines},
                                 {"partition", partition<false>},
                                 {"rpartition", partition<true>},
                                 {"startswith", has_affix<false>},
                                 {"endswith", has_affix<true>},
                                 {"removeprefix", remove_affix<false>},
                                 {"removesuffix", remove_affix<true>},
                                 {"replace", replace},
                                 {"upper", changed<to_upper>},
                                 {"lower", changed<to_lower>},
                                 {"casefold", changed<to_lower>},
                                 {"capitalize", changed<to_capitalized>},
                                 {"title", changed<title>},
                                 {"swapcase", changed<swapcase>},
                                 {"isspace", all_are<is_space>},
                                 {"isalpha", all_are<is_letter>},
                                 {"isalnum", all_are<is_alphanumeric>},
                                 {"isdigit", all_are<is_decimal>},
                                 {"isdecimal", all_are<is_decimal>},
                                 {"isnumeric", all_are<is_numeric>},
                                 {"isupper", is_cased<is_upper, is_lower>},
                                 {"islower", is_cased<is_lower, is_upper>},
                                 {"find", find<false, false>},
                                 {"rfind", find<true, false>},
                                 {"index", find<false, true>},
                                 {"rindex", find<true, true>},
                                 {"count", count_in_text},
                                 {"join", join},
                                 {"format", format},
                                 {"center", pad<Pad::both>},
                                 {"ljust", pad<Pad::right>},
                                 {"rjust", pad<Pad::left>},
                                 {"zfill", zfill}};

constexpr NamedFilter kDict[] = {{"get", get},
                                 {"items", view<Sequence::Type::items>},
                                 {"keys", view<Sequence::Type::keys>},
                                 {"values", view<Sequence::Type::values>},
                                 {"copy", copy},
                                 {"pop", refuse_change},
                                 {"popitem", refuse_change},
                                 {"update", refuse_change},
                                 {"setdefault", refuse_change},
                                 {"clear", refuse_change}};

constexpr NamedFilter kList[] = {{"count", count_in_list},  {"index", index_in_list},  {"copy", copy},
                                 {"append", refuse_change}, {"extend", refuse_change}, {"insert", refuse_change},
                                 {"pop", refuse_change},    {"remove", refuse_change}, {"reverse", refuse_change},
                                 {"sort", refuse_change},   {"clear", refuse_change}};
constexpr size_t kTupleMethods = 2;

}  // namespace

std::span<const NamedFilter> text_methods() { return kText; }

std::span<const NamedFilter> container_methods(const Value& object) {
  if (object.is_dict()) return kDict;
  if (!object.is_sequence() || !object.sequence()->has_index()) return {};
  const std::span<const NamedFilter> all = kList;
  return object.sequence()->type == Sequence::Type::list ? all : all.first(kTupleMethods);
}

}  // namespace smelt::jinja
