// A request of HTTP and the way to answer it, without a socket: what the routes see.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace smelt {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // "/v1/models", without what follows a "?"
  HttpHeaders headers = {};
  std::string body = {};

  // Of any case; empty where there is none.
  std::string_view header(std::string_view name) const;
};

// "%2F" becomes "/"; what is no such code stays.
std::string percent_decoded(std::string_view text);

struct HttpResponse {
  int status = 200;
  std::string type = "application/json";
  std::string body = {};
  HttpHeaders headers = {};
};

// The answer to one request: either send(), or begin(), any number of write() and end(). Used on the thread of the
// server; what is written after the client has gone is dropped.
class HttpReply {
 public:
  virtual ~HttpReply() = default;
  virtual void send(HttpResponse response) = 0;
  // `head.body` is empty. `ping` is written whenever nothing else was for a while; empty: nothing is.
  virtual void begin(HttpResponse head, std::string ping = {}) = 0;
  virtual void write(std::string_view data) = 0;
  virtual void end() = 0;
  // Called at most once: the client has gone, or reads too slowly, and the answer has not ended.
  virtual void when_gone(std::function<void()> callback) = 0;
};

using HttpHandler = std::function<void(HttpRequest, std::shared_ptr<HttpReply>)>;

}  // namespace smelt
