#include "app/viz/page.h"

#include "base/ensure.h"

// page.S has the bytes.
extern "C" {
extern const char smelt_viz_page_begin[], smelt_viz_page_end[];
}

namespace smelt {
namespace {

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

std::string page_with(const std::vector<nlohmann::ordered_json>& recordings, const std::string& token) {
  const std::string_view page(smelt_viz_page_begin, static_cast<size_t>(smelt_viz_page_end - smelt_viz_page_begin));
  const nlohmann::ordered_json all(recordings);
  const std::string json = inside_html(all.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  std::string out;
  size_t done = 0;
  for (const auto& [place, text] :
       {std::pair<std::string_view, std::string_view>{"@CONNECT_SOURCE@", token.empty() ? "'none'" : "'self'"},
        {"@TOKEN@", token},
        {"@RECORDINGS@", json}}) {
    const size_t at = page.find(place, done);
    ENSURE(at != std::string_view::npos, "the page has no place for " + std::string(place));
    out += page.substr(done, at - done);
    out += text;
    done = at + place.size();
  }
  return out += page.substr(done);
}

}  // namespace smelt
