// TemplateError: how the inside of src/jinja ends a parse or a rendering. It never leaves the folder: template.cpp
// turns it into a Result.
#pragma once

#include <stdexcept>
#include <string>

namespace smelt::jinja {

struct TemplateError : std::runtime_error {
  explicit TemplateError(const std::string& what, int at_line = 0) : std::runtime_error(what), line(at_line) {}
  int line;  // of the template; 0: not known yet
};

}  // namespace smelt::jinja
