#include "server/page.h"

// page.S has the bytes.
extern "C" {
extern const char smelt_page_html[], smelt_page_html_end[];
extern const char smelt_page_style[], smelt_page_style_end[];
extern const char smelt_page_app[], smelt_page_app_end[];
extern const char smelt_page_markdown[], smelt_page_markdown_end[];
extern const char smelt_page_branches[], smelt_page_branches_end[];
extern const char smelt_page_highlight[], smelt_page_highlight_end[];
extern const char smelt_page_maths[], smelt_page_maths_end[];
extern const char smelt_page_live[], smelt_page_live_end[];
extern const char smelt_page_store[], smelt_page_store_end[];
}

namespace smelt {
namespace {

std::string_view between(const char* begin, const char* end) { return {begin, static_cast<size_t>(end - begin)}; }

}  // namespace

const PageFile* page_file(std::string_view path) {
  constexpr const char* kHtml = "text/html; charset=utf-8";
  constexpr const char* kScript = "text/javascript; charset=utf-8";
  static const PageFile files[] = {
      {"/", kHtml, between(smelt_page_html, smelt_page_html_end)},
      {"/index.html", kHtml, between(smelt_page_html, smelt_page_html_end)},
      {"/style.css", "text/css; charset=utf-8", between(smelt_page_style, smelt_page_style_end)},
      {"/app.js", kScript, between(smelt_page_app, smelt_page_app_end)},
      {"/markdown.js", kScript, between(smelt_page_markdown, smelt_page_markdown_end)},
      {"/branches.js", kScript, between(smelt_page_branches, smelt_page_branches_end)},
      {"/highlight.js", kScript, between(smelt_page_highlight, smelt_page_highlight_end)},
      {"/maths.js", kScript, between(smelt_page_maths, smelt_page_maths_end)},
      {"/live.js", kScript, between(smelt_page_live, smelt_page_live_end)},
      {"/store.js", kScript, between(smelt_page_store, smelt_page_store_end)},
  };
  for (const PageFile& file : files)
    if (file.path == path) return &file;
  return nullptr;
}

}  // namespace smelt
