// libFuzzer target: any bytes as a chat template. It is refused with one line, or renders a small chat to valid UTF-8
// within its limits.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "jinja/json.h"
#include "jinja/template.h"
#include "text/utf8.h"

using namespace smelt;

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

template <class T>
void check_error(const Result<T>& result) {
  require(result.error().message.starts_with("[template] "));
  require(result.error().message.find('\n') == std::string::npos);
}

jinja::Context make_context() {
  const auto chat = nlohmann::ordered_json::parse(R"({
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "<|x|> 1+1? \u00fc"},
                 {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function",
                  "function": {"name": "add", "arguments": {"a": 1, "b": 1.5, "c": [null, true]}}}]}],
    "tools": [], "add_generation_prompt": true, "bos_token": "<s>"})");
  jinja::Context context;
  for (const auto& [name, value] : chat.items()) {
    context.emplace_back(name, jinja::from_json(value, jinja::Text::Origin::user));
  }
  return context;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const jinja::Context context = make_context();
  jinja::RenderOptions options;
  options.limits.operations = 100'000;
  options.limits.output = 1 << 20;
  const auto parsed = jinja::Template::parse(to_valid_utf8({reinterpret_cast<const char*>(bytes), size}));
  if (!parsed) return check_error(parsed), 0;
  const auto text = parsed->render(context, options);
  if (!text) return check_error(text), 0;
  require(text->size() <= options.limits.output);
  require(to_valid_utf8(text->bytes()) == text->bytes());
  for (const auto& [begin, end] : text->user()) require(begin < end && end <= text->size());
  return 0;
}
