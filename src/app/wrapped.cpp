#include "app/wrapped.h"

#include <sstream>

namespace smelt {

std::string wrapped(const std::string& text, size_t width, size_t indent) {
  std::istringstream words(text);
  std::string out;
  size_t column = 0;
  for (std::string word; words >> word;) {
    if (column > 0 && column + 1 + word.size() > width) {
      out += "\n" + std::string(indent, ' ');
      column = 0;
    }
    out += (column > 0 ? " " : "") + word;
    column += (column > 0 ? 1 : 0) + word.size();
  }
  return out;
}

std::string clipped(const std::string& text, size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 3) + "...";
}

}  // namespace smelt
