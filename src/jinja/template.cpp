#include "jinja/template.h"

#include "base/printable.h"
#include "jinja/error.h"
#include "jinja/interpreter.h"
#include "jinja/parser.h"

namespace smelt::jinja {
namespace {

std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  return parts;
}

Error error_of(const TemplateError& error) {
  const std::string where = error.line > 0 ? "line " + std::to_string(error.line) + ": " : "";
  return {"[template] " + where + printable(error.what(), 1000)};
}

}  // namespace

struct Template::State {
  Body body;
};

Template::Template(std::unique_ptr<const State> state) : state_(std::move(state)) {}
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;
Template::~Template() = default;

Result<Template> Template::parse(std::string_view source) {
  try {
    return Template(std::make_unique<const State>(State{parse_template(source)}));
  } catch (const TemplateError& error) {
    return error_of(error);
  }
}

Result<Text> Template::render(const Context& context, const RenderOptions& options) const {
  try {
    Interpreter interpreter(options.limits, options.now ? options.now : local_time);
    return interpreter.render(state_->body, context);
  } catch (const TemplateError& error) {
    return error_of(error);
  }
}

}  // namespace smelt::jinja
