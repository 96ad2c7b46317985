// Template: the Jinja that chat templates use, as Hugging Face transformers runs it (a sandbox without any way out:
// trim_blocks, lstrip_blocks, break and continue, tojson, raise_exception, strftime_now; `generation` tags are
// ignored).
//
//   auto t = Template::parse("{{ greeting }} {% for n in names %}{{ n | upper }}{% endfor %}");
//   t->render({{"greeting", "Hi"}, {"names", from_json(...)}})->bytes()
//
// The result is byte-equal with Python's jinja2. Every text knows which of its bytes came from outside (text.h).
// Time and memory of a rendering are bounded (limits.h). What jinja2 has and this has not: inheritance and includes,
// Markup (nothing is escaped), integers beyond 64 bits, the filters for web pages.
#pragma once

#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "jinja/limits.h"
#include "jinja/value.h"

namespace smelt::jinja {

using Context = std::vector<std::pair<std::string, Value>>;

struct RenderOptions {
  Limits limits;
  std::function<std::tm()> now;  // what strftime_now reads; empty: the clock
};

class Template {
 public:
  // Errors: "[template] line 3: expected 'endif'".
  static Result<Template> parse(std::string_view source);
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;
  ~Template();

  // Any number of threads may render one template.
  Result<Text> render(const Context& context, const RenderOptions& options = {}) const;

 private:
  struct State;
  explicit Template(std::unique_ptr<const State> state);
  std::unique_ptr<const State> state_;
};

}  // namespace smelt::jinja
