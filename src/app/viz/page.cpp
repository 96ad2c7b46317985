#include "app/viz/page.h"

#include "base/ensure.h"

// page.S has the bytes.
extern "C" {
extern const char smelt_viz_page_begin[], smelt_viz_page_end[];
}

namespace smelt {
namespace {

constexpr std::string_view kPlace = "@RECORDINGS@";

// JSON that ends no element of HTML, whatever its texts hold.
std::string inside_html(const std::string& json) {
  std::string out;
  out.reserve(json.size());
  for (char c : json) {
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  }
  return out;
}

}  // namespace

std::string page_with(const std::vector<nlohmann::ordered_json>& recordings) {
  const std::string_view page(smelt_viz_page_begin, static_cast<size_t>(smelt_viz_page_end - smelt_viz_page_begin));
  const size_t at = page.find(kPlace);
  ENSURE(at != std::string_view::npos, "the page has no place for recordings");
  const nlohmann::ordered_json all(recordings);
  const std::string json = all.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::string out(page.substr(0, at));
  out += inside_html(json);
  out += page.substr(at + kPlace.size());
  return out;
}

}  // namespace smelt
