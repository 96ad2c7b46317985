// HttpServer: HTTP/1.1 over one listening socket. All connections are served by the thread that calls run(), and so are
// the handler and everything that is posted.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "server/http.h"

namespace smelt {

struct HttpLimits {
  size_t header_bytes = 32 << 10;
  size_t header_line_bytes = 16 << 10;
  size_t headers = 100;
  size_t body_bytes = 64 << 20;
  size_t unsent_bytes = 1 << 20;  // of a stream that its client does not read
  std::chrono::milliseconds header_time{10'000}, body_time{30'000}, stall_time{60'000}, idle_time{60'000};
  std::chrono::milliseconds ping_time{15'000};   // of silence in a stream, before its ping
  std::chrono::microseconds gather_time{1'000};  // that the tokens of a fast model may wait for those behind them
  std::chrono::milliseconds drain_time{30'000};  // for answers under way once the server is to end
};

// Files in PEM: with them the server speaks TLS, and nothing else.
struct HttpTls {
  std::string certificate_file, key_file;  // the chain, that of the server first
};

class HttpServer {
 public:
  // Binds and listens; `port` 0 takes a free one. An Error names the address, or the file.
  static Result<std::unique_ptr<HttpServer>> listen(const std::string& host, int port, HttpHandler handler,
                                                    const HttpLimits& limits = {},
                                                    const std::optional<HttpTls>& tls = {});
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;
  // Serves until drain() has let the last answer out, or stop(). True: every answer was given.
  bool run();
  // Runs `work` on the thread of run(), in the order in which all work was posted. From any thread.
  void post(std::function<void()> work);
  // The same, but where much is posted the thread is woken once in HttpLimits::gather_time for all of it: what it
  // writes to a connection is sent in one piece then.
  void post_soon(std::function<void()> work);
  // Takes no more connections, and no more requests on those that are open.
  void drain();
  void stop();
  // From now on SIGINT and SIGTERM call `on_first` and drain; the second one stops.
  void drain_on_signals(std::function<void()> on_first);

 private:
  class State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace smelt
