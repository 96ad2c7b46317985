// Renders templates for tools/template_check: one line of JSON in, {"template": ..., "context": {...}, "now": [...]},
// and one line out, {"text": ...} or {"error": ...}.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "jinja/json.h"
#include "jinja/template.h"

using namespace smelt;
using nlohmann::ordered_json;

namespace {

Result<jinja::Text> rendered(const ordered_json& request) {
  SMELT_TRY(parsed, jinja::Template::parse(request["template"].get_ref<const std::string&>()));
  jinja::Context context;
  for (const auto& [name, value] : request["context"].items()) {
    context.emplace_back(name, jinja::from_json(value, jinja::Text::Origin::user));
  }
  jinja::RenderOptions options;
  options.now = [] {  // 26 July 2024, 14:05:09
    std::tm now{};
    now.tm_year = 124, now.tm_mon = 6, now.tm_mday = 26, now.tm_hour = 14, now.tm_min = 5, now.tm_sec = 9;
    now.tm_wday = 5, now.tm_yday = 207;
    return now;
  };
  return parsed.render(context, options);
}

}  // namespace

int main() {
  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);) {
    const auto text = rendered(ordered_json::parse(line));
    const ordered_json answer =
        text ? ordered_json{{"text", text->bytes()}} : ordered_json{{"error", text.error().message}};
    std::cout << answer.dump() << std::endl;
  }
}
