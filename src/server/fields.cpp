#include "server/fields.h"

#include <algorithm>
#include <cmath>

namespace smelt {
namespace {

constexpr int kDeepest = 128;

// Counts brackets, strings left out: the parser is not asked about what is nested too deeply.
bool is_too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepest) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

std::string bounds(auto least, auto most) {
  const auto text = [](auto x) {
    std::string t = std::to_string(x);
    if (t.find('.') != std::string::npos) t.erase(std::max(t.find_last_not_of('0'), t.find('.') + 1) + 1);
    return t;
  };
  return "from " + text(least) + " to " + text(most);
}

}  // namespace

const Json* Fields::find(const char* name) const {
  const auto at = object_.find(name);
  return at == object_.end() || at->is_null() ? nullptr : &*at;
}

void Fields::fail(const char* name, const std::string& message) {
  if (!problem_) problem_ = ApiError{.message = std::string(name) + ": " + message, .param = name};
}

bool Fields::flag(const char* name, bool otherwise) {
  const Json* value = find(name);
  if (!value) return otherwise;
  if (!value->is_boolean()) fail(name, "expected true or false");
  return value->is_boolean() ? value->get<bool>() : otherwise;
}

double Fields::number(const char* name, double least, double most, double otherwise) {
  const Json* value = find(name);
  if (!value) return otherwise;
  const double x = value->is_number() ? value->get<double>() : NAN;
  if (x >= least && x <= most) return x;
  fail(name, "expected a number " + bounds(least, most));
  return otherwise;
}

int64_t Fields::whole(const char* name, int64_t least, int64_t most, int64_t otherwise) {
  const Json* value = find(name);
  if (!value) return otherwise;
  const bool fits = value->is_number_unsigned() ? value->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)
                                                : value->is_number_integer();
  if (fits && value->get<int64_t>() >= least && value->get<int64_t>() <= most) return value->get<int64_t>();
  fail(name, "expected a whole number " + bounds(least, most));
  return otherwise;
}

std::string Fields::text(const char* name, std::string otherwise) {
  const Json* value = find(name);
  if (!value) return otherwise;
  if (value->is_string()) return value->get<std::string>();
  fail(name, "expected a string");
  return otherwise;
}

std::vector<std::string> Fields::texts(const char* name, size_t most, size_t longest) {
  const Json* value = find(name);
  if (!value) return {};
  const Json list = value->is_string() ? Json::array({*value}) : *value;
  const std::string expected = "expected a string, or up to " + std::to_string(most) + " of them, each of 1 to " +
                               std::to_string(longest) + " bytes";
  std::vector<std::string> texts;
  if (!list.is_array() || list.size() > most) return fail(name, expected), texts;
  for (const Json& one : list) {
    if (!one.is_string() || one.get_ref<const std::string&>().empty() ||
        one.get_ref<const std::string&>().size() > longest)
      return fail(name, expected), texts;
    texts.push_back(one);
  }
  return texts;
}

void Fields::refuse(const char* name, const Json& harmless, const char* advice) {
  const Json* value = find(name);
  if (value && *value != harmless) fail(name, std::string("not supported; ") + advice);
}

std::string text_field(const Json& object, const char* name) {
  const auto at = object.find(name);
  return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
}

ApiError wrong(const char* field, const std::string& what) {
  return {.message = field + (": " + what), .param = field};
}

std::optional<ApiError> parse_object(const std::string& body, Json& object) {
  if (is_too_deep(body))
    return ApiError{.message = "the body is nested more than " + std::to_string(kDeepest) + " times"};
  object = Json::parse(body, nullptr, false);
  if (object.is_discarded()) return ApiError{.message = "the body is no JSON"};
  if (!object.is_object()) return ApiError{.message = "the body is no JSON object"};
  return std::nullopt;
}

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace smelt
