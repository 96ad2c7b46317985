#include "app/viz/live.h"

#include <random>

#include "base/hex.h"
#include "server/access.h"

namespace smelt {
namespace {

const HttpHeaders& headers_of_page() {
  static const HttpHeaders headers = {{"Content-Security-Policy", "frame-ancestors 'none'"},
                                      {"X-Content-Type-Options", "nosniff"},
                                      {"Referrer-Policy", "no-referrer"},
                                      {"Cross-Origin-Opener-Policy", "same-origin"},
                                      {"Cache-Control", "no-store"}};
  return headers;
}

HttpResponse plain(int status, const std::string& text) {
  return {.status = status, .type = "text/plain; charset=utf-8", .body = text + "\n"};
}

HttpResponse answer_to_question(const HttpRequest& request, const LivePage& live) {
  if (!live.what_if) return plain(404, "there is no model behind this page");
  if (request.method != "POST") return plain(405, "questions are posted");
  if (const auto problem = why_refused({.api_keys = {live.token}}, request, false))
    return plain(problem->status, "this is for the page that smelt viz has made");
  return {.body = live.what_if->answer(request.body).dump(), .headers = {{"Cache-Control", "no-store"}}};
}

}  // namespace

std::string new_token() {
  std::random_device random;
  const auto half = [&] { return uint64_t{random()} << 32 | random(); };
  return hex(half()) + hex(half());
}

HttpResponse answer_to(const HttpRequest& request, const LivePage& live) {
  if (const auto problem = why_refused({}, request, true)) return plain(problem->status, problem->message);
  if (request.path == "/what-if") return answer_to_question(request, live);
  if (request.path != "/") return plain(404, "there is no such path; the page is at /");
  if (request.method != "GET") return plain(405, "the page is only read");
  return {.type = "text/html; charset=utf-8", .body = live.page, .headers = headers_of_page()};
}

}  // namespace smelt
