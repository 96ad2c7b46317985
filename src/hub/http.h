// HTTP as downloads need it: GET, ranges, redirects that are safe to follow. By libcurl; proxies come from the usual
// variables (https_proxy, no_proxy, ...).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace smelt {

struct HttpRange {
  uint64_t begin = 0, end = 0;  // bytes, `end` not included
};

struct HttpAnswer {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string header(const std::string& name) const;
};

struct HttpRequest {
  std::string url;
  std::string token;  // sent as Authorization, to the host of `url` alone
  std::optional<HttpRange> range;
  std::string if_range;  // an ETag: the range counts only while the file has it
  // Sees the answer once its head is there; false: the body is not wanted. Not called for redirects.
  std::function<bool(const HttpAnswer&)> on_head;
  std::function<bool(std::string_view)> on_body;  // false: no more is wanted
  const std::atomic<bool>* cancel = nullptr;
};

struct HttpFailure {
  std::string message;       // a sentence without the URL
  bool is_passing = true;    // trying again may help
  bool was_stopped = false;  // by on_head, on_body or cancel
};

// The last answer of a chain of redirects. These lead from https to https alone, never from a public address to one of
// this machine or its network, and not past the tenth; `token` stays with the first host.
std::optional<HttpFailure> http_get(const HttpRequest& request, HttpAnswer& answer);

// The body of an answer with status 200, up to `limit` bytes.
Result<std::string> http_text(const std::string& url, const std::string& token, size_t limit,
                              const std::atomic<bool>* cancel);

// "host:port" of a URL, lower case, with the scheme's own port where it names none.
std::string host_of(const std::string& url);

}  // namespace smelt
